package dev.messagestore.spark;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.s3.S3Client;

/** Whether a bucket keeps the earlier versions of objects that are overwritten or deleted. */
public final class BucketVersions {
  private BucketVersions() {}

  /** Enabled or Suspended; empty where it never kept any, null where it doesn't tell, or not to us. */
  public static String kept(Path path, Configuration conf) throws IOException {
    S3AFileSystem bucket = (S3AFileSystem) path.getFileSystem(conf);
    try {
      S3Client client = bucket.getS3AInternals().getAmazonS3Client("versioning");
      String status = client.getBucketVersioning(request -> request.bucket(bucket.getBucket())).statusAsString();
      return status == null ? "" : status;
    } catch (SdkException e) {
      return null;
    }
  }
}
