package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import org.apache.spark.unsafe.types.UTF8String;

/** Jackson, held to RFC 8259, and the two places in a document that it does not name by itself. */
final class Json {
  /** Deeper nesting is refused: readers of the store commonly stop there too. */
  static final int MAX_DEPTH = 1000;

  static final JsonFactory STRICT = factory(true);
  static final JsonFactory LENIENT_ON_KEYS = factory(false);

  private Json() {}

  private static JsonFactory factory(boolean refuseDuplicateKeys) {
    return JsonFactory.builder()
        .streamReadConstraints(
            StreamReadConstraints.builder()
                .maxNestingDepth(MAX_DEPTH)
                .maxStringLength(Integer.MAX_VALUE)
                .maxNumberLength(Integer.MAX_VALUE)
                .maxNameLength(Integer.MAX_VALUE)
                .build())
        .configure(StreamReadFeature.STRICT_DUPLICATE_DETECTION, refuseDuplicateKeys)
        .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
        .build();
  }

  /** Where the current value starts in the bytes that the parser was made over from {@code base} on. */
  static int valueStart(JsonParser parser, int base) {
    return base + (int) parser.currentTokenLocation().getByteOffset();
  }

  /**
   * Where the current value ends; of an object or array the parser must stand at its last token. A string's end is looked
   * for here, so that the parser need not decode what nobody asked for; it still checks it when it moves on.
   */
  static int valueEnd(JsonParser parser, byte[] bytes, int base, int start) {
    if (parser.currentToken() == JsonToken.VALUE_STRING) {
      return stringEnd(bytes, start);
    }
    return base + (int) parser.currentLocation().getByteOffset();
  }

  private static int stringEnd(byte[] bytes, int start) {
    int i = start + 1;
    while (i < bytes.length && bytes[i] != '"') {
      i += bytes[i] == '\\' ? 2 : 1;
    }
    return Math.min(i + 1, bytes.length);
  }

  /**
   * A parser over UTF-8 and nothing else: Jackson would guess UTF-16 or UTF-32 from bytes of zero and lose count of bytes.
   */
  static JsonParser parser(JsonFactory factory, byte[] bytes, int from, int length) throws IOException {
    boolean ascii = true;
    for (int i = from; i < from + length; i++) {
      if (bytes[i] == 0) {
        throw new IOException("there is a NUL byte in it");
      }
      ascii &= bytes[i] > 0;
    }
    if (!ascii && !UTF8String.fromBytes(bytes, from, length).isValid()) {
      throw new IOException("the bytes are not UTF-8");
    }
    if (!ascii && bytes[from] == (byte) 0xEF) {
      throw new IOException("a byte order mark is not at the start of a file");
    }
    return factory.createParser(bytes, from, length);
  }

  static boolean startsWithByteOrderMark(byte[] bytes) {
    return bytes.length >= 3 && (bytes[0] & 0xFF) == 0xEF && (bytes[1] & 0xFF) == 0xBB && (bytes[2] & 0xFF) == 0xBF;
  }

  /** The parser's complaint in one line, without a copy of the input. */
  static String explain(Exception e) {
    String words = e instanceof JsonProcessingException j ? j.getOriginalMessage() : e.getMessage();
    String line = String.valueOf(words).replaceAll("\\s+", " ");
    return line.length() > 300 ? line.substring(0, 300) : line;
  }
}
