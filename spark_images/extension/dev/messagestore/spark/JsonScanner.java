package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import java.io.ByteArrayOutputStream;
import java.io.IOException;

/** Moves over JSON by its brackets, strings and commas alone: what is between them may be damaged. */
final class JsonScanner {
  /** Begins each text of a sequence (RFC 7464), and is in no JSON. */
  static final int RS = 0x1E;

  private static final int END = MarkedInput.END;

  /** Bytes. A longer name is none of a path, which has at most 512 characters. */
  private static final int LONGEST_NAME = 8192;

  private final MarkedInput in;
  private final boolean sequence;
  private long end;

  /** Begins at a file's start. */
  JsonScanner(MarkedInput in) throws IOException {
    this.in = in;
    in.skipByteOrderMark();
    sequence = space() == RS;
  }

  /** Where the last value ended that was passed. */
  long end() {
    return end;
  }

  /** Lets what was passed end before the next byte. */
  void endHere() {
    end = in.offset();
  }

  /** Moves past values up to one of two bytes outside of brackets and strings; {@code b} is the next byte. */
  boolean pass(int stop, int other, int b) throws IOException {
    boolean closed;
    int next = b;
    do {
      closed = value(next);
      next = space();
    } while (closed && next != stop && next != other && !ends(next));
    return closed;
  }

  /** Moves past a string, object or array, or else past a byte; whether it has an end. */
  boolean value(int first) throws IOException {
    boolean closed = skipValue(first);
    end = in.offset();
    return closed;
  }

  private boolean skipValue(int first) throws IOException {
    in.skip();
    if (first == '"') {
      return string();
    }
    int depth = first == '{' || first == '[' ? 1 : 0;
    while (depth > 0) {
      int b = in.peek();
      if (ends(b)) {
        return false;
      }
      in.skip();
      switch (b) {
        case '{', '[' -> depth++;
        case '}', ']' -> depth--;
        case '"' -> {
          if (!string()) {
            return false;
          }
        }
        default -> { }
      }
    }
    return true;
  }

  private boolean string() throws IOException {
    in.skipText();
    for (int b = in.peek(); !ends(b); b = in.peek()) {
      in.skip();
      if (b == '"') {
        return true;
      }
      if (b == '\\' && !ends(in.peek())) {
        in.skip();
      }
      in.skipText();
    }
    return false;
  }

  /** The next byte that is no white space, which stays the next. */
  int space() throws IOException {
    int b = in.peek();
    while (b == ' ' || b == '\n' || b == '\t' || b == '\r') {
      in.skip();
      b = in.peek();
    }
    return b;
  }

  /** Whether nothing follows of the file, or of the text of a sequence. */
  boolean ends(int b) {
    return b == END || b == RS && sequence;
  }

  /** The name that ends with the next quote; null if it is too long or invalid. */
  String name() throws IOException {
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    text.write('"');
    int before = 0;
    for (int b = in.peek(); !ends(b) && before != '"'; b = in.peek()) {
      in.skip();
      if (text.size() < LONGEST_NAME) {
        text.write(b);
      }
      before = before == '\\' ? 0 : b;
    }
    try (JsonParser parser = Json.FACTORY.createParser(text.toByteArray())) {
      parser.nextToken();
      return parser.getText();
    } catch (IOException e) {
      return null;
    }
  }
}
