package dev.messagestore.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
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

/** Certificate authorities that this JVM trusts beside its own; Hadoop's S3A has no setting for them. */
final class Authorities {
  private static final String STORE = "javax.net.ssl.trustStore";
  private static final String PASSWORD = "public";
  private static final Set<String> TRUSTED = new HashSet<>();

  private Authorities() {}

  /** Trusts the authorities in a PEM file, for every connection made from here on. */
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
