package dev.messagestore.spark;

import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials;
import software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider;
import software.amazon.awssdk.core.exception.SdkClientException;

/**
 * The credentials of one bucket, from the environment variables that its settings name; without such names they are
 * the pod's own. So secrets stand in no setting, and executors read them from their own environment.
 */
public final class BucketCredentials implements AwsCredentialsProvider {
  private static final String SETTINGS = "fs.s3a.messagestore.";
  private final URI bucket;
  private final String accessKey;
  private final String secretKey;
  private final String sessionToken;
  private final AwsCredentialsProvider own;

  /** What Hadoop calls, with the bucket's own settings in place of the general ones. */
  public BucketCredentials(URI bucket, Configuration conf) {
    this.bucket = bucket;
    accessKey = conf.get(SETTINGS + "access.key.variable");
    secretKey = conf.get(SETTINGS + "secret.key.variable");
    sessionToken = conf.get(SETTINGS + "session.token.variable");
    own = accessKey == null ? DefaultCredentialsProvider.create() : null;
    String authority = conf.get(SETTINGS + "ca.file");
    if (authority != null) {
      // Here, as every JVM that opens the bucket passes here before it makes a connection.
      Authorities.trust(authority);
    }
  }

  @Override
  public AwsCredentials resolveCredentials() {
    if (own != null) {
      return own.resolveCredentials();
    }
    String token = sessionToken == null ? null : System.getenv(sessionToken);
    return token == null || token.isEmpty()
        ? AwsBasicCredentials.create(required(accessKey), required(secretKey))
        : AwsSessionCredentials.create(required(accessKey), required(secretKey), token);
  }

  private String required(String variable) {
    String value = System.getenv(variable);
    if (value == null || value.isEmpty()) {
      throw SdkClientException.create("no credentials for " + bucket + ": variable " + variable + " is not set");
    }
    return value;
  }
}
