package dev.messagestore.spark;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.s3.S3Client;

/** Whether a bucket keeps earlier versions of overwritten or deleted objects. */
public final class BucketVersions {
  private BucketVersions() {}

  /** Enabled or Suspended; empty if it never kept any, null if unknown: no answer, or no permission to ask. */
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
