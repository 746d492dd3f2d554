package dev.messagestore.spark;

import java.io.Closeable;
import java.io.IOException;
import java.util.Map;

/** Splits a file range into records: their bytes, and the offset of each in its (decompressed) file. */
abstract class Framing implements Closeable {
  /** How many bytes are kept of a record that is too large: enough to recognise it. */
  static final int KEPT = 1 << 16;

  /** Bytes of a file that may be held while its next part is waited for. */
  static final int HELD = 4 << 20;

  /** Where the range ends: a record that starts there or behind is of the next one. */
  protected long end;

  protected byte[] record;
  protected long offset;
  protected String fault;
  protected long size;
  protected String reason;
  protected Map<String, String> about = Map.of();

  Framing(long end) {
    this.end = end;
  }

  /** Moves to the next record; false at the end of the range. */
  abstract boolean next() throws IOException;

  /** The record's bytes, without its end of line; if it is too large, the first {@link #KEPT}. */
  final byte[] bytes() {
    return record;
  }

  final long offset() {
    return offset;
  }

  /** Why the record is incomplete (a truncated compressed stream, a line that is too long), or null. */
  final String fault() {
    return fault;
  }

  /** How many bytes a record has if it is too large, else -1. */
  final long size() {
    return size;
  }

  /** The reason that {@link #fault} tells of, if it is another one than that the record is unreadable, else null. */
  final String reason() {
    return reason;
  }

  /** What is known of the document around the record, by name: the same object for all its records. */
  final Map<String, String> about() {
    return about;
  }

  /** Whether the bytes are only a part of the record. */
  boolean cut() {
    return fault != null;
  }

  /** The message about a record that is too large. */
  static String tooLarge(String what, long size, int limit) {
    return what + " is " + size + " bytes long, but must be shorter than " + limit + "; its first " + Math.min(limit, KEPT)
        + " are kept";
  }

  /** Whether it has stopped before a record that starts behind its range, and holds little of the file. */
  abstract boolean paused();

  /** Lets it go on, once it has {@link #paused}, with the records that start before {@code to}. */
  final void goOn(long to) {
    end = to;
  }
}
