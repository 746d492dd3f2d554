package dev.messagestore.spark;

import dev.messagestore.spark.UnpackingInput.DamagedStreamException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/**
 * Lines that end with \n or \r\n. Lines of white space are no records, a byte order mark is not part of the first line,
 * and a bare \r is an ordinary byte.
 */
final class LineFraming extends Framing {
  private static final int BUFFER = 1 << 20;

  private final InputStream in;
  private final int limit;
  private byte[] buffer = new byte[BUFFER];
  private int from;
  private int to;
  private long bufferOffset;
  private int mark;
  private boolean ended;
  private String streamFault;

  /**
   * Frames the lines that start in [start, end).
   *
   * @param in the file's (decompressed) bytes from {@code at} on, which is at most {@code start}; closed if they can't be
   *     read
   * @param limit how many bytes are too many for a record
   */
  LineFraming(InputStream in, long at, long start, long end, int limit) throws IOException {
    super(end);
    this.in = in;
    this.limit = limit;
    this.bufferOffset = at;
    try {
      if (start > at) {
        skipTo(start);
      }
      if (at == 0 && start == 0) {
        skipByteOrderMark();
      }
    } catch (IOException | RuntimeException e) {
      in.close();
      throw e;
    }
  }

  @Override
  boolean next() throws IOException {
    while (true) {
      long start = bufferOffset + from;
      // The mark is not part of the first line, which still begins at byte 0.
      if ((start == mark ? 0 : start) >= end) {
        return false;
      }
      int length = lineLength();
      boolean cut = length < 0;
      int size = cut ? to - from : length;
      if (cut && size == 0 && streamFault == null) {
        return false;
      }
      this.size = -1;
      if (size >= limit) {
        takeLong(start);
        return true;
      }
      byte[] line = Arrays.copyOfRange(buffer, from, from + size);
      from += cut ? size : size + 1;
      String why = cut ? streamFault : null;
      streamFault = cut ? null : streamFault;
      if (accept(line, start, why)) {
        return true;
      }
    }
  }

  /** The bytes up to the next \n, reading more as needed; -1 if the stream ends first or the limit is exceeded. */
  private int lineLength() throws IOException {
    int scanned = from;
    while (true) {
      int end = Json.lineEnd(buffer, scanned, to);
      if (end < to) {
        return end - from;
      }
      if (ended || to - from >= limit) {
        return -1;
      }
      int seen = to - from;
      fill();
      scanned = from + seen;
    }
  }

  /** Handles a line beyond the limit: keeps its start, skips the rest, and sets the fault. */
  private void takeLong(long start) throws IOException {
    record = Arrays.copyOfRange(buffer, from, from + Math.min(limit, KEPT));
    offset = start;
    from += limit;
    int rest = lineLength();
    while (rest < 0 && !ended) {
      from = to;
      rest = lineLength();
    }
    size = bufferOffset + (rest < 0 ? to : from + rest) - start;
    from = rest < 0 ? to : from + rest + 1;
    fault = streamFault == null || rest >= 0 ? tooLarge("the line", size, limit) : streamFault;
    streamFault = rest < 0 ? null : streamFault;
  }

  private boolean accept(byte[] line, long start, String why) {
    int end = line.length;
    if (end > 0 && line[end - 1] == '\r') {
      end--;
    }
    if (why == null && blank(line, end)) {
      return false;
    }
    record = end == line.length ? line : Arrays.copyOf(line, end);
    offset = start;
    fault = why;
    return true;
  }

  private static boolean blank(byte[] line, int end) {
    for (int i = 0; i < end; i++) {
      if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') {
        return false;
      }
    }
    return true;
  }

  private void fill() throws IOException {
    if (from > 0) {
      System.arraycopy(buffer, from, buffer, 0, to - from);
      bufferOffset += from;
      to -= from;
      from = 0;
    }
    if (to == buffer.length) {
      buffer = Arrays.copyOf(buffer, (int) Math.min(2L * buffer.length, limit));
    }
    int n;
    try {
      n = in.read(buffer, to, buffer.length - to);
    } catch (DamagedStreamException e) {
      streamFault = e.getMessage();
      n = -1;
    }
    if (n < 0) {
      ended = true;
    } else {
      to += n;
    }
  }

  private void skipTo(long offset) throws IOException {
    // A line that began earlier belongs to the range before: go to one byte before the start and skip to after a \n.
    while (bufferOffset + from < offset - 1 && !ended) {
      if (from == to) {
        fill();
      }
      from += (int) Math.min(to - from, offset - 1 - bufferOffset - from);
    }
    int length = lineLength();
    while (length < 0 && !ended) {
      from = to;
      length = lineLength();
    }
    from = length < 0 ? to : from + length + 1;
  }

  private void skipByteOrderMark() throws IOException {
    while (to - from < 3 && !ended) {
      fill();
    }
    if (Json.startsWithByteOrderMark(Arrays.copyOfRange(buffer, from, Math.min(to, from + 3)))) {
      from += 3;
      mark = 3;
    }
  }

  @Override
  boolean paused() {
    return buffer.length <= HELD && bufferOffset + from >= end;
  }

  @Override
  public void close() throws IOException {
    in.close();
  }
}
