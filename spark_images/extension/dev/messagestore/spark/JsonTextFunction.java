package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code json_text(value binary, path string)}: the value at the path, a string unescaped and others as their exact JSON
 * text; null if there is no value at the path or the bytes are no JSON.
 */
public final class JsonTextFunction extends CatalogFunction<UTF8String> {
  private static final Pattern STEP =
      Pattern.compile("\\.([A-Za-z_][A-Za-z0-9_-]*)|\\['((?:[^'\\\\]|\\\\.)*)'\\]|\\[(\\d{1,9})\\]");

  private final Parsed<UTF8String, JsonPaths> parsed = new Parsed<>();

  JsonTextFunction() {
    super("json_text", DataTypes.StringType, DataTypes.BinaryType, DataTypes.StringType);
  }

  /** Called by generated code. */
  public UTF8String invoke(byte[] value, UTF8String path) {
    if (value == null) {
      return null;
    }
    JsonPaths paths = parsed.of(path, UTF8String::copy, JsonTextFunction::only);
    Slices slices = new Slices(value, 1);
    try (JsonParser parser = Json.parser(value)) {
      if (parser.nextToken() == null) {
        return null;
      }
      paths.walk(parser, slices);
      return parser.nextToken() == null && slices.has(0) ? slices.text(slices.token(0), slices.start(0), slices.end(0)) : null;
    } catch (IOException e) {
      return null;
    }
  }

  private static JsonPaths only(UTF8String path) {
    JsonPaths paths = new JsonPaths();
    paths.add(steps(path.toString()), 0);
    return paths;
  }

  static List<Object> steps(String path) {
    List<Object> steps = new ArrayList<>();
    Matcher step = STEP.matcher(path).region(1, path.length());
    int at = 1;
    while (at < path.length()) {
      if (!step.find(at) || step.start() != at) {
        throw new IllegalArgumentException("not a path: " + path);
      }
      String quoted = step.group(2);
      if (step.group(3) != null) {
        steps.add(Integer.valueOf(step.group(3)));
      } else {
        steps.add(quoted == null ? step.group(1) : quoted.replaceAll("\\\\(.)", "$1"));
      }
      at = step.end();
    }
    return steps;
  }
}
