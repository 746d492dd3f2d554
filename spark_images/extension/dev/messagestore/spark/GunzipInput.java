package dev.messagestore.spark;

import java.io.IOException;
import java.io.InputStream;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/**
 * Unpacks gzip (RFC 1952), member after member. Java's own stream ignores whatever follows a member and is no member, and
 * loses data that it unpacked just before damage. As in gzip(1), bytes of zero after the last member are padding.
 *
 * <p>Throws {@link DamagedStreamException} if the file ends early, is damaged, or unpacks to too many bytes.
 */
final class GunzipInput extends InputStream {
  /** JSON shrinks to a tenth, rarely to a fiftieth; deflate's limit is a thousandth. */
  private static final long MOST_TIMES = 250;

  /** The size that any file may unpack to, however small it is. */
  private static final long ALWAYS_ALLOWED = 16L << 20;

  private static final int DEFLATE = 8;
  private static final int HAS_HEADER_SUM = 2;
  private static final int HAS_EXTRA = 4;
  private static final int HAS_NAME = 8;
  private static final int HAS_COMMENT = 16;
  private static final int RESERVED = 0xE0;

  private final InputStream file;
  private final long most;
  private final Inflater inflater = new Inflater(true);
  private final CRC32 sum = new CRC32();
  private final byte[] packed = new byte[1 << 16];
  private int from;
  private int to;
  private long unpacked;
  private boolean begun;
  private boolean inside;
  private DamagedStreamException failure;

  /**
   * @param file the compressed bytes
   * @param size of the file, in bytes
   */
  GunzipInput(InputStream file, long size) {
    this.file = file;
    this.most = Math.max(ALWAYS_ALLOWED, MOST_TIMES * size);
  }

  @Override
  public int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
  }

  @Override
  public int read(byte[] into, int offset, int length) throws IOException {
    if (failure != null) {
      throw failure;
    }
    if (length == 0) {
      return 0;
    }
    while (inside || begin()) {
      int n = inflate(into, offset, length);
      if (n > 0) {
        return taken(into, offset, n);
      }
      if (failure != null) {
        throw failure;
      }
      if (inflater.finished()) {
        end();
      } else if (inflater.needsDictionary()) {
        throw damaged("it asks for a dictionary");
      } else {
        feed();
      }
    }
    return -1;
  }

  /** Returns data that was unpacked before damage; the next read throws. */
  private int inflate(byte[] into, int offset, int length) {
    long before = inflater.getBytesWritten();
    try {
      return inflater.inflate(into, offset, length);
    } catch (DataFormatException e) {
      failure = damaged(e.getMessage());
      return (int) (inflater.getBytesWritten() - before);
    }
  }

  private int taken(byte[] into, int offset, int n) throws IOException {
    sum.update(into, offset, n);
    unpacked += n;
    if (unpacked > most) {
      failure =
          new DamagedStreamException(
              "the compressed file unpacks to more than " + MOST_TIMES + " times its size; data after byte " + most
                  + " is not read");
      int within = (int) (n - (unpacked - most));
      if (within == 0) {
        throw failure;
      }
      return within;
    }
    return n;
  }

  /** Moves to the next member's data; false if there is none. */
  private boolean begin() throws IOException {
    int first = next();
    if (begun && first <= 0) {
      while (first == 0) {
        first = next();
      }
      if (first < 0) {
        return false;
      }
    }
    sum.reset();
    if (checked(first) != 0x1F || checked() != 0x8B) {
      throw damaged(begun ? "something that is no gzip follows" : "it is no gzip");
    }
    header();
    begun = true;
    inside = true;
    inflater.reset();
    sum.reset();
    // After the header, the buffer has the member's data.
    inflater.setInput(packed, from, to - from);
    return true;
  }

  private void header() throws IOException {
    if (checked() != DEFLATE) {
      throw damaged("its method is not deflate");
    }
    int flags = checked();
    if ((flags & RESERVED) != 0) {
      throw damaged("its header has unknown flags");
    }
    skip(6);
    if ((flags & HAS_EXTRA) != 0) {
      skip(checked() | checked() << 8);
    }
    if ((flags & HAS_NAME) != 0) {
      skipText();
    }
    if ((flags & HAS_COMMENT) != 0) {
      skipText();
    }
    if ((flags & HAS_HEADER_SUM) != 0) {
      int due = (int) sum.getValue() & 0xFFFF;
      if ((checked() | checked() << 8) != due) {
        throw damaged("the sum of its header is wrong");
      }
    }
  }

  private void skip(int count) throws IOException {
    for (int i = 0; i < count; i++) {
      checked();
    }
  }

  private void skipText() throws IOException {
    while (checked() != 0) {
      continue;
    }
  }

  /** Checks the trailer of a member. */
  private void end() throws IOException {
    from = to - inflater.getRemaining();
    inside = false;
    if (number() != sum.getValue()) {
      throw damaged("the sum of its content is wrong");
    }
    if (number() != (inflater.getBytesWritten() & 0xFFFFFFFFL)) {
      throw damaged("its content is not as long as it says");
    }
  }

  private long number() throws IOException {
    long number = 0;
    for (int i = 0; i < Integer.SIZE; i += Byte.SIZE) {
      int b = next();
      if (b < 0) {
        throw damaged("it ends early");
      }
      number |= (long) b << i;
    }
    return number;
  }

  private int checked() throws IOException {
    return checked(next());
  }

  /** A byte of a header. */
  private int checked(int b) throws IOException {
    if (b < 0) {
      throw damaged("it ends early");
    }
    sum.update(b);
    return b;
  }

  private int next() throws IOException {
    if (from == to && !fill()) {
      return -1;
    }
    return packed[from++] & 0xFF;
  }

  private void feed() throws IOException {
    if (!fill()) {
      throw damaged("it ends early");
    }
    inflater.setInput(packed, 0, to);
  }

  private boolean fill() throws IOException {
    int n = file.read(packed, 0, packed.length);
    from = 0;
    to = Math.max(n, 0);
    return n > 0;
  }

  private DamagedStreamException damaged(String why) {
    failure = new DamagedStreamException("the compressed stream is cut short or damaged: " + why);
    return failure;
  }

  @Override
  public void close() throws IOException {
    inflater.end();
    file.close();
  }

  /** A compressed file can't be read further; the message says why. Earlier data is intact. */
  static final class DamagedStreamException extends IOException {
    DamagedStreamException(String message) {
      super(message);
    }
  }
}
