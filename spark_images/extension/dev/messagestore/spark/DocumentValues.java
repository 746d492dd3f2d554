package dev.messagestore.spark;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Values around the records of documents, by a pass of its own over the file, so that they are known before the records.
 *
 * <p>A value is the first at its path, as the JSON text that the document has there; what is longer than {@link #LONGEST} is
 * cut right after that. If it can't be told, it is a word that is no JSON: {@link #TWICE} or {@link #DAMAGED}.
 */
final class DocumentValues implements Closeable {
  /** Bytes of a value's JSON text. */
  static final int LONGEST = 1024;

  /** There are two before the records. */
  static final String TWICE = "twice";

  /** There is none, but the document is damaged. */
  static final String DAMAGED = "damaged";

  private static final String NO_TEXT = "\uFFFD";

  private final List<String> names;
  private final String[] texts;
  private final DocumentFraming ahead;

  DocumentValues(InputStream file, DocumentPaths paths) throws IOException {
    names = List.copyOf(paths.around().keySet());
    texts = new String[names.size()];
    ahead = new DocumentFraming(file, paths, this);
  }

  /** The values of the next document by their names, without those that it doesn't have. */
  Map<String, String> ofNextDocument() throws IOException {
    Arrays.fill(texts, null);
    boolean damaged = ahead.passDocument();
    Map<String, String> values = new LinkedHashMap<>();
    for (int i = 0; i < texts.length; i++) {
      String text = texts[i] == null && damaged ? DAMAGED : texts[i];
      if (text != null) {
        values.put(names.get(i), text);
      }
    }
    return values;
  }

  /** Takes the bytes of a value, of which at most one more is given than it may have. */
  void take(int value, byte[] json) {
    boolean isText = json.length > LONGEST || UTF8String.fromBytes(json).isValid();
    String text = isText ? new String(json, StandardCharsets.UTF_8) : NO_TEXT;
    texts[value] = texts[value] == null ? text : TWICE;
  }

  /** Whether nothing is left to be found in the document. */
  boolean complete() {
    return !Arrays.asList(texts).contains(null);
  }

  @Override
  public void close() throws IOException {
    ahead.close();
  }
}
