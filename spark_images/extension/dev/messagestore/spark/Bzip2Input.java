package dev.messagestore.spark;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.regex.Pattern;
import org.apache.commons.compress.compressors.bzip2.BZip2CompressorInputStream;

/**
 * Unpacks bzip2 by the library that Spark has. That gives a damaged block away before it finds the block's sum wrong, so
 * a block is held until its sum has been checked.
 */
final class Bzip2Input extends UnpackingInput {
  /** How a stream begins that has a block, or none; text may begin as its first three bytes. */
  private static final Pattern BEGINNING = Pattern.compile("BZh[1-9](1AY&SY|\\x17rE8P\\x90)");

  /** A block has at most 900,000 bytes, but for runs of one byte: of those no more than this is held. */
  private static final int MOST_HELD = 4 << 20;

  private final Source source = new Source();
  private BZip2CompressorInputStream stream;
  private byte[] held = new byte[1 << 20];
  private int given;
  private int checked;
  private int heldEnd;
  private boolean streamEnded;
  private Exception broken;

  Bzip2Input(InputStream file, long size) {
    super(file, "bzip2", size);
  }

  /** Whether a file that begins with these bytes is bzip2. */
  static boolean begins(byte[] start) {
    return BEGINNING.matcher(new String(start, StandardCharsets.ISO_8859_1)).matches();
  }

  @Override
  protected void open(int first) throws IOException {
    if (first != 'B') {
      throw noMember();
    }
    from--;
    given = 0;
    checked = 0;
    heldEnd = 0;
    streamEnded = false;
    try {
      stream = new BZip2CompressorInputStream(source);
    } catch (IOException | RuntimeException e) {
      throw failure(e);
    }
  }

  @Override
  protected int unpack(byte[] into, int offset, int length) throws IOException {
    if (given == checked && !streamEnded && broken == null) {
      readBlock();
    }
    if (given == checked) {
      if (broken != null) {
        throw failure(broken);
      }
      return -1;
    }
    int n = Math.min(length, checked - given);
    System.arraycopy(held, given, into, offset, n);
    given += n;
    return n;
  }

  /** Reads up to the first byte of the next block: the library looks for that once the sum of this one was right. */
  private void readBlock() {
    heldEnd -= given;
    System.arraycopy(held, given, held, 0, heldEnd);
    given = 0;
    checked = 0;
    while (checked == 0 && !streamEnded && broken == null) {
      source.wasRead = false;
      int b = readByte();
      if (source.wasRead || streamEnded) {
        checked = heldEnd;
      }
      if (b >= 0) {
        hold(b);
      }
    }
  }

  private int readByte() {
    try {
      int b = stream.read();
      streamEnded = b < 0;
      return b;
    } catch (IOException | RuntimeException e) {
      broken = e;
      return -1;
    }
  }

  private void hold(int b) {
    if (heldEnd == held.length) {
      held = Arrays.copyOf(held, 2 * held.length);
    }
    held[heldEnd++] = (byte) b;
    if (heldEnd == MOST_HELD) {
      checked = heldEnd;
    }
  }

  /** What an error of the library means; of damage it may throw any. */
  private IOException failure(Exception e) {
    if (source.error != null) {
      return source.error;
    }
    return damaged(source.ended ? "it ends early" : String.valueOf(e.getMessage()));
  }

  /** The bytes of the file, from which the library takes no more than it needs. */
  private final class Source extends InputStream {
    private boolean wasRead;
    private boolean ended;
    private IOException error;

    @Override
    public int read() throws IOException {
      wasRead = true;
      try {
        int b = next();
        ended = b < 0;
        return b;
      } catch (IOException e) {
        error = e;
        throw e;
      }
    }
  }
}
