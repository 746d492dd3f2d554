package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.MissingNode;
import io.delta.storage.CloseableIterator;
import io.delta.storage.LogStore;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.StreamSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on object storage with several writers: the object store itself creates a commit only if there is none
 * yet, and a commit is refused if another run has the table with a newer epoch. Delta's own store for S3 checks first
 * and then overwrites.
 */
public final class ConditionalLogStore extends S3SingleDriverLogStore {
  private static final String ONLY_IF_ABSENT = "fs.option.create.conditional.overwrite";

  public ConditionalLogStore(Configuration conf) {
    super(conf);
  }

  /**
   * {@inheritDoc}
   *
   * @throws FileAlreadyExistsException another commit has this version; Delta checks for conflicts and tries the next
   * @throws Fence.FencedException a run with a newer epoch has the table
   */
  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    if (overwrite) {
      super.write(path, actions, true, conf);
      return;
    }
    Fence fence = Fence.of(path, conf);
    if (fence != null) {
      fence.check(this, conf);
    }
    create(path.getFileSystem(conf), path, bytes(actions));
    if (fence != null) {
      fence.passed();
    }
  }

  /**
   * {@inheritDoc}
   *
   * <p>Only the log's own files: fast listing returns objects below folders in the log too (delta-io/delta#7451), and
   * one with a commit's name makes the table unreadable.
   */
  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration conf) throws IOException {
    String log = path.getParent().toUri().getPath();
    Iterator<FileStatus> listed = super.listFrom(path, conf);
    return StreamSupport.stream(((Iterable<FileStatus>) () -> listed).spliterator(), false)
        .filter(file -> file.getPath().getParent().toUri().getPath().equals(log))
        .iterator();
  }

  private static void create(FileSystem fs, Path path, byte[] content) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path);
    builder.overwrite(false);
    builder.must(ONLY_IF_ABSENT, true);
    FSDataOutputStream stream = builder.build();
    try {
      stream.write(content);
    } catch (IOException | RuntimeException e) {
      // close() would upload the part that was written.
      stream.abort();
      throw e;
    }
    try {
      stream.close();
    } catch (IOException e) {
      byte[] stored = read(fs, path);
      if (stored == null) {
        throw e;
      }
      // After a lost answer the request is repeated and finds its own object. No two writers have the same content.
      if (!Arrays.equals(stored, content)) {
        throw (IOException) new FileAlreadyExistsException(path.toString()).initCause(e);
      }
    }
  }

  private static byte[] read(FileSystem fs, Path path) throws IOException {
    try (InputStream in = fs.open(path)) {
      return in.readAllBytes();
    } catch (FileNotFoundException e) {
      return null;
    }
  }

  private static byte[] bytes(Iterator<String> actions) {
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      content.writeBytes((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    return content.toByteArray();
  }

  /**
   * The epoch with which this process writes a table, and whether it still may.
   *
   * <p>A run begins by committing its epoch as the version of transaction {@value #APP}, to this table or, where the run
   * before has ended, only to the store's messages. A commit is allowed if no commit since has a greater version. As
   * earlier commits never change and the new one is created only if absent, no other commit can come in between.
   */
  static final class Fence {
    static final String APP = "messagestore-epoch";
    private static final String EPOCH = "messagestore.epoch.";
    private static final String CLAIMED = "messagestore.claimed.";
    private static final Pattern COMMIT = Pattern.compile("(\\d{20})\\.json");
    private static final long NONE = -1;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Long> LOOKED_UP_TO = new ConcurrentHashMap<>();

    private final Path log;
    private final long version;
    private final long epoch;

    private Fence(Path log, long version, long epoch) {
      this.log = log;
      this.version = version;
      this.epoch = epoch;
    }

    /** The fence for a file of a table's log; null if it is no commit, or the table is written without an epoch. */
    static Fence of(Path path, Configuration conf) {
      Matcher commit = COMMIT.matcher(path.getName());
      Path log = path.getParent();
      Path folder = commit.matches() ? log.getParent().getParent() : null;
      String epoch = folder == null ? null : conf.get(EPOCH + folder);
      return epoch == null ? null : new Fence(log, Long.parseLong(commit.group(1)), Long.parseLong(epoch));
    }

    /**
     * Reads the commits before this one, back to the newest with an epoch, to the last that was read before, or to the
     * version of the table when the run claimed the store.
     *
     * @throws FencedException if that epoch is newer
     */
    void check(LogStore store, Configuration conf) throws IOException {
      long seen = LOOKED_UP_TO.getOrDefault(key(), conf.getLong(CLAIMED + log.getParent(), NONE));
      long named = NONE;
      for (long before = version - 1; before > seen && named == NONE; before--) {
        named = epochOf(store, before, conf);
      }
      if (named > epoch) {
        throw new FencedException(
            "a run with epoch " + named + " has taken over " + log.getParent() + "; this one has epoch " + epoch);
      }
      LOOKED_UP_TO.merge(key(), version - 1, Math::max);
    }

    /** The commit has been made. */
    void passed() {
      LOOKED_UP_TO.merge(key(), version, Math::max);
    }

    private String key() {
      return epoch + " " + log;
    }

    /** The epoch in a commit, or NONE. */
    private long epochOf(LogStore store, long commit, Configuration conf) throws IOException {
      try (CloseableIterator<String> actions = store.read(new Path(log, String.format("%020d.json", commit)), conf)) {
        while (actions.hasNext()) {
          String action = actions.next();
          JsonNode txn = action.contains(APP) ? JSON.readTree(action).path("txn") : MissingNode.getInstance();
          if (APP.equals(txn.path("appId").asText())) {
            return txn.path("version").asLong();
          }
        }
        return NONE;
      } catch (FileNotFoundException e) {
        throw new FencedException(
            "the log of " + log.getParent() + " has lost commit " + commit + " since the run of epoch " + epoch
                + " claimed the store, so that another run may have taken it over");
      }
    }

    /** A commit was refused because a newer run has the table. */
    static final class FencedException extends IOException {
      FencedException(String message) {
        super(message);
      }
    }
  }
}
