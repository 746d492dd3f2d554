package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.util.Map;
import java.util.Properties;

/**
 * How to connect to a Kafka cluster: {@code {"bootstrapServers", "protocol", "mechanism"?, "username"?, "password"?,
 * "caFile"?}}.
 *
 * <p>{@code username} and {@code password} name environment variables. Their values are read where a client is created,
 * on the driver and on executors, so that no plan, setting or log contains them.
 */
record KafkaAccess(
    String bootstrapServers, String protocol, String mechanism, String username, String password, String caFile)
    implements Serializable {
  private static final Map<String, String> LOGIN_MODULES =
      Map.of(
          "PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule",
          "SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule",
          "SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule");

  static KafkaAccess parse(String json) {
    try {
      return of(new ObjectMapper().readTree(json));
    } catch (IOException e) {
      throw new IllegalArgumentException("not the JSON of a Kafka cluster's access", e);
    }
  }

  static KafkaAccess of(JsonNode access) {
    return new KafkaAccess(
        access.get("bootstrapServers").asText(),
        access.get("protocol").asText(),
        text(access, "mechanism"),
        text(access, "username"),
        text(access, "password"),
        text(access, "caFile"));
  }

  private static String text(JsonNode access, String name) {
    JsonNode value = access.get(name);
    return value == null || value.isNull() ? null : value.asText();
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
    if (caFile != null) {
      properties.put("ssl.truststore.type", "PEM");
      properties.put("ssl.truststore.location", caFile);
    }
    // Retry a broker that restarts soon, but not all the time.
    properties.put("reconnect.backoff.max.ms", "2000");
    return properties;
  }

  private String login() {
    String module = LOGIN_MODULES.get(mechanism);
    if (module == null) {
      throw new IllegalArgumentException("no SASL mechanism of this release is named " + mechanism);
    }
    return module + " required username=" + quoted(username) + " password=" + quoted(password) + ";";
  }

  private static String quoted(String variable) {
    String value = System.getenv(variable);
    if (value == null || value.isEmpty()) {
      throw new RefusalException(
          "there are no credentials for Kafka: environment variable " + variable + " is not set; check the keys of the"
              + " Secret that security.credentialsSecretRef names");
    }
    return '"' + value.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  /** An error of Kafka that no retry fixes; the message says what to do. */
  static final class RefusalException extends RuntimeException {
    RefusalException(String message) {
      super(message);
    }
  }
}
