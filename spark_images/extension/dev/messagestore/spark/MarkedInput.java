package dev.messagestore.spark;

import dev.messagestore.spark.UnpackingInput.DamagedStreamException;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/** The (decompressed) bytes of a file, one after the other. What follows a mark is kept, up to a limit. */
final class MarkedInput implements Closeable {
  static final int END = -1;
  private static final int BUFFER = 1 << 20;

  private final InputStream in;
  private final int limit;
  private byte[] buffer = new byte[BUFFER];
  private int at;
  private int to;
  private long bufferOffset;
  private boolean marked;
  private int mark;
  private long markOffset;
  private byte[] start;
  private boolean ended;
  private String fault;

  /** Begins at the first byte of a file; {@code limit} bytes are too many to be kept. */
  MarkedInput(InputStream in, int limit) {
    this.in = in;
    this.limit = limit;
  }

  /** The next byte, which stays the next; {@link #END} behind the last one. */
  int peek() throws IOException {
    return at < to || fill() ? buffer[at] & 0xFF : END;
  }

  /** Moves past the next byte. */
  void skip() {
    at++;
  }

  /** Moves past bytes of a string up to one that may end it, or up to those that are not read yet. */
  void skipText() {
    int i = at;
    while (i < to && buffer[i] != '"' && buffer[i] != '\\' && buffer[i] != JsonScanner.RS) {
      i++;
    }
    at = i;
  }

  /** Moves past a byte order mark, which may stand at the file's start. */
  void skipByteOrderMark() throws IOException {
    mark();
    while (to < 3 && fill()) {
      continue;
    }
    at = Json.startsWithByteOrderMark(Arrays.copyOf(buffer, Math.min(to, 3))) ? 3 : 0;
  }

  /** The offset of the next byte. */
  long offset() {
    return bufferOffset + at;
  }

  /** Keeps the bytes from the next one on, and no longer those before. */
  void mark() {
    marked = true;
    mark = at;
    markOffset = offset();
    start = null;
  }

  void unmark() {
    marked = false;
  }

  long markOffset() {
    return markOffset;
  }

  /** How many bytes there are from the mark to an offset, or to the next byte if some are no longer kept. */
  long length(long end) {
    return (start == null ? end : offset()) - markOffset;
  }

  /** The bytes from the mark to an offset; if they are too many, the first of them. */
  byte[] bytes(long end) {
    long length = length(end);
    int kept = length < limit ? (int) length : Math.min(limit, Framing.KEPT);
    return start != null ? Arrays.copyOf(start, kept) : Arrays.copyOfRange(buffer, mark, mark + kept);
  }

  /** Bytes of memory that it takes. */
  int held() {
    return buffer.length;
  }

  /** Why the file can't be read further, or null. */
  String fault() {
    return fault;
  }

  private boolean fill() throws IOException {
    if (ended) {
      return false;
    }
    makeRoom();
    int n;
    try {
      n = in.read(buffer, to, buffer.length - to);
    } catch (DamagedStreamException e) {
      fault = e.getMessage();
      n = -1;
    }
    ended = n < 0;
    to += Math.max(n, 0);
    return !ended;
  }

  private void makeRoom() {
    int from = marked && start == null ? mark : to;
    if (to - from >= limit) {
      start = Arrays.copyOfRange(buffer, from, from + Math.min(limit, Framing.KEPT));
      from = to;
    }
    if (from > 0) {
      System.arraycopy(buffer, from, buffer, 0, to - from);
      bufferOffset += from;
      at -= from;
      to -= from;
      mark = 0;
    }
    if (to == buffer.length) {
      buffer = Arrays.copyOf(buffer, (int) Math.min(2L * buffer.length, limit));
    }
  }

  @Override
  public void close() throws IOException {
    in.close();
  }
}
