package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/**
 * JSON documents one after the other, with white space or RS (RFC 7464) between them or nothing: each is a record, of an
 * array each element. Ends are found by brackets outside of strings alone, so that a record with an error costs no other.
 * A bracket or string without an end takes the rest of the file; if the file begins with RS, the rest up to the next RS.
 *
 * <p>With paths, the records of each document are the elements of the array at the first of them that it has.
 */
final class DocumentFraming implements Framing {
  /** A driver holds something of each record of a batch, which a document is not cut for. */
  private static final int MOST_RECORDS = 1_000_000;

  private static final int END = MarkedInput.END;
  /** Separates the texts of a sequence. */
  static final int RS = 0x1E;

  private static final long NONE = -1;
  private static final String MISSING_FIELD = "MissingField";
  private static final String INVALID_FIELD = "InvalidField";

  /** Bytes. A longer name is none of a path, which has at most 512 characters. */
  private static final int LONGEST_NAME = 8192;

  private final MarkedInput in;
  private final int limit;
  private final boolean sequence;
  private final List<String> recordsPaths;
  private final JsonPaths root = new JsonPaths();

  /** The objects around the next byte that a path leads into, the innermost first. */
  private final Deque<JsonPaths> open = new ArrayDeque<>();

  private long document;
  private boolean found;
  private boolean told;
  private String noArray;
  private long array = NONE;
  private boolean due;
  private boolean ended;
  private boolean damaged;
  private int count;
  private byte[] record;
  private long offset;
  private long size;
  private String fault;
  private String reason;

  /** Where the last value ended that was passed. */
  private long end;

  /**
   * @param file the file's (decompressed) bytes
   * @param limit how many bytes are too many for a record
   * @param recordsPaths where a document may have its array of records; if empty, documents and elements are records
   */
  DocumentFraming(InputStream file, int limit, List<String> recordsPaths) throws IOException {
    this.in = new MarkedInput(file, limit);
    this.limit = limit;
    this.recordsPaths = recordsPaths;
    for (int i = 0; i < recordsPaths.size(); i++) {
      root.add(JsonTextFunction.steps(recordsPaths.get(i)), i);
    }
    in.skipByteOrderMark();
    sequence = space() == RS;
  }

  @Override
  public boolean next() throws IOException {
    while (!ended) {
      if (array != NONE ? element() : open.isEmpty() ? document() : member()) {
        return true;
      }
    }
    return false;
  }

  /** Moves on outside of arrays; whether it found a record. */
  private boolean document() throws IOException {
    int b = space();
    while (b == RS) {
      in.skip();
      b = space();
    }
    if (b == END) {
      ended = true;
      return in.fault() != null && !damaged && nothing(in.fault());
    }
    in.mark();
    document = in.offset();
    found = false;
    told = false;
    noArray = null;
    if (!recordsPaths.isEmpty()) {
      return visit(root, b);
    }
    return b == '[' ? enterArray() : take(b == '{' ? value(b) : pass('{', '[', b));
  }

  private boolean enterArray() {
    array = in.offset();
    due = false;
    found = true;
    in.unmark();
    in.skip();
    return false;
  }

  /** Moves past a value of a document, or into it if a path leads there; whether it found a record. */
  private boolean visit(JsonPaths node, int b) throws IOException {
    boolean atPath = node.field() >= 0;
    if (b == '[' && atPath) {
      return found ? second(node) : enterArray();
    }
    if (b == '{' && node.hasSteps()) {
      open.push(node);
      in.skip();
      return false;
    }
    if (atPath && b != 'n') {
      noArray = recordsPaths.get(node.field());
    }
    if (!open.isEmpty()) {
      return !pass(',', '}', b) && withoutEnd();
    }
    boolean closed = b == '{' || b == '[' ? value(b) : pass('{', '[', b);
    return closed ? endOfDocument() : withoutEnd();
  }

  /** Takes a further array of records as one record, so that it is not lost. */
  private boolean second(JsonPaths node) throws IOException {
    in.mark();
    take(value('['));
    if (fault == null) {
      reason = INVALID_FIELD;
      fault = "a second array of records of the document that begins at byte " + document + ", at " + recordsPaths.get(node.field());
    }
    return true;
  }

