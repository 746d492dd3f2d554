package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Topics of a Kafka cluster, for the driver; each call creates its own client, from the JSON of the access. */
public final class KafkaTopics {
  private static final Duration KNOWN = Duration.ofSeconds(30);

  private KafkaTopics() {}

  /**
   * The named topics that exist, as a JSON array of {@code {"topic", "topicId", "partitions", "replicas",
   * "configuration"}}. The configuration has what differs from the brokers' defaults; it is null if the user may not ask
   * for it.
   */
  public static String describe(String access, String topics) throws IOException, InterruptedException {
    List<String> names = List.of(new ObjectMapper().readValue(topics, String[].class));
    return KafkaAccess.parse(access).ask(admin -> described(admin, names).toString());
  }

  private static ArrayNode described(Admin admin, List<String> names) throws ExecutionException, InterruptedException {
    ArrayNode topicNotes = new ObjectMapper().createArrayNode();
    Map<String, TopicDescription> topics = KafkaOffsets.described(admin, names);
    Map<ConfigResource, KafkaFuture<Config>> configured =
        admin.describeConfigs(topics.keySet().stream().map(KafkaTopics::resource).toList()).values();
    for (TopicDescription topic : topics.values()) {
      ObjectNode one = topicNotes.addObject();
      one.put("topic", topic.name()).put("topicId", topic.topicId().toString());
      one.put("partitions", topic.partitions().size());
      one.put("replicas", topic.partitions().get(0).replicas().size());
      Config config = unless(AuthorizationException.class, configured.get(resource(topic.name())));
      if (config == null) {
        one.putNull("configuration");
      } else {
        put(config, one.putObject("configuration"));
      }
    }
    return topicNotes;
  }

  private static ConfigResource resource(String topic) {
    return new ConfigResource(ConfigResource.Type.TOPIC, topic);
  }

  /** The names of all consumer groups that the user may see, as a JSON array. */
  public static String groups(String access) throws InterruptedException {
    ArrayNode names = new ObjectMapper().createArrayNode();
    KafkaAccess.parse(access)
        .ask(admin -> admin.listGroups(ListGroupsOptions.forConsumerGroups()).valid().get())
        .forEach(group -> names.add(group.groupId()));
    return names.toString();
  }

  /** What consumer groups have committed, as a JSON array of {@code {"group", "topic", "partition", "offset"}}. */
  public static String committed(String access, String groups) throws IOException, InterruptedException {
    Map<String, ListConsumerGroupOffsetsSpec> requested = new TreeMap<>();
    new ObjectMapper().readTree(groups).forEach(name -> requested.put(name.asText(), new ListConsumerGroupOffsetsSpec()));
    ArrayNode offsetsOfGroups = new ObjectMapper().createArrayNode();
    KafkaAccess.parse(access)
        .ask(admin -> admin.listConsumerGroupOffsets(requested).all().get())
        .forEach((group, offsets) -> offsets.forEach((place, offset) -> put(group, place, offset, offsetsOfGroups)));
    return offsetsOfGroups.toString();
  }

  private static void put(String group, TopicPartition place, OffsetAndMetadata offset, ArrayNode into) {
    if (offset != null) {
      ObjectNode one = into.addObject().put("group", group).put("topic", place.topic());
      one.put("partition", place.partition()).put("offset", offset.offset());
    }
  }

  /**
   * A topic's settings, with defaults, and what the user may do to it, as {@code {"settings", "operations"}}; each is null
   * if the user may not ask for it, or the brokers don't tell.
   */
  public static String examine(String access, String topic) throws InterruptedException {
    return KafkaAccess.parse(access).ask(admin -> allowed(admin, topic).toString());
  }

  private static ObjectNode allowed(Admin admin, String topic) throws ExecutionException, InterruptedException {
    ObjectNode allowed = new ObjectMapper().createObjectNode().putNull("settings").putNull("operations");
    ConfigResource resource = resource(topic);
    Config config = unless(AuthorizationException.class, admin.describeConfigs(List.of(resource)).values().get(resource));
    if (config != null) {
      allowed.set("settings", settings(config));
    }
    DescribeTopicsOptions options = new DescribeTopicsOptions().includeAuthorizedOperations(true);
    TopicDescription described = admin.describeTopics(List.of(topic), options).topicNameValues().get(topic).get();
    if (described.authorizedOperations() != null) {
      ArrayNode operations = allowed.putArray("operations");
      described.authorizedOperations().forEach(operation -> operations.add(operation.name()));
    }
    return allowed;
  }

  /** An answer; null if it is an error of a kind. */
  static <T> T unless(Class<? extends Exception> expected, KafkaFuture<T> answer)
      throws ExecutionException, InterruptedException {
    try {
      return answer.get();
    } catch (ExecutionException e) {
      if (expected.isInstance(e.getCause())) {
        return null;
      }
      throw e;
    }
  }

  private static void put(Config config, ObjectNode into) {
    for (ConfigEntry entry : config.entries()) {
      if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG && entry.value() != null) {
        into.put(entry.name(), entry.value());
      }
    }
  }

  /** Creates a topic, {@code {"topic", "partitions", "replicas", "configuration"}}, unless there is one of its name. */
  public static void create(String access, String topic) throws IOException, InterruptedException {
    NewTopic made = wanted(topic);
    KafkaAccess.parse(access)
        .ask(
            admin -> {
              try {
                admin.createTopics(List.of(made)).all().get();
              } catch (ExecutionException e) {
                if (!(e.getCause() instanceof TopicExistsException)) {
                  throw e;
                }
              }
              awaitKnown(admin, made.name());
              return null;
            });
  }

  /**
   * Asks whether {@link #create} would succeed, and makes nothing.
   *
   * @return the settings that the topic would have, with defaults; {@code null} if the user may not ask for them
   */
  public static String tryToCreate(String access, String topic) throws IOException, InterruptedException {
    NewTopic tried = wanted(topic);
    Config config =
        KafkaAccess.parse(access)
            .ask(
                admin -> {
                  CreateTopicsResult created =
                      admin.createTopics(List.of(tried), new CreateTopicsOptions().validateOnly(true));
                  created.all().get();
                  return unless(AuthorizationException.class, created.config(tried.name()));
                });
    return config == null ? "null" : settings(config).toString();
  }

  private static NewTopic wanted(String topic) throws IOException {
    JsonNode wanted = new ObjectMapper().readTree(topic);
    Map<String, String> configuration = new HashMap<>();
    wanted.get("configuration").properties().forEach(one -> configuration.put(one.getKey(), one.getValue().asText()));
    int partitions = wanted.get("partitions").asInt();
    return new NewTopic(wanted.get("topic").asText(), partitions, (short) wanted.get("replicas").asInt())
        .configs(configuration);
  }

  private static ObjectNode settings(Config config) {
    ObjectNode settings = new ObjectMapper().createObjectNode();
    config.entries().forEach(entry -> settings.put(entry.name(), entry.value()));
    return settings;
  }

  /** A broker knows a new topic a little later than the controller that has made it. */
  private static void awaitKnown(Admin admin, String topic) throws ExecutionException, InterruptedException {
    long deadline = System.nanoTime() + KNOWN.toNanos();
    while (System.nanoTime() < deadline) {
      KafkaFuture<TopicDescription> description = admin.describeTopics(List.of(topic)).topicNameValues().get(topic);
      if (unless(UnknownTopicOrPartitionException.class, description) != null) {
        return;
      }
      Thread.sleep(100);
    }
  }
}
