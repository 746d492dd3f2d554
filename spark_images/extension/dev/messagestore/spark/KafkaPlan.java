package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/**
 * What one batch reads from Kafka: {@code {"access": …, "maxRecordBytes": n, "parts": [[{"topic", "partition",
 * "start", "end"}]]}}.
 *
 * @param access how the cluster is reached
 * @param maxRecordBytes how many bytes are too many for a record
 * @param parts the ranges of each Spark partition; both are in order of arrival
 */
record KafkaPlan(KafkaAccess access, int maxRecordBytes, List<List<KafkaRange>> parts) implements Serializable {
  /** The records of a topic's partition with offsets in [start, end). */
  record KafkaRange(String topic, int partition, long start, long end) implements Serializable {}

  static KafkaPlan parse(String json) {
    try {
      JsonNode root = new ObjectMapper().readTree(json);
      List<List<KafkaRange>> parts = new ArrayList<>();
      for (JsonNode part : root.get("parts")) {
        List<KafkaRange> ranges = new ArrayList<>();
        for (JsonNode r : part) {
          ranges.add(
              new KafkaRange(
                  r.get("topic").asText(), r.get("partition").asInt(), r.get("start").asLong(), r.get("end").asLong()));
        }
        parts.add(ranges);
      }
      return new KafkaPlan(KafkaAccess.of(root.get("access")), root.get("maxRecordBytes").asInt(), parts);
    } catch (IOException e) {
      throw new IllegalArgumentException("option plan is not the JSON of a Kafka plan", e);
    }
  }
}
