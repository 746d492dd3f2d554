package dev.messagestore.spark;

import com.github.luben.zstd.ZstdIOException;
import com.github.luben.zstd.ZstdInputStreamNoFinalizer;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.util.concurrent.Semaphore;

/**
 * Unpacks zstd (RFC 8878), skippable frames included, by the library that Spark has. Of a call in which it meets damage
 * the library returns nothing, so it gets one block at a time.
 */
final class ZstdInput extends UnpackingInput {
  /** The largest window of a frame, in bytes: that of {@code zstd --long}. It lies outside of the heap. */
  private static final int LARGEST_WINDOW = 1 << 27;

  /** What all windows of this process may still take: however many tasks there are, they take one largest window. */
  private static final Semaphore WINDOWS = new Semaphore(LARGEST_WINDOW, true);

  /** Of the task that reads its file twice at a time: the second window lies beside the others. */
  private static final Semaphore SECOND = new Semaphore(1, true);

  private static final int SIGN = 0xFD2FB528;
  private static final int SKIPPABLE = 0x184D2A5;
  private static final int LARGEST_HEADER = 18;
  private static final int LARGEST_BLOCK = 128 << 10;
  private static final int REPEATED_BYTE = 1;
  private static final int RESERVED = 3;
  private static final int SUM = 4;
  private static final int[] BYTES_OF_DICTIONARY = {0, 1, 2, 4};

  private final Pieces pieces = new Pieces();
  private boolean second;
  private ZstdInputStreamNoFinalizer frames;
  private int reserved;
  private boolean skipped;

  /**
   * @param again whether the task reads the file beside this; it must not have begun, as it may have to wait
   */
  ZstdInput(InputStream file, long size, boolean again) throws IOException {
    super(file, "zstd", size);
    if (again) {
      acquire(SECOND, 1);
      second = true;
    }
  }

  /** Whether a file that begins with these bytes is zstd. */
  static boolean begins(byte[] start) {
    int sign = 0;
    for (int i = 0; i < Math.min(start.length, Integer.BYTES); i++) {
      sign |= (start[i] & 0xFF) << (Byte.SIZE * i);
    }
    return sign == SIGN || isSkippable(sign);
  }

  private static boolean isSkippable(int sign) {
    return sign >>> 4 == SKIPPABLE;
  }

  @Override
  protected void open(int first) throws IOException {
    if (first != (SIGN & 0xFF) && first >>> 4 != (SKIPPABLE & 0xF)) {
      throw noMember();
    }
    int sign = first | (int) number(Integer.BYTES - 1) << Byte.SIZE;
    skipped = isSkippable(sign);
    if (skipped) {
      pass(number(Integer.BYTES));
    } else if (sign == SIGN) {
      reserve(pieces.begin());
    } else {
      throw noMember();
    }
  }

  private void pass(long count) throws IOException {
    for (long left = count; left > 0; left--) {
      due();
    }
  }

  /** Waits until a window fits beside those of other tasks, with none of its own, so that no two wait for each other. */
  private void reserve(int bytes) throws IOException {
    if (bytes <= reserved) {
      return;
    }
    release();
    if (!second) {
      acquire(WINDOWS, bytes);
    }
    reserved = bytes;
    frames = new ZstdInputStreamNoFinalizer(pieces);
  }

  private static void acquire(Semaphore memory, int permits) throws IOException {
    try {
      memory.acquire(permits);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("waited for memory to unpack zstd");
    }
  }

  private void release() throws IOException {
    if (reserved > 0) {
      frames.close();
      WINDOWS.release(second ? 0 : reserved);
      reserved = 0;
    }
  }

  @Override
  protected int unpack(byte[] into, int offset, int length) throws IOException {
    if (skipped) {
      return -1;
    }
    try {
      return frames.read(into, offset, length);
    } catch (ZstdIOException e) {
      throw damaged(e.getMessage());
    }
  }

  @Override
  public void close() throws IOException {
    release();
    if (second) {
      SECOND.release();
      second = false;
    }
    super.close();
  }

  /** A frame in pieces: each call of {@link #read} returns bytes of its header, of one block, or of its sum. */
  private final class Pieces extends InputStream {
    private final byte[] start = new byte[LARGEST_HEADER];
    private int at;
    private int startEnd;
    private int left;
    private boolean last;
    private boolean summed;

    /** Begins with a frame behind its sign; returns how many bytes its window takes. */
    int begin() throws IOException {
      at = 0;
      startEnd = 0;
      left = 0;
      last = false;
      add(SIGN, Integer.BYTES);
      int descriptor = due();
      add(descriptor, 1);
      summed = (descriptor & 4) != 0;
      boolean single = (descriptor & 0x20) != 0;
      long window = single ? 0 : window(copied(1));
      copied(BYTES_OF_DICTIONARY[descriptor & 3]);
      int form = descriptor >>> 6;
      long content = form == 0 && !single ? -1 : copied(1 << form) + (form == 1 ? 256 : 0);
      if (single) {
        window = content;
      }
      if (window < 0 || window > LARGEST_WINDOW) {
        throw damaged("its window has " + Long.toUnsignedString(window) + " bytes, and may have " + LARGEST_WINDOW
            + ", as by zstd --long=27");
      }
      long needed = content < 0 ? window : Math.min(window, content);
      return (int) Math.min(LARGEST_WINDOW, Math.max(needed, LARGEST_BLOCK));
    }

    private static long window(long b) {
      long base = 1L << (10 + (b >>> 3));
      return base + base / 8 * (b & 7);
    }

    private long copied(int bytes) throws IOException {
      long number = number(bytes);
      add(number, bytes);
      return number;
    }

    private void add(long number, int bytes) {
      for (int i = 0; i < bytes; i++) {
        start[startEnd++] = (byte) (number >>> (Byte.SIZE * i));
      }
    }

    private boolean next() throws IOException {
      at = 0;
      startEnd = 0;
      if (last) {
        boolean sum = summed;
        summed = false;
        if (sum) {
          copied(SUM);
        }
        return sum;
      }
      int block = (int) copied(3);
      last = (block & 1) != 0;
      int form = block >>> 1 & 3;
      if (form == RESERVED || block >>> 3 > LARGEST_BLOCK) {
        throw damaged("no block begins where one must");
      }
      left = form == REPEATED_BYTE ? 1 : block >>> 3;
      return true;
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
      if (at == startEnd && left == 0 && !next()) {
        return -1;
      }
      int n = Math.min(length, startEnd - at);
      System.arraycopy(start, at, into, offset, n);
      at += n;
      if (left == 0 || n == length) {
        return n;
      }
      if (from == to && !fill()) {
        throw damaged("it ends early");
      }
      int more = Math.min(length - n, Math.min(left, to - from));
      System.arraycopy(packed, from, into, offset + n, more);
      from += more;
      left -= more;
      return n + more;
    }

    @Override
    public int read() {
      throw new UnsupportedOperationException("the library reads many bytes at once");
    }
  }
}
