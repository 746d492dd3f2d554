package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code scrub_json(value binary, paths array<string>, method string, given string)}: the JSON document without what lies at
 * the paths, all its other bytes as they were. Method Redact puts {@code given} as a string where a value was, Hash its keyed
 * hash with the key whose variable {@code given} names, Drop takes the member out. Null where nothing is left, or where the
 * value is no JSON.
 */
public final class ScrubFunction extends CatalogFunction<byte[]> {
  private final Parsed<ArrayData, JsonScrub.Paths> parsed = new Parsed<>();
  private final KeyVariable keys = new KeyVariable();

  ScrubFunction() {
    super(
        "scrub_json",
        DataTypes.BinaryType,
        DataTypes.BinaryType,
        DataTypes.createArrayType(DataTypes.StringType),
        DataTypes.StringType,
        DataTypes.StringType);
  }

  /** Called by generated code. */
  public byte[] invoke(byte[] value, ArrayData paths, UTF8String method, UTF8String given) {
    if (value == null) {
      return null;
    }
    JsonScrub.Paths found = parsed.of(paths, ArrayData::copy, ScrubFunction::parse);
    return JsonScrub.scrub(value, found, mask(method.toString(), given));
  }

  private static JsonScrub.Paths parse(ArrayData texts) {
    JsonScrub.Paths paths = new JsonScrub.Paths();
    for (int i = 0; i < texts.numElements(); i++) {
      paths.add(JsonTextFunction.steps(texts.getUTF8String(i).toString()));
    }
    return paths;
  }

  private JsonScrub.Mask mask(String method, UTF8String given) {
    return switch (method) {
      case "Redact" -> (bytes, token, start, end) -> quoted(given.toString());
      case "Hash" -> (bytes, token, start, end) -> quoted(HmacFunction.hex(text(bytes, token, start, end), keys.of(given)));
      case "Drop" -> null;
      default -> throw new IllegalArgumentException("no method of scrubbing: " + method);
    };
  }

  private static byte[] quoted(String plain) {
    return ('"' + plain + '"').getBytes(StandardCharsets.UTF_8);
  }

  /** A string's characters, so that a value hashes alike however it was escaped; else the exact JSON text. */
  private static byte[] text(byte[] bytes, JsonToken token, int start, int end) throws IOException {
    try {
      return new Slices(bytes, 0).text(token, start, end).getBytes();
    } catch (Slices.LoneSurrogateException e) {
      return Arrays.copyOfRange(bytes, start, end);
    }
  }
}
