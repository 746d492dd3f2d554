package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Paths to look for in one walk over a document. A step is a name (String) or an index of an array (Integer). */
final class JsonPaths {
  private static final Pattern STEP =
      Pattern.compile("\\.([A-Za-z_][A-Za-z0-9_-]*)|\\['((?:[^'\\\\]|\\\\.)*)'\\]|\\[(\\d{1,9})\\]");

  private final Map<Object, JsonPaths> steps = new HashMap<>();
  private final List<Integer> fields = new ArrayList<>();

  /** Paths as people write them, whose values become slices 0, 1, …. */
  static JsonPaths of(List<String> texts) {
    JsonPaths paths = new JsonPaths();
    for (int i = 0; i < texts.size(); i++) {
      paths.add(steps(texts.get(i)), i);
    }
    return paths;
  }

  private static List<Object> steps(String path) {
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

  /** Adds {@code path}, whose value becomes slice {@code field}. Returns the path's end. */
  JsonPaths add(List<Object> path, int field) {
    JsonPaths node = this;
    for (Object step : path) {
      node = node.steps.computeIfAbsent(step, s -> new JsonPaths());
    }
    node.fields.add(field);
    return node;
  }

  /** The node at a step; null if no path leads there. */
  JsonPaths step(Object step) {
    return steps.get(step);
  }

  boolean hasSteps() {
    return !steps.isEmpty();
  }

  /** The field of a path that ends here, or -1. */
  int field() {
    return fields.isEmpty() ? -1 : fields.get(0);
  }

  /** Walks the parser's current value to its end, and records the slices of values at the paths. */
  void walk(JsonParser parser, Slices into) throws IOException {
    JsonToken token = parser.currentToken();
    int start = fields.isEmpty() ? 0 : Json.valueStart(parser);
    if (token == JsonToken.START_OBJECT && (!steps.isEmpty() || into.takesRest(this) || into.takesHeaders(this))) {
      walkObject(parser, into);
    } else if (token == JsonToken.START_ARRAY && !steps.isEmpty()) {
      walkArray(parser, into);
    } else {
      into.keys().skip(parser);
    }
    if (!fields.isEmpty()) {
      int end = into.endOf(parser, start);
      for (int field : fields) {
        into.put(field, token, start, end);
      }
    }
  }

  private void walkObject(JsonParser parser, Slices into) throws IOException {
    boolean headers = into.takesHeaders(this);
    boolean rest = into.takesRest(this);
    int object = into.keys().enter();
    for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
      into.keys().add(object, name);
      JsonPaths child = steps.get(name);
      JsonToken token = parser.nextToken();
      int start = headers || rest ? Json.valueStart(parser) : 0;
      if (child != null) {
        child.walk(parser, into);
      } else {
        into.keys().skip(parser);
        into.passedOver(this, name);
      }
      if (headers) {
        into.headers().add(new Slices.Member(name, token, start, into.endOf(parser, start)));
      }
      if (rest && child == null) {
        into.rest().add(new Slices.Member(name, token, start, into.endOf(parser, start)));
      }
    }
    into.keys().leave(object);
  }

  private void walkArray(JsonParser parser, Slices into) throws IOException {
    int i = 0;
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      JsonPaths child = steps.get(i++);
      if (child != null) {
        child.walk(parser, into);
      } else {
        into.keys().skip(parser);
      }
    }
  }
}
