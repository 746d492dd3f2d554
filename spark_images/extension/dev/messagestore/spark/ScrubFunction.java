package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code scrub_json(value binary, paths array<string>, method string, given string)}: the JSON document without the values
 * at the paths, with all other bytes unchanged. Method Redact replaces a value by the string {@code given}, Hash by its
 * keyed hash with the key in the variable {@code given}, Drop removes the member. Null if nothing is left or the bytes are
 * no JSON.
 */
public final class ScrubFunction extends CatalogFunction<byte[]> {
  private final Parsed<ArrayData, JsonPaths> parsed = new Parsed<>();
  private final KeyedHashFunction.KeyVariable keys = new KeyedHashFunction.KeyVariable();

  ScrubFunction() {
    super(
        "scrub_json",
        DataTypes.BinaryType,
        DataTypes.BinaryType,
        DataTypes.createArrayType(DataTypes.StringType),
        DataTypes.StringType,
        DataTypes.StringType);
  }

  public byte[] invoke(byte[] value, ArrayData paths, UTF8String method, UTF8String given) {
    if (value == null) {
      return null;
    }
    return JsonScrub.scrub(value, parsed.of(paths, ArrayData::copy, ScrubFunction::parse), mask(method.toString(), given));
  }

  private static JsonPaths parse(ArrayData texts) {
    return JsonPaths.of(IntStream.range(0, texts.numElements()).mapToObj(i -> texts.getUTF8String(i).toString()).toList());
  }

  private JsonScrub.Mask mask(String method, UTF8String given) {
    return switch (method) {
      case "Redact" -> (bytes, token, start, end) -> quoted(given.toString());
      case "Hash" -> (bytes, token, start, end) -> quoted(KeyedHashFunction.hex(text(bytes, token, start, end), keys.of(given)));
      case "Drop" -> null;
      default -> throw new IllegalArgumentException("no method of scrubbing: " + method);
    };
  }

  private static byte[] quoted(String plain) {
    return ('"' + plain + '"').getBytes(StandardCharsets.UTF_8);
  }

  /** A string's characters, so that its hash doesn't depend on escapes; else the exact JSON text. */
  private static byte[] text(byte[] bytes, JsonToken token, int start, int end) throws IOException {
    try {
      return new Slices(bytes, 0).text(token, start, end).getBytes();
    } catch (Slices.LoneSurrogateException e) {
      return Arrays.copyOfRange(bytes, start, end);
    }
  }

  /** Removes the values at some paths of one JSON document, and leaves all other bytes unchanged. */
  private static final class JsonScrub {
    /** The replacement of a value, as JSON text; null if the value is removed without a trace. */
    interface Mask {
      byte[] of(byte[] bytes, JsonToken token, int start, int end) throws IOException;
    }

    private record Edit(int start, int end, byte[] replacement) {}

    private static final byte[] NOTHING = new byte[0];
    private static final byte[] NULL = {'n', 'u', 'l', 'l'};

    private final byte[] bytes;
    private final Mask mask;
    private final List<Edit> edits = new ArrayList<>();

    private JsonScrub(byte[] bytes, Mask mask) {
      this.bytes = bytes;
      this.mask = mask;
    }

    /**
     * The document without the values at the paths, of which one makes longer ones below it irrelevant; null if nothing
     * is left, or if it is no JSON and can't be searched.
     *
     * @param mask gives the replacement of a value, or null if members are dropped
     */
    static byte[] scrub(byte[] bytes, JsonPaths paths, Mask mask) {
      // Both values of a repeated key are scrubbed.
      try (JsonParser parser = Json.parser(bytes)) {
        if (parser.nextToken() == null) {
          return null;
        }
        JsonScrub scrub = new JsonScrub(bytes, mask);
        scrub.value(parser, paths, null);
        return parser.nextToken() != null || isLeaf(paths) && mask == null ? null : scrub.edited();
      } catch (IOException e) {
        return null;
      }
    }

    /** Walks the parser's current value and returns where it ends. */
    private int value(JsonParser parser, JsonPaths node, byte[] dropped) throws IOException {
      JsonToken token = parser.currentToken();
      int start = Json.valueStart(parser);
      boolean leadsOn = node != null && !isLeaf(node);
      if (leadsOn && token == JsonToken.START_OBJECT) {
        object(parser, node, start);
      } else if (leadsOn && token == JsonToken.START_ARRAY) {
        array(parser, node);
      } else {
        parser.skipChildren();
      }
      int end = Json.valueEnd(parser, bytes, start);
      if (isLeaf(node) && token != JsonToken.VALUE_NULL) {
        byte[] replacement = mask == null ? dropped : mask.of(bytes, token, start, end);
        if (replacement != null) {
          edits.add(new Edit(start, end, replacement));
        }
      }
      return end;
    }

    /** A dropped member's comma is dropped, too: the one after it, or before it if no later member stays. */
    private void object(JsonParser parser, JsonPaths node, int start) throws IOException {
      int end = start + 1;
      int staysTo = -1;
      int goesFrom = -1;
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        JsonPaths child = node.step(parser.currentName());
        int memberStart = nextQuote(end);
        parser.nextToken();
        boolean goes = isLeaf(child) && mask == null;
        if (goes && goesFrom < 0) {
          goesFrom = memberStart;
        } else if (!goes && goesFrom >= 0) {
          edits.add(new Edit(goesFrom, memberStart, NOTHING));
          goesFrom = -1;
        }
        end = value(parser, child, null);
        staysTo = goes ? staysTo : end;
      }
      if (goesFrom >= 0) {
        edits.add(new Edit(staysTo >= 0 ? staysTo : goesFrom, end, NOTHING));
      }
    }

    /** A dropped element becomes null, so that the others keep their indexes. */
    private void array(JsonParser parser, JsonPaths node) throws IOException {
      int i = 0;
      while (parser.nextToken() != JsonToken.END_ARRAY) {
        value(parser, node.step(i++), NULL);
      }
    }

    /** Whether what is here is scrubbed; null: no path leads here. */
    private static boolean isLeaf(JsonPaths node) {
      return node != null && node.field() >= 0;
    }

    /** Where the next member starts: only white space and a comma come before its name. */
    private int nextQuote(int from) {
      int i = from;
      while (bytes[i] != '"') {
        i++;
      }
      return i;
    }

    private byte[] edited() {
      ByteArrayOutputStream out = new ByteArrayOutputStream(bytes.length);
      int at = 0;
      for (Edit edit : edits) {
        out.write(bytes, at, edit.start() - at);
        out.writeBytes(edit.replacement());
        at = edit.end();
      }
      out.write(bytes, at, bytes.length - at);
      return out.toByteArray();
    }
  }
}
