package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonLocation;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import com.fasterxml.jackson.core.util.JsonRecyclerPools;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import org.apache.spark.unsafe.types.UTF8String;

/** Jackson, restricted to RFC 8259, and two positions in a document that Jackson doesn't provide. */
final class Json {
  /** Deeper nesting is refused: readers of the store commonly have this limit, too. */
  static final int MAX_DEPTH = 1000;

  /** Why a record that is cut off is unreadable. */
  static final String INCOMPLETE = "the JSON is incomplete";

  /** Accepts repeated keys, which {@link Keys} refuses. */
  static final JsonFactory FACTORY = factory(MAX_DEPTH);

  /** For values that become a member of a record. */
  static final JsonFactory MEMBERS = factory(MAX_DEPTH - 1);

  private static final VarHandle EIGHT_BYTES =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.nativeOrder());
  private static final long HIGH_BITS = 0x8080808080808080L;
  private static final long LOW_BITS = 0x0101010101010101L;
  private static final long NEWLINES = '\n' * LOW_BITS;

  private Json() {}

  private static JsonFactory factory(int depth) {
    return JsonFactory.builder()
        .streamReadConstraints(
            StreamReadConstraints.builder()
                .maxNestingDepth(depth)
                .maxStringLength(Integer.MAX_VALUE)
                .maxNumberLength(Integer.MAX_VALUE)
                .maxNameLength(Integer.MAX_VALUE)
                .build())
        // Records are small and many: pools that pass buffers from thread to thread took a twentieth of an ingest's CPU.
        .recyclerPool(JsonRecyclerPools.threadLocalPool())
        .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
        .build();
  }

  /** Where the current value starts in the bytes. */
  static int valueStart(JsonParser parser) {
    return (int) parser.currentTokenLocation().getByteOffset();
  }

  /**
   * Where the current value ends; for an object or array the parser must be at its last token. This searches for the end
   * of a string, so that the parser need not decode unused strings; the parser still checks them when it moves on.
   */
  static int valueEnd(JsonParser parser, byte[] bytes, int start) {
    return parser.currentToken() == JsonToken.VALUE_STRING
        ? Math.min(closingQuote(bytes, start) + 1, bytes.length)
        : (int) parser.currentLocation().getByteOffset();
  }

  /** Whether a string has its closing quote. */
  static boolean isClosed(byte[] bytes, int start) {
    return closingQuote(bytes, start) < bytes.length;
  }

  private static int closingQuote(byte[] bytes, int start) {
    int i = start + 1;
    while (i < bytes.length && bytes[i] != '"') {
      i += bytes[i] == '\\' ? 2 : 1;
    }
    return i;
  }

  static JsonParser parser(byte[] bytes) throws IOException {
    return parser(FACTORY, bytes);
  }

  /** A parser for UTF-8 only: from bytes of zero Jackson would guess UTF-16 or UTF-32, with other byte offsets. */
  static JsonParser parser(JsonFactory factory, byte[] bytes) throws IOException {
    boolean ascii = isAscii(bytes);
    if (!ascii && !UTF8String.fromBytes(bytes).isValid()) {
      throw new IOException("the bytes are not UTF-8");
    }
    if (!ascii && bytes[0] == (byte) 0xEF) {
      throw new IOException("a byte order mark is not at the start of a file");
    }
    return factory.createParser(bytes);
  }

  /** Where the first line in {@code bytes[from, to)} ends: its \\n, or {@code to}. Reads eight bytes at a time. */
  static int lineEnd(byte[] bytes, int from, int to) {
    int i = from;
    while (i <= to - Long.BYTES && zeroes((long) EIGHT_BYTES.get(bytes, i) ^ NEWLINES) == 0) {
      i += Long.BYTES;
    }
    while (i < to && bytes[i] != '\n') {
      i++;
    }
    return i;
  }

  /** High bits: set for each byte that is 0, and for no other. */
  private static long zeroes(long eight) {
    return (eight - LOW_BITS) & ~eight & HIGH_BITS;
  }

  /** Whether no byte has its high bit set; reads eight at a time, as each record is checked. */
  private static boolean isAscii(byte[] bytes) throws IOException {
    long high = 0;
    long zero = 0;
    int i = 0;
    for (; i <= bytes.length - Long.BYTES; i += Long.BYTES) {
      long eight = (long) EIGHT_BYTES.get(bytes, i);
      high |= eight;
      zero |= zeroes(eight);
    }
    for (; i < bytes.length; i++) {
      high |= bytes[i];
      zero |= bytes[i] == 0 ? HIGH_BITS : 0;
    }
    if (zero != 0) {
      throw new IOException("there is a NUL byte in it");
    }
    return (high & HIGH_BITS) == 0;
  }

  static boolean startsWithByteOrderMark(byte[] bytes) {
    return bytes.length >= 3 && (bytes[0] & 0xFF) == 0xEF && (bytes[1] & 0xFF) == 0xBB && (bytes[2] & 0xFF) == 0xBF;
  }

  /** Why the bytes are no JSON, in one line and in our own words: the parser's messages name its classes. */
  static String explain(Exception e) {
    if (e instanceof StreamConstraintsException) {
      return "it is nested deeper than " + MAX_DEPTH;
    }
    if (e instanceof JsonProcessingException j) {
      if (j.getOriginalMessage().startsWith("Unexpected end-of-input")) {
        return INCOMPLETE;
      }
      JsonLocation at = j.getLocation();
      return "it is not JSON" + (at == null ? "" : ": unexpected input before byte " + at.getByteOffset());
    }
    String line = String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
    return line.length() > 300 ? line.substring(0, 300) : line;
  }
}
