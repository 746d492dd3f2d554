package dev.messagestore.spark;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads the ranges of one partition one after the other, then returns one row that ends the part and tells how many
 * records it had: without it nobody would miss the last records of a file that was cut meanwhile. The row is reused.
 */
final class RecordReader implements PartitionReader<InternalRow> {
  private final int part;
  private final Iterator<FileRange> ranges;
  private final Configuration conf;
  private final boolean documents;
  private final int limit;
  private final GenericInternalRow row = new GenericInternalRow(7);
  private Framing framing;
  private UTF8String uri;
  private int count;
  private boolean ended;

  RecordReader(RecordSource.Part part, Configuration conf, boolean documents, int limit) {
    this.part = part.index();
    this.ranges = part.ranges().iterator();
    this.conf = conf;
    this.documents = documents;
    this.limit = limit;
  }

  @Override
  public boolean next() throws IOException {
    while (framing == null || !framing.next()) {
      close();
      if (!ranges.hasNext()) {
        return end();
      }
      FileRange range = ranges.next();
      uri = UTF8String.fromString(range.uri());
      framing = open(range);
    }
    String fault = framing.fault();
    row.update(0, part);
    row.update(1, count++);
    row.update(2, uri);
    row.update(3, framing.offset());
    row.update(4, framing.bytes());
    row.update(5, fault == null ? null : UTF8String.fromString(fault));
    row.update(6, framing.size() < 0 ? null : framing.size());
    return true;
  }

  private boolean end() {
    if (ended) {
      return false;
    }
    ended = true;
    row.update(0, part);
    row.update(1, -1 - count);
    row.update(2, UTF8String.EMPTY_UTF8);
    row.update(3, 0L);
    row.update(4, new byte[0]);
    row.update(5, UTF8String.fromString("the end of the part"));
    row.update(6, null);
    return true;
  }

  private Framing open(FileRange range) throws IOException {
    Path path = new Path(range.uri());
    FSDataInputStream file = path.getFileSystem(conf).open(path);
    if (range.compressed()) {
      InputStream plain = new GunzipInput(file, range.size());
      return documents ? new DocumentFraming(plain, limit) : new LineFraming(plain, range, 0, limit);
    }
    long at = Math.max(0, range.start() - 1);
    // Lines of a range may end behind it, but never behind the file as it was planned.
    InputStream bounded = new BoundedInput(from(file, at), range.size() - at);
    return documents ? new DocumentFraming(bounded, limit) : new LineFraming(bounded, range, at, limit);
  }

  /** A file from a place on; nothing, where it has become shorter meanwhile. */
  private static InputStream from(FSDataInputStream file, long place) throws IOException {
    try {
      file.seek(place);
      return file;
    } catch (EOFException e) {
      file.close();
      return InputStream.nullInputStream();
    }
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public void close() throws IOException {
    if (framing != null) {
      framing.close();
      framing = null;
    }
  }

  private static final class BoundedInput extends InputStream {
    private final InputStream in;
    private long left;

    BoundedInput(InputStream in, long left) {
      this.in = in;
      this.left = left;
    }

    @Override
    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
    }

    @Override
    public int read(byte[] into, int from, int length) throws IOException {
      if (left <= 0) {
        return -1;
      }
      int n = in.read(into, from, (int) Math.min(length, left));
      left -= Math.max(n, 0);
      return n;
    }

    @Override
    public void close() throws IOException {
      in.close();
    }
  }
}
