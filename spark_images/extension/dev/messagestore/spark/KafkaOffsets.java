package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Offsets in a Kafka cluster, for the driver; each call creates its own clients, from the JSON of the access. */
public final class KafkaOffsets {
  /** How errors begin that the planning of a batch must examine. */
  static final String GONE = "offsets are not there any more";

  static final String SILENT = "Kafka gave nothing";

  /** The prefix of a source's URI. */
  static final String URI = "kafka:";

  /** The last millisecond of the year 9999. */
  private static final long LAST_TIME = 253_402_300_799_999L;

  private static final Duration PEEK = Duration.ofSeconds(3);

  private static final Duration RANGE = Duration.ofSeconds(60);

  private KafkaOffsets() {}

  /**
   * All partitions of the topics that are named or match a pattern, as a JSON array of {@code {"topic", "topicId",
   * "partition", "earliest", "latest"}}. Latest is where a reader of committed records ends. A topic that does not exist
   * is left out.
   */
  public static String list(String access, String topics, String pattern) throws IOException, InterruptedException {
    KafkaAccess cluster = KafkaAccess.parse(access);
    List<String> named = pattern == null ? List.of(new ObjectMapper().readValue(topics, String[].class)) : null;
    return offsets(cluster, cluster.ask(admin -> described(admin, named == null ? matching(admin, pattern) : named)));
  }

  /** Those of the topics that exist, by their names. */
  static Map<String, TopicDescription> described(Admin admin, Collection<String> names)
      throws ExecutionException, InterruptedException {
    Map<String, TopicDescription> described = new TreeMap<>();
    for (var topic : admin.describeTopics(names).topicNameValues().entrySet()) {
      TopicDescription found = KafkaTopics.unless(UnknownTopicOrPartitionException.class, topic.getValue());
      if (found != null) {
        described.put(topic.getKey(), found);
      }
    }
    return described;
  }

  private static Set<String> matching(Admin admin, String pattern) throws ExecutionException, InterruptedException {
    Pattern wanted = Pattern.compile(pattern);
    Set<String> names = new TreeSet<>(admin.listTopics().names().get());
    names.removeIf(name -> !wanted.matcher(name).matches());
    return names;
  }

  private static String offsets(KafkaAccess cluster, Map<String, TopicDescription> topics) {
    List<TopicPartition> places = new ArrayList<>();
    topics.forEach((name, topic) -> topic.partitions().forEach(p -> places.add(new TopicPartition(name, p.partition()))));
    ArrayNode listed = new ObjectMapper().createArrayNode();
    try (KafkaConsumer<byte[], byte[]> consumer = consumer(cluster)) {
      Map<TopicPartition, Long> earliest = consumer.beginningOffsets(places);
      Map<TopicPartition, Long> latest = consumer.endOffsets(places);
      for (TopicPartition place : places) {
        ObjectNode one = listed.addObject();
        one.put("topic", place.topic()).put("topicId", topics.get(place.topic()).topicId().toString());
        one.put("partition", place.partition()).put("earliest", earliest.get(place)).put("latest", latest.get(place));
      }
    }
    return listed.toString();
  }

  /**
   * The time (ms) of the oldest of the first records at or after {@code places}, a JSON array of {@code {"topic",
   * "partition", "offset"}}; -1 if none with a usable time came in time.
   */
  public static long oldest(String access, String places) throws IOException {
    Map<TopicPartition, Long> starts = new HashMap<>();
    for (JsonNode place : new ObjectMapper().readTree(places)) {
      starts.put(
          new TopicPartition(place.get("topic").asText(), place.get("partition").asInt()), place.get("offset").asLong());
    }
    long oldest = Long.MAX_VALUE;
    long deadline = System.nanoTime() + PEEK.toNanos();
    try (KafkaConsumer<byte[], byte[]> consumer = consumer(KafkaAccess.parse(access))) {
      consumer.assign(starts.keySet());
      starts.forEach(consumer::seek);
      while (!starts.isEmpty() && System.nanoTime() < deadline) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
        for (TopicPartition place : records.partitions()) {
          ConsumerRecord<byte[], byte[]> first = records.records(place).get(0);
          if (starts.remove(place) != null && isTime(first.timestamp())) {
            oldest = Math.min(oldest, first.timestamp());
          }
        }
        consumer.pause(records.partitions());
      }
    } catch (KafkaException e) {
      return -1;
    }
    return oldest == Long.MAX_VALUE ? -1 : oldest;
  }

  /**
   * Whether a range of a partition has a committed record, as far as its records are still there; true if that can't be
   * read in time.
   */
  public static boolean hasCommitted(String access, String topic, int partition, long start, long end) {
    TopicPartition place = new TopicPartition(topic, partition);
    long deadline = System.nanoTime() + RANGE.toNanos();
    try (KafkaConsumer<byte[], byte[]> consumer = consumer(KafkaAccess.parse(access))) {
      consumer.assign(List.of(place));
      consumer.seek(place, Math.max(start, consumer.beginningOffsets(List.of(place)).get(place)));
      while (consumer.position(place) < end) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)).records(place)) {
          if (record.offset() < end) {
            return true;
          }
        }
        if (System.nanoTime() > deadline) {
          return true;
        }
      }
    }
    return false;
  }

  /**
   * Whether a record's timestamp is a time that a message may have: milliseconds up to the year 9999. Some producers
   * stamp in microseconds or nanoseconds; records without a time have -1.
   */
  static boolean isTime(long milliseconds) {
    return 0 <= milliseconds && milliseconds <= LAST_TIME;
  }

  /** A consumer without a group, which commits nothing and reads committed records from given offsets. */
  static KafkaConsumer<byte[], byte[]> consumer(KafkaAccess access) {
    Properties properties = access.properties();
    properties.put("enable.auto.commit", "false");
    properties.put("auto.offset.reset", "none");
    properties.put("isolation.level", "read_committed");
    properties.put("allow.auto.create.topics", "false");
    properties.put("max.poll.records", "5000");
    return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }
}
