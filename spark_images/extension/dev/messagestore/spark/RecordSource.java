package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.commons.io.input.BoundedInputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;

/**
 * A Spark data source that reads planned file ranges as records, in order of arrival.
 *
 * <p>Columns: part int and row int (the position in the plan: partition, and record within it), uri string (the range's
 * source), offset long (byte at which the record starts in its decompressed file), value binary (its exact bytes), fault
 * string (why it is incomplete, or null), size long (for a record that is too large, of which value is the start; else
 * null), cut boolean (whether value lacks bytes of the record), fault_reason string (of a fault, if it is another than that
 * the record is unreadable; else null), about map (what the plan says about the record's file, and values of the document
 * around the record; may be null). A part's last row is no record: its row is -1 minus the number of records in the part.
 *
 * <p>The plan: {@code {"format": "Lines"|"Documents", "maxRecordBytes": how many bytes are too many for a record, "parts":
 * [[range, …]], "paths": {"records": [path, …], "around": {name: path}}}}: see {@link FileRange} and {@link DocumentPaths}.
 */
public final class RecordSource extends PlannedSource<RecordSource.FileRange> {
  private static final StructType SCHEMA =
      StructType.fromDDL(
          "part INT NOT NULL, row INT NOT NULL, uri STRING NOT NULL, offset BIGINT NOT NULL, value BINARY NOT NULL,"
              + " fault STRING, size BIGINT, cut BOOLEAN NOT NULL, fault_reason STRING, about MAP<STRING, STRING>");

  private static final long NOT_CUT = -1;

  /** In the error about a range with more records than it may have. */
  private static final String TOO_MANY = "more records than a batch holds";

  /** Called by Spark. */
  public RecordSource() {
    super("records", SCHEMA, FileRange.class);
  }

  /**
   * The part of one file that a batch reads: the records that start in [start, end). Of a file that can't be cut by its
   * bytes: those that start in [from, to) of what it unpacks to.
   *
   * @param uri the file's URI for Hadoop's file system
   * @param start first byte; a record that starts before it belongs to the range before
   * @param end one past the range's last byte
   * @param size the file's size at planning; bytes that were appended later are not read
   * @param source the source URI of the range's records
   * @param about what is said about the file, by name; may be null
   * @param from {@code NOT_CUT} if the file is not cut between records
   * @param most how many records the range may have unless it is of lines that are not compressed; past them, reading fails
   */
  record FileRange(
      String uri,
      long start,
      long end,
      long size,
      String source,
      LinkedHashMap<String, String> about,
      long from,
      long to,
      long most)
      implements Serializable {
    /** Whether it is read from the file's start on, as of each that is compressed: where records start is known then. */
    boolean fromStart() {
      return from != NOT_CUT || start == 0 && end == size;
    }

    /** Its file, without what differs from part to part. */
    FileRange whole() {
      return new FileRange(uri, 0, size, size, source, about, 0, Long.MAX_VALUE, Long.MAX_VALUE);
    }
  }

  @Override
  Opener<FileRange> opener(JsonNode plan) {
    var conf = new SerializableConfiguration(SparkSession.active().sessionState().newHadoopConf());
    boolean documents = plan.get("format").asText().equals("Documents");
    int limit = plan.get("maxRecordBytes").asInt();
    DocumentPaths paths = new ObjectMapper().convertValue(plan.get("paths"), DocumentPaths.class);
    return part -> new Reader(part, conf.value(), documents, limit, paths);
  }

  private static final class Reader extends PartReader<FileRange> {
    private final Configuration conf;
    private final boolean documents;
    private final int limit;
    private final DocumentPaths paths;
    private Framing framing;
    private FileRange range;
    private UTF8String uri;
    private Map<String, String> ofDocument;
    private MapData about;
    private long left;
    private PausedFramings.Key next;

    Reader(Part<FileRange> part, Configuration conf, boolean documents, int limit, DocumentPaths paths) {
      super(
          part, UTF8String.EMPTY_UTF8, 0L, new byte[0], UTF8String.fromString("the end of the part"), null, false, null, null);
      this.conf = conf;
      this.documents = documents;
      this.limit = limit;
      this.paths = paths;
    }

