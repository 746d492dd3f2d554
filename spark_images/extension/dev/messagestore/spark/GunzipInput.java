package dev.messagestore.spark;

import java.io.IOException;
import java.io.InputStream;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/**
 * Unpacks gzip (RFC 1952). Java's own stream ignores whatever follows a member and is no member, and loses data that it
 * unpacked just before damage.
 */
final class GunzipInput extends UnpackingInput {
  private static final int SIGN_1 = 0x1F;
  private static final int SIGN_2 = 0x8B;
  private static final int DEFLATE = 8;
  private static final int HAS_HEADER_SUM = 2;
  private static final int HAS_EXTRA = 4;
  private static final int HAS_NAME = 8;
  private static final int HAS_COMMENT = 16;
  private static final int RESERVED = 0xE0;

  private final Inflater inflater = new Inflater(true);
  private final CRC32 sum = new CRC32();

  GunzipInput(InputStream file, long size) {
    super(file, "gzip", size);
  }

  /** Whether a file that begins with these bytes is gzip. */
  static boolean begins(byte[] start) {
    return start.length > 1 && (start[0] & 0xFF) == SIGN_1 && (start[1] & 0xFF) == SIGN_2;
  }

  @Override
  protected int unpack(byte[] into, int offset, int length) throws IOException {
    while (true) {
      int n = inflate(into, offset, length);
      if (n > 0) {
        sum.update(into, offset, n);
        return n;
      }
      throwFailure();
      if (inflater.finished()) {
        end();
        return -1;
      }
      if (inflater.needsDictionary()) {
        throw damaged("it asks for a dictionary");
      }
      feed();
    }
  }

  /** Returns data that was unpacked before damage; the next read throws. */
  private int inflate(byte[] into, int offset, int length) {
    long before = inflater.getBytesWritten();
    try {
      return inflater.inflate(into, offset, length);
    } catch (DataFormatException e) {
      damaged(e.getMessage());
      return (int) (inflater.getBytesWritten() - before);
    }
  }

  @Override
  protected void open(int first) throws IOException {
    sum.reset();
    sum.update(first);
    if (first != SIGN_1 || checked() != SIGN_2) {
      throw noMember();
    }
    header();
    inflater.reset();
    sum.reset();
    // After the header, the buffer has the member's data.
    inflater.setInput(packed, from, to - from);
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
    if (number(Integer.BYTES) != sum.getValue()) {
      throw damaged("the sum of its content is wrong");
    }
    if (number(Integer.BYTES) != (inflater.getBytesWritten() & 0xFFFFFFFFL)) {
      throw damaged("its content is not as long as it says");
    }
  }

  /** A byte of a header. */
  private int checked() throws IOException {
    int b = due();
    sum.update(b);
    return b;
  }

  private void feed() throws IOException {
    if (!fill()) {
      throw damaged("it ends early");
    }
    inflater.setInput(packed, 0, to);
  }

  @Override
  public void close() throws IOException {
    inflater.end();
    super.close();
  }
}
