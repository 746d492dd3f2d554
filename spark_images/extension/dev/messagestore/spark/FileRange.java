package dev.messagestore.spark;

import java.io.Serializable;

/**
 * The part of one file that a batch reads: the records that start in [start, end).
 *
 * @param uri the file, as Hadoop's file system names it
 * @param start first byte; a record that started before it belongs to the range before
 * @param end one past the range's last byte
 * @param size the file's size when it was planned; what a growing file gained since is not read
 */
record FileRange(String uri, long start, long end, long size) implements Serializable {
  /** A compressed file is read whole: nothing tells where its lines start before they are unpacked. */
  boolean compressed() {
    return uri.endsWith(".gz");
  }
}