    @Override
    public boolean next() throws IOException {
      while (framing == null || !framing.next()) {
        pause();
        close();
        if (!ranges.hasNext()) {
          return end();
        }
        range = ranges.next();
        uri = UTF8String.fromString(range.source());
        ofDocument = null;
        framing = open(range);
      }
      if (left-- == 0) {
        throw new IOException(range.uri() + " has " + TOO_MANY + ": " + range.most());
      }
      if (ofDocument != framing.about()) {
        ofDocument = framing.about();
        about = range.about() == null && paths.around().isEmpty() ? null : joined(range.about(), ofDocument);
      }
      String fault = framing.fault();
      begin();
      row.update(2, uri);
      row.update(3, framing.offset());
      row.update(4, framing.bytes());
      row.update(5, fault == null ? null : UTF8String.fromString(fault));
      row.update(6, framing.size() < 0 ? null : framing.size());
      row.update(7, framing.cut());
      row.update(8, framing.reason() == null ? null : UTF8String.fromString(framing.reason()));
      row.update(9, about);
      return true;
    }

    private static MapData joined(Map<String, String> file, Map<String, String> document) {
      Map<String, String> both = new LinkedHashMap<>(file == null ? Map.of() : file);
      both.putAll(document);
      Object[] names = both.keySet().stream().map(UTF8String::fromString).toArray();
      return ArrayBasedMapData.apply(names, both.values().stream().map(UTF8String::fromString).toArray());
    }

    /** Lets the next part of a file go on where this one has ended. */
    private void pause() throws IOException {
      if (framing != null && next != null && framing.paused()) {
        PausedFramings.put(next, framing);
        framing = null;
      }
    }

    private Framing open(FileRange range) throws IOException {
      boolean isLast = range.to() == Long.MAX_VALUE;
      next = null;
      if (isLast && range.from() <= 0) {
        return framed(range);
      }
      Path path = new Path(range.uri());
      long modifiedAt = path.getFileSystem(conf).getFileStatus(path).getModificationTime();
      PausedFramings.Key own = new PausedFramings.Key(range, modifiedAt, documents, limit, paths, range.from());
      next = isLast ? null : own.at(range.to());
      Framing paused = range.from() > 0 ? PausedFramings.take(own) : null;
      if (paused == null) {
        return framed(range);
      }
      left = range.most();
      paused.goOn(range.to());
      return paused;
    }

    private Framing framed(FileRange range) throws IOException {
      boolean fromStart = documents || range.fromStart();
      long at = fromStart ? 0 : Math.max(0, range.start() - 1);
      InputStream content = content(range, at, fromStart, false);
      if (!documents && range.from() == NOT_CUT && !(content instanceof UnpackingInput)) {
        left = Long.MAX_VALUE;
        return new LineFraming(content, at, range.start(), range.end(), limit);
      }
      if (content instanceof ZstdInput) {
        // Other tasks may wait for its window.
        next = null;
      }
      left = range.most();
      long first = Math.max(0, range.from());
      if (!documents) {
        return new LineFraming(content, 0, first, range.to(), limit);
      }
      return DocumentFraming.of(content, again(range, content), first, range.to(), limit, paths);
    }

    /** The bytes of a range's file beside its content, if values around its records are needed; else null. */
    private InputStream again(FileRange range, InputStream content) throws IOException {
      try {
        return paths.around().isEmpty() ? null : content(range, 0, true, true);
      } catch (IOException | RuntimeException e) {
        content.close();
        throw e;
      }
    }

    /** The bytes of a range's file from {@code at} on, unpacked if it is read from its start; {@code again}: beside them. */
    private InputStream content(FileRange range, long at, boolean fromStart, boolean again) throws IOException {
      FSDataInputStream file = FileListing.open(conf, new Path(range.uri()), range.size(), "sequential");
      // Lines of a range may end after it, but never after the file's planned size.
      InputStream bounded =
          BoundedInputStream.builder().setInputStream(from(file, at)).setMaxCount(range.size() - at).get();
      return fromStart ? UnpackingInput.of(bounded, range.size(), again) : bounded;
    }

    /** A file from an offset on; empty if it has become shorter in the meantime. */
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
    public void close() throws IOException {
      if (framing != null) {
        framing.close();
        framing = null;
      }
    }
  }
}
