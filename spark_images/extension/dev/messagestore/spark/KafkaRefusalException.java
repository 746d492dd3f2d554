package dev.messagestore.spark;

/** What no other try with Kafka mends by itself; the message says what to do. */
public final class KafkaRefusalException extends RuntimeException {
  KafkaRefusalException(String message) {
    super(message);
  }
}
