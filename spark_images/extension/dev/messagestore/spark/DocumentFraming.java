package dev.messagestore.spark;

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
  private static final int END = MarkedInput.END;
  private static final long NONE = -1;
  private static final String MISSING_FIELD = "MissingField";
  private static final String INVALID_FIELD = "InvalidField";
  private static final byte[] NO_BYTES = {};

  private final MarkedInput in;
  private final JsonScanner json;
  private final long from;
  private final long to;
  private final int limit;
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
  private byte[] record;
  private long offset;
  private long size;
  private String fault;
  private String reason;

  /**
   * Frames the records that start in [from, to), as they are found from the file's start on.
   *
   * @param file the file's (decompressed) bytes
   * @param limit how many bytes are too many for a record
   * @param recordsPaths where a document may have its array of records; if empty, documents and elements are records
   */
  DocumentFraming(InputStream file, long from, long to, int limit, List<String> recordsPaths) throws IOException {
    this.in = new MarkedInput(file, limit);
    this.from = from;
    this.to = to;
    this.limit = limit;
    this.recordsPaths = recordsPaths;
    for (int i = 0; i < recordsPaths.size(); i++) {
      root.add(JsonTextFunction.steps(recordsPaths.get(i)), i);
    }
    this.json = new JsonScanner(in);
  }

  @Override
  public boolean next() throws IOException {
    while (!ended) {
      boolean isRecord = array != NONE ? element() : open.isEmpty() ? document() : member();
      if (isRecord && offset >= to) {
        ended = true;
      } else if (isRecord && offset >= from) {
        return true;
      }
    }
    return false;
  }

  /** Moves on outside of arrays; whether it found a record. */
  private boolean document() throws IOException {
    int b = json.space();
    while (b == JsonScanner.RS) {
      in.skip();
      b = json.space();
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
    return b == '[' ? enterArray() : take(b == '{' ? json.value(b) : json.pass('{', '[', b));
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
      return !json.pass(',', '}', b) && withoutEnd();
    }
    boolean closed = b == '{' || b == '[' ? json.value(b) : json.pass('{', '[', b);
    return closed ? endOfDocument() : withoutEnd();
  }

  /** Takes a further array of records as one record, so that it is not lost. */
  private boolean second(JsonPaths node) throws IOException {
    in.mark();
    take(json.value('['));
    if (fault == null) {
      fault = "a second array of records of the document that begins at byte " + document + ", at " + recordsPaths.get(node.field());
    }
    return true;
  }

  /** Moves on in an object that a path leads into; whether it found a record. */
  private boolean member() throws IOException {
    int b = json.space();
    if (json.ends(b)) {
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
      return json.pass(',', '}', b) ? tellDamage() : withoutEnd();
    }
    in.skip();
    String name = json.name();
    if (json.space() != ':') {
      return tellDamage();
    }
    in.skip();
    b = json.space();
    if (json.ends(b) || b == ',' || b == '}') {
      return tellDamage();
    }
    JsonPaths child = name == null ? null : open.peek().step(name);
    return child == null ? !json.pass(',', '}', b) && withoutEnd() : visit(child, b);
  }

  /** Tells once of damage behind the records of a document; one without records will be judged as a whole. */
  private boolean tellDamage() {
    boolean tell = found && !told;
    told = true;
    return tell && nothing("the document that begins at byte " + document + " is no JSON before byte " + in.offset());
  }

  private boolean endOfDocument() throws IOException {
    if (found) {
      return false;
    }
    json.endHere();
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
    json.endHere();
    return take(false);
  }

  /** Moves on in an array; whether it found a record. */
  private boolean element() throws IOException {
    int b = json.space();
    if (json.ends(b)) {
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
    take(json.pass(',', ']', b));
    if (array != NONE && !json.ends(in.peek())) {
      passSeparator(in.peek());
    }
    return true;
  }

  private void passSeparator(int b) {
    in.skip();
    due = b == ',';
    array = b == ']' ? NONE : array;
  }

  /** Makes the bytes from the mark to the end of what was passed the record; {@code closed}: whether it has an end. */
  private boolean take(boolean closed) throws IOException {
    String damage = closed ? null : in.fault();
    long length = in.length(json.end());
    set(in.markOffset(), in.markOffset() < from ? NO_BYTES : in.bytes(json.end()), damage);
    if (!closed) {
      array = NONE;
      open.clear();
    }
    if (length >= limit) {
      size = length;
      fault = Framing.tooLarge("the record", length, limit) + (closed ? "" : "; " + (damage == null ? "it has no end" : damage));
    }
    return true;
  }

  /** Tells of damage where there are no bytes of a record. */
  private boolean nothing(String why) {
    set(in.offset(), NO_BYTES, why);
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
