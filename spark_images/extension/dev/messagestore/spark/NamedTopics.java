package dev.messagestore.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.shaded.com.google.re2j.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Which of the topics that messages name take records. It asks for them as they are now, and creates none. */
final class NamedTopics implements AutoCloseable {
  private static final Pattern VALID = Pattern.compile("[A-Za-z0-9._-]{1,249}");

  /** How far a replay is is an offset of the topic, which takes Read. */
  private static final Set<AclOperation> NEEDED = Set.of(AclOperation.WRITE, AclOperation.READ);

  private final Pattern pattern;
  private final Admin admin;

  /**
   * @param pattern an expression of RE2, which takes linear time; it has to match the whole name
   */
  NamedTopics(KafkaAccess cluster, String pattern) {
    this.pattern = Pattern.compile(pattern);
    this.admin = Admin.create(cluster.properties());
  }

  /** Has no record sent whose topic takes none, and returns these: a JSON array of {@code [number, position, why]}. */
  String refuse(List<StagedRecords.Staged> records) throws InterruptedException {
    Set<String> names = new TreeSet<>();
    records.stream().filter(one -> one.record() != null).forEach(one -> names.add(one.record().topic()));
    names.remove(StagedRecords.NO_TOPIC);
    Map<String, String> why = refused(names);
    why.put(StagedRecords.NO_TOPIC, "Unnamed");
    ArrayNode refused = new ObjectMapper().createArrayNode();
    for (int number = 0; number < records.size(); number++) {
      StagedRecords.Staged one = records.get(number);
      String reason = one.record() == null ? null : why.get(one.record().topic());
      if (reason != null) {
        records.set(number, one.unsent());
        refused.addArray().add(number).add(one.position()).add(reason);
      }
    }
    return refused.toString();
  }

  /** Why each of these names takes no records: Unmatched, Missing or Denied; those that do are left out. */
  Map<String, String> refused(Collection<String> names) throws InterruptedException {
    Map<String, String> refused = new HashMap<>();
    List<String> unknown = new ArrayList<>();
    for (String name : names) {
      if (!pattern.matcher(name).matches()) {
        refused.put(name, "Unmatched");
      } else if (!VALID.matcher(name).matches() || name.equals(".") || name.equals("..")) {
        refused.put(name, "Missing");
      } else {
        unknown.add(name);
      }
    }
    if (!unknown.isEmpty()) {
      DescribeTopicsOptions options = new DescribeTopicsOptions().includeAuthorizedOperations(true);
      Map<String, KafkaFuture<TopicDescription>> described = admin.describeTopics(unknown, options).topicNameValues();
      for (String name : unknown) {
        String why = why(described.get(name));
        if (why != null) {
          refused.put(name, why);
        }
      }
    }
    return refused;
  }

  private static String why(KafkaFuture<TopicDescription> description) throws InterruptedException {
    try {
      TopicDescription topic = description.get();
      // Without an authorizer, brokers name all operations; older ones none.
      Set<AclOperation> may = topic.authorizedOperations();
      return topic.isInternal() || (may != null && !may.containsAll(NEEDED)) ? "Denied" : null;
    } catch (ExecutionException e) {
      if (e.getCause() instanceof UnknownTopicOrPartitionException || e.getCause() instanceof InvalidTopicException) {
        return "Missing";
      }
      if (e.getCause() instanceof AuthorizationException) {
        return "Denied";
      }
      throw new KafkaException(e.getCause().getMessage(), e.getCause());
    }
  }

  @Override
  public void close() {
    admin.close();
  }
}
