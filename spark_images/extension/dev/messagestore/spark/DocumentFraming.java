package dev.messagestore.spark;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayDeque;
import java.util.BitSet;
import java.util.Deque;
import java.util.Map;

/**
 * JSON documents one after the other, with white space or RS (RFC 7464) between them or nothing: each is a record, of an
 * array each element. Ends are found by brackets outside of strings alone, so that a record with an error costs no other.
 * A bracket or string without an end takes the rest of the file; if the file begins with RS, the rest up to the next RS.
 *
 * <p>With paths, the records of each document are the elements of the array at the first of them that it has. Paths around
 * them only let their values be found: by {@link DocumentValues}, in another pass over the same bytes.
 */
final class DocumentFraming extends Framing {
  private static final int END = MarkedInput.END;
  private static final long NONE = -1;
  private static final String MISSING_FIELD = "MissingField";
  private static final String INVALID_FIELD = "InvalidField";
  private static final byte[] NO_BYTES = {};

  private final MarkedInput in;
  private final JsonScanner json;
  private final long from;
  private final int limit;
  private final DocumentPaths paths;
  private final JsonPaths root;

  /** Tells the values around the records; may be null. */
  private final DocumentValues values;

  /** Takes the values around the records, if they are looked for. */
  private final DocumentValues taker;

  /** The paths around the records of which the document had a value. */
  private final BitSet seen = new BitSet();

  /** The objects around the next byte that a path leads into, the innermost first. */
  private final Deque<JsonPaths> open = new ArrayDeque<>();

  private long document;
  private boolean hasRecords;
  private boolean documentDamaged;
  private boolean secondReported;
  private String noArray;
  private long array = NONE;
  private boolean due;
  private boolean ended;
  private boolean paused;
  private boolean damaged;

  /**
   * Frames the records that start in [from, to), as they are found from the file's start on.
   *
   * @param file the file's (decompressed) bytes
   * @param again the same bytes, for the values around the records; null if none are needed
   * @param limit how many bytes are too many for a record
   */
  static DocumentFraming of(InputStream file, InputStream again, long from, long to, int limit, DocumentPaths paths)
      throws IOException {
    try {
      DocumentValues values = again == null ? null : new DocumentValues(again, paths);
      return new DocumentFraming(new MarkedInput(file, limit), from, to, limit, paths, values, null);
    } catch (IOException | RuntimeException e) {
      closeBoth(file, again);
      throw e;
    }
  }

  /** Frames documents for the values around their records alone. */
  DocumentFraming(InputStream file, DocumentPaths paths, DocumentValues taker) throws IOException {
    this(new MarkedInput(file, DocumentValues.LONGEST + 1), Long.MAX_VALUE, Long.MAX_VALUE, 1, paths, null, taker);
  }

  private DocumentFraming(
      MarkedInput in, long from, long to, int limit, DocumentPaths paths, DocumentValues values, DocumentValues taker)
      throws IOException {
    super(to);
    this.in = in;
    this.from = from;
    this.limit = limit;
    this.paths = paths;
    this.root = paths.tree();
    this.values = values;
    this.taker = taker;
    this.json = new JsonScanner(in);
  }

  @Override
  boolean next() throws IOException {
    while (paused || !ended) {
      boolean isRecord = paused || step();
      paused = isRecord && offset >= end;
      if (paused) {
        return false;
      }
      if (isRecord && offset >= from) {
        return true;
      }
    }
    return false;
  }

  private boolean step() throws IOException {
    return array != NONE ? element() : open.isEmpty() ? document() : member();
  }

  private boolean inside() {
    return array != NONE || !open.isEmpty();
  }

  /** Moves past the next document, or into its records once all values have been taken; whether it is damaged. */
  boolean passDocument() throws IOException {
    while (inside()) {
      step();
    }
    do {
      step();
    } while (inside() && !(hasRecords && taker.complete()));
    return documentDamaged;
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
    hasRecords = false;
    documentDamaged = false;
    secondReported = false;
    noArray = null;
    seen.clear();
    about = values == null ? Map.of() : values.ofNextDocument();
    if (!paths.records().isEmpty()) {
      return visit(root, b);
    }
    return b == '[' ? enterArray() : take(b == '{' ? json.value(b) : json.pass('{', '[', b));
  }

  private boolean enterArray() {
    array = in.offset();
    due = false;
    hasRecords = true;
    in.unmark();
    in.skip();
    return false;
  }

  /** Moves past a value of a document, or into it if a path leads there; whether it found a record. */
  private boolean visit(JsonPaths node, int b) throws IOException {
    if (node.field() >= paths.records().size()) {
      return around(node.field(), b);
    }
    boolean atPath = node.field() >= 0;
    if (b == '[' && atPath) {
      return hasRecords ? second(node) : enterArray();
    }
    if (b == '{' && node.hasSteps()) {
      open.push(node);
      in.skip();
      return false;
    }
    if (atPath && b != 'n') {
      noArray = paths.path(node.field());
    }
    if (!open.isEmpty()) {
      return !json.pass(',', '}', b) && withoutEnd();
    }
    boolean closed = b == '{' || b == '[' ? json.value(b) : json.pass('{', '[', b);
    return closed ? endOfDocument() : withoutEnd();
  }

  /** Moves past a value around the records; whether it is a second one behind them, which the records don't have. */
  private boolean around(int field, int b) throws IOException {
    boolean late = hasRecords && seen.get(field);
    seen.set(field);
    if (taker != null) {
      in.mark();
    }
    if (!json.pass(',', '}', b)) {
      return withoutEnd();
    }
    if (taker != null && !late) {
      taker.take(field - paths.records().size(), in.bytes(json.end()));
    }
    boolean tell = late && !secondReported;
    secondReported |= late;
    return tell && nothing("a second value of the document that begins at byte " + document + ", at " + paths.path(field));
  }

  /** Takes a further array of records as one record, so that it is not lost. */
  private boolean second(JsonPaths node) throws IOException {
    in.mark();
    take(json.value('['));
    if (fault == null) {
      fault = "a second array of records of the document that begins at byte " + document + ", at " + paths.path(node.field());
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
    boolean tell = hasRecords && !documentDamaged;
    documentDamaged = true;
    return tell && nothing("the document that begins at byte " + document + " is no JSON before byte " + in.offset());
  }

  private boolean endOfDocument() throws IOException {
    if (hasRecords) {
      return false;
    }
    json.endHere();
    take(true);
    if (fault == null) {
      String all = String.join(", ", paths.records()) + (paths.records().size() > 1 ? " are" : " is");
      reason = noArray == null ? MISSING_FIELD : INVALID_FIELD;
      fault = noArray == null ? all + " absent or null" : noArray + " is no array";
    }
    return true;
  }

  /** Tells of a document without an end; without records, its rest is one. */
  private boolean withoutEnd() throws IOException {
    open.clear();
    documentDamaged = true;
    if (hasRecords) {
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
      documentDamaged = true;
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
      documentDamaged = true;
    }
    if (length >= limit) {
      size = length;
      fault = tooLarge("the record", length, limit) + (closed ? "" : "; " + (damage == null ? "it has no end" : damage));
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
  boolean paused() {
    return paused && in.held() <= HELD;
  }

  @Override
  boolean cut() {
    return size >= 0 || damaged;
  }

  @Override
  public void close() throws IOException {
    closeBoth(in, values);
  }

  private static void closeBoth(Closeable one, Closeable other) throws IOException {
    try (other) {
      one.close();
    }
  }
}
