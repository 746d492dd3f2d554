package dev.messagestore.spark;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;

/**
 * Framings of this process that have stopped at the end of a part of a file. The next part goes on there: otherwise it
 * would be read from the file's start, and a file of many parts in a time that grows with their square.
 */
final class PausedFramings {
  /** Each pass over a batch leaves one. */
  static final int MOST = 4;

  private static final Deque<Paused> WAITING = new ArrayDeque<>();

  /**
   * What goes on.
   *
   * @param file that is read, as it was when its first part was opened
   * @param modifiedAt when the file was last changed
   * @param at where the next part begins
   */
  record Key(RecordSource.FileRange file, long modifiedAt, boolean documents, int limit, DocumentPaths paths, long at) {
    /** The same file, whichever its part is. */
    Key {
      file = file.whole();
    }

    /** The same, where another part begins. */
    Key at(long other) {
      return new Key(file, modifiedAt, documents, limit, paths, other);
    }
  }

  private record Paused(Key key, Framing framing) {}

  private PausedFramings() {}

  /** Keeps a framing, and closes the one that has waited longest if there are too many. */
  static void put(Key key, Framing framing) throws IOException {
    Paused oldest;
    synchronized (WAITING) {
      WAITING.add(new Paused(key, framing));
      oldest = WAITING.size() > MOST ? WAITING.remove() : null;
    }
    if (oldest != null) {
      oldest.framing().close();
    }
  }

  /** Takes a framing out; null if there is none. */
  static Framing take(Key key) {
    synchronized (WAITING) {
      for (Iterator<Paused> each = WAITING.iterator(); each.hasNext(); ) {
        Paused one = each.next();
        if (one.key().equals(key)) {
          each.remove();
          return one.framing();
        }
      }
      return null;
    }
  }
}
