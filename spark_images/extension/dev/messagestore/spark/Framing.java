package dev.messagestore.spark;

import java.io.IOException;

/** Cuts one file range into records: their bytes, and the byte at which each starts in its (decompressed) file. */
interface Framing extends AutoCloseable {
  /** Moves to the next record; false at the end of the range. */
  boolean next() throws IOException;

  /** The record's bytes, without its end of line. */
  byte[] bytes();

  long offset();

  /** Why the record can't be whole (a compressed stream cut short, a line without end), or null. */
  String fault();

  @Override
  void close() throws IOException;
}
