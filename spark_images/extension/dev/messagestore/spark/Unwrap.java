package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

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
      path.add(EnvelopeSpec.steps(step.get("path")), 0);
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

  /** There is no record within a record. */
  static final class RefusedException extends Exception {
    private final String reason;

    RefusedException(String reason, String message) {
      super(message, null, false, false);
      this.reason = reason;
    }

    String reason() {
      return reason;
    }
  }
}
