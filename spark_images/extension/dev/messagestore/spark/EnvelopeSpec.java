package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.messagestore.spark.Envelope.RefusedException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToIntFunction;

/**
 * Where a stream's records have the canonical fields: {@code {"paths": {"messageId": ["headers", "X-Id"], …},
 * "contentType": default, "restAsHeaders": bool, "known": [name, …], "otherwise": text,
 * "unwrap": [step, …], "outer": [{"level": n, "paths": {…}}, …]}}, of which the last three may be absent.
 *
 * @param paths the paths to look for in each record
 * @param headers the end of the headers' path, or null
 * @param contentType for records without one
 * @param restAsHeaders whether members of the root without a path are headers (CloudEvents' extensions); members with a
 *     path are then strings
 * @param known names of members of the root that a record may have without a path; if empty, any
 * @param otherwise what to say about a record that is several, or an array
 * @param unwrap the steps to the record that has the fields
 * @param outer the records around it that have some of them
 */
record EnvelopeSpec(
    JsonPaths paths,
    JsonPaths headers,
    String contentType,
    boolean restAsHeaders,
    Set<String> known,
    String otherwise,
    List<Unwrap> unwrap,
    List<Around> outer) {
  /**
   * One step from a record to the record within it: an object, or a string that holds one.
   *
   * @param path where it is
   * @param name of the step, for people
   * @param base64 whether a string is the base64 of an object
   */
  record Unwrap(JsonPaths path, String name, boolean base64) {
    /** The steps of {@code [{"path": steps, "text": path as people write it, "base64": bool}, …]}. */
    static List<Unwrap> parse(JsonNode steps) {
      List<Unwrap> parsed = new ArrayList<>();
      for (JsonNode step : steps) {
        JsonPaths path = new JsonPaths();
        path.add(steps(step.get("path")), 0);
        String name = "unwrap " + (parsed.size() + 1) + ", " + step.get("text").asText() + ": ";
        parsed.add(new Unwrap(path, name, step.get("base64").asBoolean()));
      }
      return parsed;
    }

    /** Where the innermost record is, to stand before words about it; empty without steps. */
    static String where(List<Unwrap> steps) {
      return steps.isEmpty() ? "" : steps.get(steps.size() - 1).name();
    }

    /** The bytes of each record, the innermost last. */
    static List<byte[]> records(byte[] record, List<Unwrap> steps) throws RefusedException {
      List<byte[]> records = new ArrayList<>(1 + steps.size());
      records.add(record);
      String where = "";
      for (Unwrap step : steps) {
        records.add(step.within(records.get(records.size() - 1), where));
        where = step.name();
      }
      return records;
    }

    private byte[] within(byte[] record, String where) throws RefusedException {
      Slices slices = new Slices(record, 1);
      try (JsonParser parser = Json.parser(record)) {
        if (parser.nextToken() == null) {
          throw new IOException("it is empty");
        }
        path.walk(parser, slices);
        if (parser.nextToken() != null) {
          throw new IOException("something follows the document");
        }
      } catch (IOException e) {
        throw new RefusedException(Envelope.UNPARSEABLE, where + Json.explain(e));
      }
      if (!slices.has(0)) {
        throw new RefusedException(Envelope.MISSING_FIELD, name + "it is absent or null");
      }
      if (slices.token(0) == JsonToken.START_OBJECT) {
        return slices.json(0);
      }
      return ofString(slices);
    }

    private byte[] ofString(Slices slices) throws RefusedException {
      if (slices.token(0) != JsonToken.VALUE_STRING) {
        throw new RefusedException(Envelope.UNPARSEABLE, name + "it is neither an object nor a string");
      }
      try {
        byte[] text = slices.text(slices.token(0), slices.start(0), slices.end(0)).getBytes();
        return base64 ? Base64.getDecoder().decode(text) : text;
      } catch (IllegalArgumentException e) {
        throw new RefusedException(Envelope.UNPARSEABLE, name + "it is no base64");
      } catch (IOException e) {
        throw new RefusedException(Envelope.UNPARSEABLE, name + "it " + e.getMessage());
      }
    }
  }

  /**
   * The unwrapped record, or one around it.
   *
   * @param level how many steps it is away from the unwrapped one
   * @param fields the slices of the fields that it has
   */
  record Around(int level, JsonPaths paths, JsonPaths headers, List<Integer> fields) {
    /** The record {@code level} steps away, with the paths of its fields by their names. */
    static Around parse(int level, JsonNode pathsByName, ToIntFunction<String> field) {
      JsonPaths paths = new JsonPaths();
      List<Integer> fields = new ArrayList<>();
      JsonPaths headers = null;
      for (Map.Entry<String, JsonNode> e : pathsByName.properties()) {
        fields.add(field.applyAsInt(e.getKey()));
        JsonPaths end = paths.add(steps(e.getValue()), fields.get(fields.size() - 1));
        headers = e.getKey().equals("headers") ? end : headers;
      }
      return new Around(level, paths, headers, fields);
    }
  }

  /** Parses the JSON; {@code field} gives the slice of a field's name. */
  static EnvelopeSpec parse(String json, ToIntFunction<String> field) {
    try {
      JsonNode root = new ObjectMapper().readTree(json);
      Around innermost = Around.parse(0, root.get("paths"), field);
      List<Around> outer = new ArrayList<>();
      root.path("outer").forEach(one -> outer.add(Around.parse(one.get("level").asInt(), one.get("paths"), field)));
      Set<String> known = new HashSet<>();
      root.get("known").forEach(name -> known.add(name.asText()));
      return new EnvelopeSpec(
          innermost.paths(),
          innermost.headers(),
          root.get("contentType").asText(),
          root.get("restAsHeaders").asBoolean(),
          known,
          root.path("otherwise").asText(""),
          Unwrap.parse(root.path("unwrap")),
          outer);
    } catch (IOException e) {
      throw new IllegalArgumentException("not the JSON of an envelope specification", e);
    }
  }

  static List<Object> steps(JsonNode path) {
    List<Object> steps = new ArrayList<>();
    path.forEach(step -> steps.add(step.isInt() ? (Object) step.asInt() : step.asText()));
    return steps;
  }
}