  /** Moves on in an object that a path leads into; whether it found a record. */
  private boolean member() throws IOException {
    int b = space();
    if (ends(b)) {
      return withoutEnd();
    }
    if (b == '}' || b == ',') {
      in.skip();
      if (b == '}') {
        open.pop();
      }
      return open.isEmpty() && endOfDocument();
    }
    if (b != '"') {
      return pass(',', '}', b) ? damaged() : withoutEnd();
    }
    in.skip();
    String name = name();
    if (space() != ':') {
      return damaged();
    }
    in.skip();
    b = space();
    if (ends(b) || b == ',' || b == '}') {
      return damaged();
    }
    JsonPaths child = name == null ? null : open.peek().step(name);
    return child == null ? !pass(',', '}', b) && withoutEnd() : visit(child, b);
  }

  /** The name that ends with the next quote; null if it is too long or invalid. */
  private String name() throws IOException {
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

  /** Tells once of damage behind the records of a document; one without records will be judged as a whole. */
  private boolean damaged() {
    boolean tell = found && !told;
    told = true;
    return tell && nothing("the document that begins at byte " + document + " is no JSON before byte " + in.offset());
  }

  private boolean endOfDocument() throws IOException {
    if (found) {
      return false;
    }
    end = in.offset();
    take(true);
    if (fault == null) {
      String paths = String.join(", ", recordsPaths) + (recordsPaths.size() > 1 ? " are" : " is");
      reason = noArray == null ? MISSING_FIELD : INVALID_FIELD;
      fault = noArray == null ? paths + " absent or null" : noArray + " is no array";
    }
    return true;
  }

  /** Tells of a document without an end; without records, its rest is one. */
  private boolean withoutEnd() throws IOException {
    open.clear();
    if (found) {
      return nothing(in.fault() == null ? "the document that begins at byte " + document + " has no end" : in.fault());
    }
    end = in.offset();
    return take(false);
  }

  /** Moves on in an array; whether it found a record. */
  private boolean element() throws IOException {
    int b = space();
    if (ends(b)) {
      String why = "the array that begins at byte " + array + " has no end";
      array = NONE;
      open.clear();
      return nothing(b == END && in.fault() != null ? in.fault() : why);
    }
    if (b == ',' || b == ']') {
      boolean missing = due || b == ',';
      passSeparator(b);
      return missing && nothing("an element of the array is missing");
    }
    in.mark();
    take(pass(',', ']', b));
    if (array != NONE && !ends(in.peek())) {
      passSeparator(in.peek());
    }
    return true;
  }

  private void passSeparator(int b) {
    in.skip();
    due = b == ',';
    array = b == ']' ? NONE : array;
  }

  /** Moves past values up to one of two bytes outside of brackets and strings; {@code b} is the next byte. */
  private boolean pass(int stop, int other, int b) throws IOException {
    boolean closed;
    int next = b;
    do {
      closed = value(next);
      next = space();
    } while (closed && next != stop && next != other && !ends(next));
    return closed;
  }

  /** Moves past a string, object or array, or else past a byte; whether it has an end. */
  private boolean value(int first) throws IOException {
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
  private int space() throws IOException {
    int b = in.peek();
    while (b == ' ' || b == '\n' || b == '\t' || b == '\r') {
      in.skip();
      b = in.peek();
    }
    return b;
  }

  private boolean ends(int b) {
    return b == END || b == RS && sequence;
  }

  /** Makes the bytes from the mark to the end of what was passed the record; {@code closed}: whether it has an end. */
  private boolean take(boolean closed) throws IOException {
    String damage = closed ? null : in.fault();
    long length = in.length(end);
    set(in.markOffset(), in.bytes(end), damage);
    if (!closed) {
      array = NONE;
      open.clear();
    }
    if (++count > MOST_RECORDS) {
      in.skipAll();
      size = in.length(in.offset());
      fault = "the file has more than " + MOST_RECORDS + " records; the " + size + " bytes from here on are not read";
      ended = true;
    } else if (length >= limit) {
      size = length;
      fault = Framing.tooLarge("the record", length, limit) + (closed ? "" : "; " + (damage == null ? "it has no end" : damage));
    }
    return true;
  }

  /** Tells of damage where there are no bytes of a record. */
  private boolean nothing(String why) {
    set(in.offset(), new byte[0], why);
    return true;
  }

  private void set(long start, byte[] bytes, String why) {
    offset = start;
    record = bytes;
    size = -1;
    reason = null;
    fault = why;
    damaged = why != null && why.equals(in.fault());
  }

  @Override
  public byte[] bytes() {
    return record;
  }

  @Override
  public long offset() {
    return offset;
  }

  @Override
  public String fault() {
    return fault;
  }

  @Override
  public long size() {
    return size;
  }

  @Override
  public String reason() {
    return reason;
  }

  @Override
  public boolean cut() {
    return size >= 0 || damaged;
  }

  @Override
  public void close() throws IOException {
    in.close();
  }
}
