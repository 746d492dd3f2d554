package dev.messagestore.spark;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.util.functional.RemoteIterators;

/**
 * Local files without checksum files. Hadoop's raw file system has none either, but is no LocalFileSystem, which S3A
 * needs for uploads.
 */
public final class PlainLocalFileSystem extends LocalFileSystem {
  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    setWriteChecksum(false);
    setVerifyChecksum(false);
  }

  /** Lists files without permissions: Hadoop would start a process for each file to find them. */
  @Override
  public RemoteIterator<LocatedFileStatus> listLocatedStatus(Path folder) throws IOException {
    return RemoteIterators.mappingRemoteIterator(listStatusIterator(folder), PlainLocalFileSystem::located);
  }

  private static LocatedFileStatus located(FileStatus file) {
    return new LocatedFileStatus(
        file.getLen(),
        file.isDirectory(),
        file.getReplication(),
        file.getBlockSize(),
        file.getModificationTime(),
        file.getAccessTime(),
        null,
        null,
        null,
        null,
        file.getPath(),
        false,
        false,
        false,
        null);
  }
}
