package dev.messagestore.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.HashSet;
import java.util.Set;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;
import org.apache.hadoop.conf.Configuration;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials;
import software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider;
import software.amazon.awssdk.core.exception.SdkClientException;

/**
 * The credentials of one bucket, from the environment variables that its settings name; without names, the pod's own
 * credentials. So no setting contains a secret, and executors read secrets from their own environment.
 */
public final class BucketCredentials implements AwsCredentialsProvider {
  private static final String SETTINGS = "fs.s3a.messagestore.";
  private final URI bucket;
  private final String accessKey;
  private final String secretKey;
  private final String sessionToken;
  private final AwsCredentialsProvider own;

  /** Called by Hadoop, with the bucket's own settings instead of the general ones. */
  public BucketCredentials(URI bucket, Configuration conf) {
    this.bucket = bucket;
    accessKey = conf.get(SETTINGS + "access.key.variable");
    secretKey = conf.get(SETTINGS + "secret.key.variable");
    sessionToken = conf.get(SETTINGS + "session.token.variable");
    own = accessKey == null ? DefaultCredentialsProvider.create() : null;
    String authority = conf.get(SETTINGS + "ca.file");
    if (authority != null) {
      // Here, as each JVM that opens the bucket calls this before it connects.
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

  /** Certificate authorities that this JVM trusts in addition to its own; Hadoop's S3A has no setting for them. */
  private static final class Authorities {
    private static final String STORE = "javax.net.ssl.trustStore";
    private static final String PASSWORD = "public";
    private static final Set<String> TRUSTED = new HashSet<>();

    private Authorities() {}

    /** Trusts the authorities in a PEM file, for all later connections. */
    static synchronized void trust(String file) {
      if (!TRUSTED.add(file)) {
        return;
      }
      try {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        for (X509Certificate known : trustedSoFar()) {
          store.setCertificateEntry("known-" + store.size(), known);
        }
        for (Certificate added : certificates(Path.of(file))) {
          store.setCertificateEntry("added-" + store.size(), added);
        }
        System.setProperty(STORE, written(store).toString());
        System.setProperty(STORE + "Type", "PKCS12");
        System.setProperty(STORE + "Password", PASSWORD);
      } catch (GeneralSecurityException e) {
        TRUSTED.remove(file);
        throw new IllegalStateException("the certificate authority " + file + " can't be trusted: " + e.getMessage(), e);
      } catch (IOException e) {
        TRUSTED.remove(file);
        throw new UncheckedIOException("the certificate authority " + file + " can't be read", e);
      }
    }

    private static X509Certificate[] trustedSoFar() throws GeneralSecurityException {
      TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      factory.init((KeyStore) null);
      for (TrustManager manager : factory.getTrustManagers()) {
        if (manager instanceof X509TrustManager known) {
          return known.getAcceptedIssuers();
        }
      }
      return new X509Certificate[0];
    }

    private static Iterable<? extends Certificate> certificates(Path file) throws IOException, GeneralSecurityException {
      try (InputStream pem = Files.newInputStream(file)) {
        return CertificateFactory.getInstance("X.509").generateCertificates(pem);
      }
    }

    private static Path written(KeyStore store) throws IOException, GeneralSecurityException {
      Path file = Files.createTempFile("messagestore-", ".p12");
      file.toFile().deleteOnExit();
      try (OutputStream out = Files.newOutputStream(file)) {
        store.store(out, PASSWORD.toCharArray());
      }
      return file;
    }
  }
}
