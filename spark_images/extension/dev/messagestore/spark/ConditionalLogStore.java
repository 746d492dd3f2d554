package dev.messagestore.spark;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
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
    put(fs, path, content, builder.build());
  }

  private static void put(FileSystem fs, Path path, byte[] content, FSDataOutputStream stream) throws IOException {
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
        throw alreadyThere(path, e);
      }
    }
  }

  private static FileAlreadyExistsException alreadyThere(Path path, IOException cause) {
    FileAlreadyExistsException exists = new FileAlreadyExistsException(path.toString());
    exists.initCause(cause);
    return exists;
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
}
