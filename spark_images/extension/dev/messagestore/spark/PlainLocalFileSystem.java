package dev.messagestore.spark;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;

/**
 * Local files without a checksum file beside each. Hadoop's raw file system has none either, but is no
 * LocalFileSystem, which S3A wants for what it uploads.
 */
public final class PlainLocalFileSystem extends LocalFileSystem {
  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    setWriteChecksum(false);
    setVerifyChecksum(false);
  }
}
