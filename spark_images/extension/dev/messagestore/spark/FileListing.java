package dev.messagestore.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.AccessDeniedException;
import java.nio.file.NoSuchFileException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.security.AccessControlException;

/** Lists what lies under a prefix in one call, where a call a file from Python would take minutes. */
public final class FileListing {
  private FileListing() {}

  /**
   * Every file below {@code uri}, as a JSON array of {@code [uri, size, modified (ms)]}; empty where there is no such
   * folder. Names that start with "." or "_" are passed over, as Hadoop's readers do: uploads under way have them.
   */
  public static String list(Configuration conf, String uri) throws IOException {
    Path root = new Path(uri);
    FileSystem fs = root.getFileSystem(conf);
    ArrayNode files = new ObjectMapper().createArrayNode();
    try {
      RemoteIterator<LocatedFileStatus> found = fs.listFiles(root, true);
      while (found.hasNext()) {
        LocatedFileStatus file = found.next();
        String path = file.getPath().toString();
        if (!hidden(path, fs.makeQualified(root).toString())) {
          files.addArray().add(path).add(file.getLen()).add(file.getModificationTime());
        }
      }
    } catch (FileNotFoundException e) {
      return "[]";
    }
    return files.toString();
  }

  /**
   * Which of {@code uris}, a JSON array, are there no more or may not be read, as a JSON array of
   * {@code [uri, why, may not be read]}. A file system that fails in another way fails here too.
   */
  public static String unreadable(Configuration conf, String uris) throws IOException {
    ObjectMapper mapper = new ObjectMapper();
    ArrayNode found = mapper.createArrayNode();
    for (String uri : mapper.readValue(uris, String[].class)) {
      Path path = new Path(uri);
      try (InputStream file = path.getFileSystem(conf).open(path)) {
        file.read();
      } catch (FileNotFoundException | NoSuchFileException e) {
        found.addArray().add(uri).add(String.valueOf(e.getMessage())).add(false);
      } catch (AccessDeniedException | AccessControlException e) {
        found.addArray().add(uri).add(String.valueOf(e.getMessage())).add(true);
      }
    }
    return found.toString();
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
