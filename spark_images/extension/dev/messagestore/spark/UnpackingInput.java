package dev.messagestore.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.PushbackInputStream;

/**
 * Unpacks a compressed file, member after member: gzip's members, frames of zstd, streams of bzip2. As in gzip(1), bytes
 * of zero after the last member are padding.
 *
 * <p>Throws {@link DamagedStreamException} if the file ends early, is damaged, or unpacks to too many bytes; what was
 * unpacked before is returned first.
 */
abstract class UnpackingInput extends InputStream {
  /** JSON shrinks to a tenth, rarely to a fiftieth; deflate's limit is a thousandth. */
  private static final long MOST_TIMES = 250;

  /** The size that any file may unpack to, however small it is. */
  private static final long ALWAYS_ALLOWED = 16L << 20;

  /** By so many first bytes each compression is known. */
  private static final int SIGN_BYTES = 10;

  private final InputStream file;
  private final String name;
  private final long most;

  /** Bytes of the file, of which those in [from, to) are the next. */
  protected final byte[] packed = new byte[1 << 16];

  protected int from;
  protected int to;
  private long unpacked;
  private boolean begun;
  private boolean inside;
  private DamagedStreamException failure;

  UnpackingInput(InputStream file, String name, long size) {
    this.file = file;
    this.name = name;
    this.most = Math.max(ALWAYS_ALLOWED, MOST_TIMES * size);
  }

  /**
   * A file's content, unpacked if its first bytes are those of a compressed file. Closed if these can't be read.
   *
   * @param again whether the task is unpacking the file already, and reads it beside that
   */
  static InputStream of(InputStream file, long size, boolean again) throws IOException {
    try {
      byte[] start = file.readNBytes(SIGN_BYTES);
      PushbackInputStream whole = new PushbackInputStream(file, SIGN_BYTES);
      whole.unread(start);
      if (GunzipInput.begins(start)) {
        return new GunzipInput(whole, size);
      }
      if (ZstdInput.begins(start)) {
        return new ZstdInput(whole, size, again);
      }
      return Bzip2Input.begins(start) ? new Bzip2Input(whole, size) : whole;
    } catch (IOException | RuntimeException e) {
      file.close();
      throw e;
    }
  }

  /** Reads the start of a member, of which the first byte is given. */
  protected abstract void open(int first) throws IOException;

  /** Unpacks at least one byte of the member; -1 at its end, which has been checked. */
  protected abstract int unpack(byte[] into, int offset, int length) throws IOException;

  @Override
  public final int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
  }

  @Override
  public final int read(byte[] into, int offset, int length) throws IOException {
    if (failure != null) {
      throw failure;
    }
    if (length == 0) {
      return 0;
    }
    while (inside || begin()) {
      int n = unpack(into, offset, length);
      if (n >= 0) {
        return allowed(n);
      }
      inside = false;
    }
    return -1;
  }

  /** How many of the bytes unpacked last may be returned. */
  private int allowed(int n) throws IOException {
    unpacked += n;
    if (unpacked <= most) {
      return n;
    }
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

  /** Moves to the next member's data; false if there is none. */
  private boolean begin() throws IOException {
    int first = next();
    while (begun && first == 0) {
      first = next();
    }
    if (begun && first < 0) {
      return false;
    }
    open(due(first));
    begun = true;
    inside = true;
    return true;
  }

  /** The next byte of the file, or -1. */
  protected final int next() throws IOException {
    if (from == to && !fill()) {
      return -1;
    }
    return packed[from++] & 0xFF;
  }

  /** The next byte of the file, which must have one. */
  protected final int due() throws IOException {
    return due(next());
  }

  private int due(int b) throws IOException {
    if (b < 0) {
      throw damaged("it ends early");
    }
    return b;
  }

  /** A number of so many bytes, the lowest first. */
  protected final long number(int bytes) throws IOException {
    long number = 0;
    for (int i = 0; i < bytes; i++) {
      number |= (long) due() << (Byte.SIZE * i);
    }
    return number;
  }

  /** Reads further bytes of the file; false at its end. */
  protected final boolean fill() throws IOException {
    int n = file.read(packed, 0, packed.length);
    from = 0;
    to = Math.max(n, 0);
    return n > 0;
  }

  /** The failure that the next read throws too. */
  protected final DamagedStreamException damaged(String why) {
    failure = new DamagedStreamException("the compressed stream is cut short or damaged: " + why);
    return failure;
  }

  /** The failure of a member that does not begin as one. */
  protected final DamagedStreamException noMember() {
    return damaged(begun ? "something that is no " + name + " follows" : "it is no " + name);
  }

  /** Throws the failure that was found behind bytes that have been returned since. */
  protected final void throwFailure() throws DamagedStreamException {
    if (failure != null) {
      throw failure;
    }
  }

  @Override
  public void close() throws IOException {
    file.close();
  }

  /** A compressed file can't be read further; the message says why. Earlier data is intact. */
  static final class DamagedStreamException extends IOException {
    DamagedStreamException(String message) {
      super(message);
    }
  }
}
