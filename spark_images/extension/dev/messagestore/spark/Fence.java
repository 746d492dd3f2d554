package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.MissingNode;
import io.delta.storage.CloseableIterator;
import io.delta.storage.LogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * The epoch under which this process writes a table, and whether it still may.
 *
 * <p>A run begins by committing its epoch to the table as the version of transaction {@value #APP}. A commit is let
 * through where the newest such version before it is not above the writer's own. As every version before it is there
 * for good and its own is created only if absent, nothing can come in between.
 */
final class Fence {
  static final String APP = "messagestore-epoch";
  private static final String EPOCH = "messagestore.epoch.";
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

  /** The fence around a file of a table's log; null where it is no commit, or the table is written without an epoch. */
  static Fence of(Path path, Configuration conf) {
    Matcher commit = COMMIT.matcher(path.getName());
    Path log = path.getParent();
    Path folder = commit.matches() ? log.getParent().getParent() : null;
    String epoch = folder == null ? null : conf.get(EPOCH + folder);
    return epoch == null ? null : new Fence(log, Long.parseLong(commit.group(1)), Long.parseLong(epoch));
  }

  /**
   * Look at the commits before this one, back to the newest that names an epoch or to what was looked at before.
   *
   * @throws FencedException that epoch is newer
   */
  void check(LogStore store, Configuration conf) throws IOException {
    long seen = LOOKED_UP_TO.getOrDefault(key(), -1L);
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

  /** The epoch that a commit names, or NONE. */
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
      // The log has been cleaned up to here, and this run's own claim is newer than that.
      return epoch;
    }
  }

  /** A commit was refused because the table has been given to a newer run. */
  static final class FencedException extends IOException {
    FencedException(String message) {
      super(message);
    }
  }
}
