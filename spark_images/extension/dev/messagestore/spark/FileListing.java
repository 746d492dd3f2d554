package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.security.AccessControlException;
import org.apache.hadoop.util.functional.FutureIO;

/** Lists the files below a prefix in one call from Python; one call per file would take minutes. */
public final class FileListing {
  private static final int AT_ONCE = 16_384;

  private FileListing() {}

  /**
   * Writes all files below {@code uri} to a local file {@code to}, as py4j transfers bytes one by one; none if there is
   * no such folder. Like Hadoop's readers, it skips names that start with "." or "_", which unfinished uploads have.
   *
   * <p>The files come in portions: their number (int), their sizes and the times of their last changes (ms) as longs,
   * and their URIs in Arrow's form of strings: the offset of each and the end of the last (int), then all their bytes.
   * All numbers are little-endian.
   */
  public static void list(Configuration conf, String uri, String to) throws IOException {
    Path root = new Path(uri);
    FileSystem fs = root.getFileSystem(conf);
    String above = fs.makeQualified(root).toString();
    try (OutputStream out = new BufferedOutputStream(new FileOutputStream(to))) {
      RemoteIterator<LocatedFileStatus> listing = fs.listFiles(root, true);
      for (var files = portion(listing, above); !files.isEmpty(); files = portion(listing, above)) {
        write(files, out);
      }
    } catch (FileNotFoundException e) {
      // Nothing has arrived yet.
    }
  }

  private static void write(List<LocatedFileStatus> files, OutputStream out) throws IOException {
    ByteBuffer numbers = ByteBuffer.allocate(8 + 20 * files.size()).order(ByteOrder.LITTLE_ENDIAN).putInt(files.size());
    ByteArrayOutputStream uris = new ByteArrayOutputStream();
    files.forEach(file -> numbers.putLong(file.getLen()));
    files.forEach(file -> numbers.putLong(file.getModificationTime()));
    for (LocatedFileStatus file : files) {
      numbers.putInt(uris.size());
      uris.writeBytes(file.getPath().toString().getBytes(StandardCharsets.UTF_8));
    }
    out.write(numbers.putInt(uris.size()).array());
    uris.writeTo(out);
  }

  private static List<LocatedFileStatus> portion(RemoteIterator<LocatedFileStatus> listing, String above)
      throws IOException {
    List<LocatedFileStatus> files = new ArrayList<>();
    while (files.size() < AT_ONCE && listing.hasNext()) {
      LocatedFileStatus file = listing.next();
      if (!hidden(file.getPath().toString(), above)) {
        files.add(file);
      }
    }
    return files;
  }

  /**
   * Which of {@code uris}, a JSON array, don't exist any more or may not be read, as a JSON array of
   * {@code [uri, why, may not be read]}. Other errors of the file system are thrown.
   */
  public static String unreadable(Configuration conf, String uris) throws IOException {
    ObjectMapper mapper = new ObjectMapper();
    ArrayNode unreadable = mapper.createArrayNode();
    for (String uri : mapper.readValue(uris, String[].class)) {
      try {
        start(conf, new Path(uri), 1);
      } catch (EOFException e) {
        // It is empty.
      } catch (FileNotFoundException | NoSuchFileException e) {
        unreadable.addArray().add(uri).add(String.valueOf(e.getMessage())).add(false);
      } catch (AccessDeniedException | AccessControlException e) {
        unreadable.addArray().add(uri).add(String.valueOf(e.getMessage())).add(true);
      }
    }
    return unreadable.toString();
  }

  /**
   * The first bytes, in base64, of {@code files}, a JSON array of {@code [uri, how many]}, as a JSON array; null where a
   * file can't be read. Each costs one request.
   */
  public static String starts(Configuration conf, String files) throws IOException {
    ObjectMapper mapper = new ObjectMapper();
    ArrayNode starts = mapper.createArrayNode();
    for (JsonNode file : mapper.readTree(files)) {
      try {
        starts.add(start(conf, new Path(file.get(0).asText()), file.get(1).asInt()));
      } catch (IOException e) {
        // Whoever reads the file tells why.
        starts.addNull();
      }
    }
    return starts.toString();
  }

  private static byte[] start(Configuration conf, Path path, int length) throws IOException {
    // By default S3A asks for all of the object.
    try (FSDataInputStream file = open(conf, path, length, "random")) {
      byte[] start = new byte[length];
      file.readFully(0, start);
      return start;
    }
  }

  /** Opens a file of which {@code length} bytes are to be read, without a request for its size. */
  static FSDataInputStream open(Configuration conf, Path path, long length, String policy) throws IOException {
    return FutureIO.awaitFuture(
        path.getFileSystem(conf)
            .openFile(path)
            .opt(Options.OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY, policy)
            .optLong(Options.OpenFileOptions.FS_OPTION_OPENFILE_LENGTH, length)
            .build());
  }

  private static boolean hidden(String path, String root) {
    for (String name : path.substring(root.length()).split("/")) {
      if (name.startsWith(".") || name.startsWith("_")) {
        return true;
      }
    }
    return false;
  }
}
