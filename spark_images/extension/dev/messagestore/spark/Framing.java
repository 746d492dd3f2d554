package dev.messagestore.spark;

import java.io.IOException;

/** Cuts one file range into records: their bytes, and the byte at which each starts in its (decompressed) file. */
interface Framing extends AutoCloseable {
  /** How much is kept of a record that is too large: enough to see what it is. */
  int KEPT = 1 << 16;

  /** Moves to the next record; false at the end of the range. */
  boolean next() throws IOException;

  /** The record's bytes, without its end of line; of one that is too large the first {@link #KEPT}. */
  byte[] bytes();

  long offset();

  /** Why the record can't be whole (a compressed stream cut short, a line without end), or null. */
  String fault();

  /** How many bytes a record has that is too large; -1 of any other. */
  long size();

  /** What is said of a record that is too large. */
  static String tooLarge(String what, long size, int limit) {
    return what + " is " + size + " bytes long, fewer than " + limit + " are taken in; its first " + Math.min(limit, KEPT)
        + " are kept";
  }

  @Override
  void close() throws IOException;
}
