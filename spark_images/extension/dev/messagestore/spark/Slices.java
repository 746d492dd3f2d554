package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.unsafe.types.UTF8String;

/** What a walk found in one document: a slice of its bytes for each field, so that values come out as they went in. */
final class Slices {
  /** A member of the root that no path asked for. */
  record Rest(String name, JsonToken token, int start, int end) {}

  private final byte[] bytes;
  private final JsonToken[] tokens;
  private final int[] starts;
  private final int[] ends;
  private final JsonPaths restOf;
  private final List<Rest> rest = new ArrayList<>();

  /**
   * @param restOf the node whose other members are wanted too, or null
   */
  Slices(byte[] bytes, int fields, JsonPaths restOf) {
    this.bytes = bytes;
    this.tokens = new JsonToken[fields];
    this.starts = new int[fields];
    this.ends = new int[fields];
    this.restOf = restOf;
  }

  boolean takesRest(JsonPaths node) {
    return node == restOf;
  }

  List<Rest> rest() {
    return rest;
  }

  int startOf(JsonParser parser) {
    return Json.valueStart(parser, 0);
  }

  int endOf(JsonParser parser, int start) {
    return Json.valueEnd(parser, bytes, 0, start);
  }

  void put(int field, JsonToken token, int start, int end) {
    tokens[field] = token;
    starts[field] = start;
    ends[field] = end;
  }

  void putRest(String name, JsonToken token, int start, int end) {
    rest.add(new Rest(name, token, start, end));
  }

  /** Whether the field is there and not null. */
  boolean has(int field) {
    return tokens[field] != null && tokens[field] != JsonToken.VALUE_NULL;
  }

  JsonToken token(int field) {
    return tokens[field];
  }

  /** The exact bytes of a field's JSON text. */
  byte[] json(int field) {
    return Arrays.copyOfRange(bytes, starts[field], ends[field]);
  }

  int start(int field) {
    return starts[field];
  }

  int end(int field) {
    return ends[field];
  }

  /** A value as text: a string's characters, the exact JSON text of anything else. */
  UTF8String text(JsonToken token, int start, int end) throws IOException {
    if (token != JsonToken.VALUE_STRING) {
      return UTF8String.fromBytes(Arrays.copyOfRange(bytes, start, end));
    }
    for (int i = start + 1; i < end - 1; i++) {
      if (bytes[i] == '\\') {
        return unescaped(start, end);
      }
    }
    return UTF8String.fromBytes(Arrays.copyOfRange(bytes, start + 1, end - 1));
  }

  private UTF8String unescaped(int start, int end) throws IOException {
    try (JsonParser parser = Json.STRICT.createParser(bytes, start, end - start)) {
      parser.nextToken();
      String text = parser.getText();
      if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
        throw new LoneSurrogateException();
      }
      return UTF8String.fromString(text);
    }
  }

  /** An escape such as \ud800 names half a character: RFC 8259 lets it pass, no UTF-8 text can hold it. */
  static final class LoneSurrogateException extends IOException {
    LoneSurrogateException() {
      super("holds half of a surrogate pair, which is no character");
    }
  }
}
