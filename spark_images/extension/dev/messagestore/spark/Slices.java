package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.spark.unsafe.types.UTF8String;

/** The results of a walk over one document: a slice of its bytes for each field, so that values stay exact. */
final class Slices {
  /** A member of an object. */
  record Member(String name, JsonToken token, int start, int end) {}

  private final byte[] bytes;
  private final JsonToken[] tokens;
  private final int[] starts;
  private final int[] ends;
  private final JsonPaths restOf;
  private final JsonPaths headersOf;
  private final JsonPaths root;
  private final Set<String> known;
  private String unknown;
  private final List<Member> rest = new ArrayList<>(0);
  private final List<Member> headers = new ArrayList<>(4);
  private final Keys keys = new Keys();

  /** The slices of fields that are in another document; null while all are in this one. */
  private Slices[] others;

  Slices(byte[] bytes, int fields) {
    this(bytes, fields, null, null, null, Set.of());
  }

  Slices(byte[] bytes, int fields, EnvelopeSpec spec) {
    this(bytes, fields, spec.restAsHeaders() ? spec.paths() : null, spec.headers(), spec.paths(), spec.known());
  }

  /**
   * @param restOf the node whose other members are needed, too, or null
   * @param headersOf the node whose members are all needed, or null
   * @param root the node whose other members are checked for unknown names, or null
   * @param known the known names; if empty, nothing is checked
   */
  private Slices(
      byte[] bytes, int fields, JsonPaths restOf, JsonPaths headersOf, JsonPaths root, Set<String> known) {
    this.bytes = bytes;
    this.tokens = new JsonToken[fields];
    this.starts = new int[fields];
    this.ends = new int[fields];
    this.restOf = restOf;
    this.headersOf = headersOf;
    this.root = known.isEmpty() ? null : root;
    this.known = known;
  }

  /** Takes a field from another document. */
  void take(int field, Slices other) {
    others = others == null ? new Slices[tokens.length] : others;
    others[field] = other;
  }

  /** The slices that have a field. */
  Slices of(int field) {
    return others == null || others[field] == null ? this : others[field];
  }

  /** Slices of the same fields in another document. */
  Slices elsewhere(byte[] other, EnvelopeSpec.Around around) {
    return new Slices(other, tokens.length, null, around.headers(), null, Set.of());
  }

  boolean takesRest(JsonPaths node) {
    return node == restOf;
  }

  boolean takesHeaders(JsonPaths node) {
    return node == headersOf;
  }

  List<Member> rest() {
    return rest;
  }

  List<Member> headers() {
    return headers;
  }

  /** Records a member that no path needs. */
  void passedOver(JsonPaths node, String name) {
    if (node == root && unknown == null && !known.contains(name)) {
      unknown = name;
    }
  }

  /** The name of the first unknown member, or null. */
  String unknown() {
    return unknown;
  }

  /** The keys of the objects that the walk is inside of. */
  Keys keys() {
    return keys;
  }

  int endOf(JsonParser parser, int start) {
    return Json.valueEnd(parser, bytes, start);
  }

  void put(int field, JsonToken token, int start, int end) {
    tokens[field] = token;
    starts[field] = start;
    ends[field] = end;
  }

  /** Forgets a string in which the bytes end: the walk has noted it before it was read. */
  void forgetUnclosed() {
    for (int field = 0; field < tokens.length; field++) {
      if (tokens[field] == JsonToken.VALUE_STRING && !Json.isClosed(bytes, starts[field])) {
        tokens[field] = null;
      }
    }
  }

  /** Whether the field is present and not null. */
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
      return UTF8String.fromBytes(bytes, start, end - start);
    }
    for (int i = start + 1; i < end - 1; i++) {
      if (bytes[i] == '\\') {
        return unescaped(start, end);
      }
    }
    return UTF8String.fromBytes(bytes, start + 1, end - start - 2);
  }

  private UTF8String unescaped(int start, int end) throws IOException {
    try (JsonParser parser = Json.FACTORY.createParser(bytes, start, end - start)) {
      parser.nextToken();
      String text = parser.getText();
      if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
        throw new LoneSurrogateException();
      }
      return UTF8String.fromString(text);
    }
  }

  /** An escape such as \ud800 is half a character: RFC 8259 allows it, UTF-8 can't represent it. */
  static final class LoneSurrogateException extends IOException {
    LoneSurrogateException() {
      super("holds half of a surrogate pair, which is no character");
    }
  }
}
