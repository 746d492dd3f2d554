package dev.messagestore.spark;

import java.io.IOException;
import java.util.Map;

/** Splits a file range into records: their bytes, and the offset of each in its (decompressed) file. */
interface Framing extends AutoCloseable {
  /** How many bytes are kept of a record that is too large: enough to recognise it. */
  int KEPT = 1 << 16;

  /** Bytes of a file that may be held while its next part is waited for. */
  int HELD = 4 << 20;

  /** Moves to the next record; false at the end of the range. */
  boolean next() throws IOException;

  /** The record's bytes, without its end of line; if it is too large, the first {@link #KEPT}. */
  byte[] bytes();

  long offset();

  /** Why the record is incomplete (a truncated compressed stream, a line that is too long), or null. */
  String fault();

  /** How many bytes a record has if it is too large, else -1. */
  long size();

  /** The reason that {@link #fault} tells of, if it is another one than that the record is unreadable, else null. */
  default String reason() {
    return null;
  }

  /** What is known of the document around the record, by name: the same object for all its records. */
  default Map<String, String> about() {
    return Map.of();
  }

  /** Whether the bytes are only a part of the record. */
  default boolean cut() {
    return fault() != null;
  }

  /** The message about a record that is too large. */
  static String tooLarge(String what, long size, int limit) {
    return what + " is " + size + " bytes long, but must be shorter than " + limit + "; its first " + Math.min(limit, KEPT)
        + " are kept";
  }

  /** Whether it has stopped before a record that starts behind its range, and holds little of the file. */
  default boolean paused() {
    return false;
  }

  /** Lets it go on, once it has {@link #paused}, with the records that start before {@code to}. */
  default void goOn(long to) {
    throw new UnsupportedOperationException();
  }

  @Override
  void close() throws IOException;
}
