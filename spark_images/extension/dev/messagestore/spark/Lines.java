package dev.messagestore.spark;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/** The lines of a stream of bytes, which end with \n; a stream's own buffer would cost a lock for each byte. */
final class Lines implements Closeable {
  private final InputStream stream;
  private final byte[] buffer;
  private int at;
  private int filled;

  Lines(InputStream stream) {
    this(stream, 1 << 18);
  }

  Lines(InputStream stream, int bufferBytes) {
    this.stream = stream;
    this.buffer = new byte[bufferBytes];
  }

  /** The next line without its end; null if there is none. */
  byte[] next() throws IOException {
    ByteArrayOutputStream begun = null;
    do {
      int end = at;
      while (end < filled && buffer[end] != '\n') {
        end++;
      }
      if (end < filled) {
        byte[] rest = Arrays.copyOfRange(buffer, at, end);
        at = end + 1;
        return begun == null ? rest : with(begun, rest);
      }
      if (at < filled) {
        begun = begun == null ? new ByteArrayOutputStream(2 * (filled - at)) : begun;
        begun.write(buffer, at, filled - at);
      }
      at = 0;
      filled = stream.read(buffer);
    } while (filled >= 0);
    filled = 0;
    return begun == null ? null : begun.toByteArray();
  }

  private static byte[] with(ByteArrayOutputStream begun, byte[] rest) throws IOException {
    begun.write(rest);
    return begun.toByteArray();
  }

  @Override
  public void close() throws IOException {
    stream.close();
  }
}
