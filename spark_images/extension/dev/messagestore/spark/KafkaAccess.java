package dev.messagestore.spark;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.KafkaException;

/**
 * How to connect to a Kafka cluster, as a run document says it; what is not given is null.
 *
 * <p>{@code environment} names environment variables, {@code username} is a name itself. Values of variables and the
 * content of files are read where a client is created, on the driver and on executors, so that no plan, setting or log
 * contains them.
 */
record KafkaAccess(
    String bootstrapServers,
    String protocol,
    String mechanism,
    Credentials environment,
    String username,
    String caFile,
    Certificate clientCertificate,
    Oauth oauth)
    implements Serializable {
  record Credentials(String username, String password) implements Serializable {}

  record Certificate(String certificateFile, String keyFile) implements Serializable {}

  record Oauth(String tokenEndpoint, String scope, String caFile) implements Serializable {}

  private static final ObjectMapper JSON =
      new ObjectMapper().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
  private static final String OAUTHBEARER = "OAUTHBEARER";
  private static final String SECURITY = "org.apache.kafka.common.security.";
  private static final Map<String, String> LOGIN_MODULES =
      Map.of(
          "PLAIN", SECURITY + "plain.PlainLoginModule",
          "SCRAM-SHA-256", SECURITY + "scram.ScramLoginModule",
          "SCRAM-SHA-512", SECURITY + "scram.ScramLoginModule",
          OAUTHBEARER, SECURITY + "oauthbearer.OAuthBearerLoginModule");
  private static final String ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls";

  static KafkaAccess parse(String json) {
    try {
      return JSON.readValue(json, KafkaAccess.class);
    } catch (IOException e) {
      throw new IllegalArgumentException("not the JSON of a Kafka cluster's access", e);
    }
  }

  static KafkaAccess of(JsonNode access) {
    return JSON.convertValue(access, KafkaAccess.class);
  }

  /** Something that the brokers are asked. */
  interface Question<T> {
    T of(Admin admin) throws ExecutionException, InterruptedException;
  }

  /** What the brokers answer, by a client of its own; what they refuse is thrown as the error that they told. */
  <T> T ask(Question<T> question) throws InterruptedException {
    try (Admin admin = Admin.create(properties())) {
      return question.of(admin);
    } catch (ExecutionException e) {
      throw new KafkaException(e.getCause().getMessage(), e.getCause());
    }
  }

  /** The settings of all clients of this cluster. */
  Properties properties() {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", bootstrapServers);
    properties.put("security.protocol", protocol);
    if (mechanism != null) {
      properties.put("sasl.mechanism", mechanism);
      properties.put("sasl.jaas.config", login());
    }
    if (oauth != null) {
      addTokens(properties);
    }
    if (caFile != null) {
      properties.put("ssl.truststore.type", "PEM");
      properties.put("ssl.truststore.location", caFile);
    }
    if (clientCertificate != null) {
      properties.put("ssl.keystore.type", "PEM");
      properties.put("ssl.keystore.certificate.chain", content(clientCertificate.certificateFile()));
      properties.put("ssl.keystore.key", privateKey(content(clientCertificate.keyFile())));
    }
    // Retry a broker that restarts soon, but not all the time.
    properties.put("reconnect.backoff.max.ms", "2000");
    return properties;
  }

  private void addTokens(Properties properties) {
    String own = SECURITY + "oauthbearer.";
    properties.put("sasl.login.callback.handler.class", own + "OAuthBearerLoginCallbackHandler");
    properties.put("sasl.oauthbearer.jwt.retriever.class", own + "ClientCredentialsJwtRetriever");
    // The default one needs a library that only brokers have.
    properties.put("sasl.oauthbearer.jwt.validator.class", own + "ClientJwtValidator");
    properties.put("sasl.oauthbearer.token.endpoint.url", oauth.tokenEndpoint());
    allow(oauth.tokenEndpoint());
  }

  /** Kafka's clients ask only URLs that a system property lists. */
  private static synchronized void allow(String url) {
    Set<String> allowed = new LinkedHashSet<>();
    String known = System.getProperty(ALLOWED_URLS);
    if (known != null && !known.isBlank()) {
      allowed.addAll(List.of(known.split(",")));
    }
    if (allowed.add(url)) {
      System.setProperty(ALLOWED_URLS, String.join(",", allowed));
    }
  }

  private String login() {
    String module = LOGIN_MODULES.get(mechanism);
    if (module == null) {
      throw new IllegalArgumentException("no SASL mechanism of this release is named " + mechanism);
    }
    StringBuilder login = new StringBuilder(module).append(" required");
    String secret = value(environment.password(), mechanism.equals(OAUTHBEARER) ? "clientSecret" : "password");
    if (mechanism.equals(OAUTHBEARER)) {
      option(login, "clientId", value(environment.username(), "clientId"));
      option(login, "clientSecret", secret);
      option(login, "scope", oauth.scope());
      if (oauth.caFile() != null) {
        option(login, "ssl.truststore.type", "PEM");
        option(login, "ssl.truststore.location", oauth.caFile());
      }
    } else {
      option(login, "username", username != null ? username : value(environment.username(), "username"));
      option(login, "password", secret);
    }
    return login.append(';').toString();
  }

  private static void option(StringBuilder login, String name, String value) {
    if (value != null) {
      // The parser takes the end of a line for that of the value, and tells what follows.
      String escaped = value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n").replace("\r", "\\r");
      login.append(' ').append(name).append("=\"").append(escaped).append('"');
    }
  }

  private static String value(String variable, String key) {
    String value = System.getenv(variable);
    if (value == null || value.isEmpty()) {
      throw new RefusalException(
          "there are no credentials for Kafka: environment variable " + variable + " is not set; check key " + key
              + " of the Secret that security.credentialsSecretRef names");
    }
    return value;
  }

  private static String content(String file) {
    try {
      String content = Files.readString(Path.of(file));
      if (!content.isBlank()) {
        return content;
      }
    } catch (IOException e) {
      // Said below; the exception may have a part of the file.
    }
    throw new RefusalException(
        "there are no credentials for Kafka: " + file + " has no text; check the keys of the Secret that"
            + " security.clientCertificateSecretRef names");
  }

  private static String privateKey(String pem) {
    if (pem.contains("-----BEGIN PRIVATE KEY-----")) {
      return pem;
    }
    throw new RefusalException(
        "there are no credentials for Kafka: the private key of security.clientCertificateSecretRef must be PKCS#8"
            + " without a password (BEGIN PRIVATE KEY), as cert-manager makes it with privateKey.encoding PKCS8");
  }

  /** An error of Kafka that no retry fixes; the message says what to do. */
  static final class RefusalException extends RuntimeException {
    RefusalException(String message) {
      super(message);
    }
  }
}
