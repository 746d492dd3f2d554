package dev.messagestore.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.util.ThreadUtils;

/**
 * Sends records, the lines of staged objects, to a topic: in order, and in transactions that also commit the
 * number of records sent so far, as the offset of the sender's own consumer group.
 *
 * <p>Or each line names its topic. Then a transaction commits the number at each topic that it has records of, as
 * brokers forget offsets at a topic that is deleted: what they know is true of the topics that are there.
 *
 * <p>A new sender ends the transaction of an earlier one, which can't send any more.
 */
public final class KafkaSender implements AutoCloseable {
  /** Of a transaction, so that also slow brokers have it before it times out; a record more may be larger. */
  private static final int TRANSACTION_BYTES = 32 << 20;

  /** How long brokers may take to abort what is open; once they are gone it would take until they are back. */
  private static final Duration END = Duration.ofSeconds(10);

  private interface Producing {
    /** Sends records, and returns how many are passed, sent or not. */
    int into(List<Future<RecordMetadata>> acknowledged) throws IOException, InterruptedException;
  }

  private final KafkaProducer<byte[], byte[]> producer;
  private final String topic;
  private final String key;
  private final NamedTopics named;
  private final Set<Long> leftOut = new HashSet<>();
  private final Set<String> usedTopics = new TreeSet<>();
  private final List<StagedRecords.Staged> taken = new ArrayList<>();
  private TopicPartition place;
  private final ConsumerGroupMetadata group;
  private final boolean byPosition;
  private final Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
  private KafkaPlaces places;
  private KafkaPlaces following;
  private long sent;
  private long resets;
  private long last;
  private final List<KafkaPlaces.Origin> origins = new ArrayList<>();
  private int open;
  private boolean under;
  private final ExecutorService reader = ThreadUtils.newDaemonSingleThreadExecutor("staged-records");
  private StagedRecords records;

  /**
   * @param access the JSON of the cluster's {@link KafkaAccess}
   * @param topic null: each line names its own, which {@code pattern} has to match as a whole
   * @param key the member of a Native record that becomes the record's key; null: a line says all of its record
   * @param transactions the transactional id, the same for all senders of a replay
   * @param progress the consumer group whose offset is the number of records sent
   * @param byPosition whether the group's offset is the global position after the last record sent, and its metadata
   *     how often the position was moved; a group may then have sent to several topics
   */
  public KafkaSender(
      String access,
      String topic,
      String pattern,
      String key,
      String transactions,
      String progress,
      boolean byPosition)
      throws InterruptedException {
    this.byPosition = byPosition;
    this.topic = topic;
    this.key = key;
    this.place = topic == null ? null : new TopicPartition(topic, 0);
    this.group = new ConsumerGroupMetadata(progress);
    KafkaAccess cluster = KafkaAccess.parse(access);
    Properties properties = cluster.properties();
    properties.put("transactional.id", transactions);
    properties.put("transaction.timeout.ms", "60000");
    properties.put("max.request.size", String.valueOf(256 << 20));
    properties.put("buffer.memory", String.valueOf(64 << 20));
    properties.put("compression.type", "lz4");
    properties.put("linger.ms", "20");
    // Smaller than any topic's limit: the client would repeat a batch that is too large again and again.
    properties.put("batch.size", String.valueOf(64 << 10));
    producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    try {
      producer.initTransactions();
      sent = committed(cluster, progress);
      named = topic == null ? new NamedTopics(cluster, pattern) : null;
    } catch (RuntimeException | InterruptedException e) {
      producer.close();
      throw e;
    }
  }

  private long committed(KafkaAccess cluster, String progress) throws InterruptedException {
    ListConsumerGroupOffsetsOptions stable = new ListConsumerGroupOffsetsOptions().requireStable(true);
    committed.putAll(
        cluster.ask(admin -> admin.listConsumerGroupOffsets(progress, stable).partitionsToOffsetAndMetadata().get()));
    committed.values().removeIf(one -> one == null);
    if (byPosition) {
      return newest();
    }
    return topic == null
        ? committed.values().stream().mapToLong(OffsetAndMetadata::offset).max().orElse(0)
        : committed.getOrDefault(place, new OffsetAndMetadata(0)).offset();
  }

  /** The newest position over all topics: the highest of those with the most resets. */
  private long newest() {
    long position = 0;
    resets = -1;
    for (OffsetAndMetadata one : committed.values()) {
      if (!one.metadata().matches("[0-9]{1,18}")) {
        continue;
      }
      long its = Long.parseLong(one.metadata());
      if (its > resets || (its == resets && one.offset() > position)) {
        resets = its;
        position = one.offset();
      }
    }
    return position;
  }

  /** How many records have been sent, by this and earlier senders; by position, the one after the last sent. */
  public long sent() {
    return sent;
  }

  /**
   * Keeps account of where in the topic the records are, as metadata of the group's offsets; not by position.
   *
   * @param wanted see {@link KafkaPlaces#KafkaPlaces(com.fasterxml.jackson.databind.JsonNode)}
   */
  public void keepPlaces(String wanted) throws IOException {
    places = new KafkaPlaces(new ObjectMapper().readTree(wanted));
    committed.forEach(
        (at, offset) -> {
          if (at.topic().equals(topic)) {
            places.put(at.partition(), offset.metadata());
          }
        });
  }

  /** Where the records are that this and earlier senders have sent, as {@link KafkaPlaces#json}. */
  public String places() throws IOException {
    return places == null ? null : places.json();
  }

  /** How often the position had been moved when the last record was sent; -1 before the first record. */
  public long resets() {
    return resets;
  }

  /** Sends on from a position; {@code moved} is how often it was moved. */
  public void startFrom(long moved, long position) {
    resets = moved;
    sent = position;
  }

  /** Opens an object and passes over its records that have been sent; false if no record is left. */
  public boolean readOn(Configuration conf, String uri) throws IOException, InterruptedException {
    open(conf, uri);
    return passOver();
  }

  /** Like {@link #readOn(Configuration, String)}, for the content of an object. */
  public boolean readOn(byte[] content) throws IOException, InterruptedException {
    open(new ByteArrayInputStream(content));
    return passOver();
  }

  private boolean passOver() throws IOException, InterruptedException {
    last = -1;
    StagedRecords.Staged staged;
    while ((staged = records.peek()) != null && staged.position() < sent) {
      records.next();
    }
    return staged != null;
  }

  /** Whether a record is left. */
  public boolean more() throws IOException, InterruptedException {
    return records.peek() != null;
  }

  private void open(Configuration conf, String uri) throws IOException {
    Path path = new Path(uri);
    open(path.getFileSystem(conf).open(path));
  }

  private void open(InputStream stream) throws IOException {
    closeRecords();
    records = new StagedRecords(stream, topic, key, reader);
  }

  /** Opens an object, whose first record has number {@code first}, and skips {@code passedOver} of its records. */
  public void read(Configuration conf, String uri, long first, long passedOver)
      throws IOException, InterruptedException {
    open(conf, uri);
    for (long i = 0; i < passedOver; i++) {
      records.next();
    }
    sent = first + passedOver;
  }

  /**
   * Sends the object's next records in a transaction, which {@link #commit} or {@link #abort} ends; returns how many
   * there were.
   */
  public int send(int most) throws IOException, InterruptedException {
    transact(
        acknowledged -> {
          StagedRecords.Staged staged;
          int bytes = 0;
          while (acknowledged.size() < most && bytes < TRANSACTION_BYTES && (staged = records.next()) != null) {
            acknowledged.add(producer.send(staged.record()));
            bytes += staged.bytes();
            origins.add(staged.origin());
            last = staged.position();
          }
          return acknowledged.size();
        });
    return open;
  }

  /** Leaves out records of these positions, a JSON array. */
  public void leaveOut(String positions) throws IOException {
    new ObjectMapper().readTree(positions).forEach(position -> leftOut.add(position.asLong()));
  }

  /**
   * Reads the object's next records, of which each names its topic, for {@link #sendTaken}. Returns those whose topic
   * takes none, which are not sent: a JSON array of {@code [number, position, why]}.
   */
  public String take(int most) throws IOException, InterruptedException {
    taken.clear();
    StagedRecords.Staged staged;
    int bytes = 0;
    while (taken.size() < most && bytes < TRANSACTION_BYTES && (staged = records.next()) != null) {
      last = staged.position();
      taken.add(leftOut.contains(last) ? staged.unsent() : staged);
      bytes += staged.bytes();
    }
    return named.refuse(taken);
  }

  /** Gives back what was taken from a number on; nothing more is read from the object. */
  public void cut(int number) {
    taken.subList(number, taken.size()).clear();
    last = taken.isEmpty() ? -1 : taken.get(number - 1).position();
  }

  /** Like {@link #send}, for what was taken. If nothing of it is sent, there is no transaction. */
  public void sendTaken() throws IOException, InterruptedException {
    if (taken.stream().allMatch(one -> one.record() == null)) {
      open = taken.size();
      return;
    }
    transact(
        acknowledged -> {
          for (StagedRecords.Staged one : taken) {
            if (one.record() != null) {
              acknowledged.add(producer.send(one.record()));
              usedTopics.add(one.record().topic());
            }
          }
          return taken.size();
        });
  }

  /** Whether a transaction without records can commit the number; of named topics it needs one that was sent to. */
  public boolean hasPlace() throws InterruptedException {
    if (topic == null) {
      committed.keySet().forEach(at -> usedTopics.add(at.topic()));
      usedTopics.removeAll(named.refused(usedTopics).keySet());
      place = usedTopics.isEmpty() ? null : new TopicPartition(usedTopics.iterator().next(), 0);
    }
    return place != null;
  }

  private void transact(Producing records) throws IOException, InterruptedException {
    List<Future<RecordMetadata>> acknowledged = new ArrayList<>();
    origins.clear();
    producer.beginTransaction();
    under = true;
    try {
      open = records.into(acknowledged);
      producer.flush();
      List<RecordMetadata> known = new ArrayList<>();
      // A commit after a refused record would wait in vain.
      for (Future<RecordMetadata> one : acknowledged) {
        known.add(one.get());
      }
      producer.sendOffsetsToTransaction(offsets(known), group);
    } catch (ExecutionException e) {
      abort();
      throw new KafkaException(e.getCause().getMessage(), e.getCause());
    } catch (KafkaException | IOException | InterruptedException e) {
      abort();
      throw e;
    }
  }

  private Map<TopicPartition, OffsetAndMetadata> offsets(List<RecordMetadata> taken) {
    OffsetAndMetadata progress = reached();
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    if (topic == null && !taken.isEmpty()) {
      taken.forEach(one -> offsets.put(new TopicPartition(one.topic(), 0), progress));
      return offsets;
    }
    offsets.put(place, progress);
    if (places != null) {
      following = places.after(taken, origins);
      for (int partition : following.partitions()) {
        TopicPartition at = new TopicPartition(topic, partition);
        long offset = at.equals(place) ? progress.offset() : following.next(partition);
        offsets.put(at, new OffsetAndMetadata(offset, following.text(partition)));
      }
    }
    return offsets;
  }

  private OffsetAndMetadata reached() {
    return byPosition
        ? new OffsetAndMetadata(Math.max(sent, last + 1), Long.toString(resets))
        : new OffsetAndMetadata(sent + open);
  }

  /** Commits the transaction of {@link #send}. */
  public void commit() {
    if (under) {
      try {
        producer.commitTransaction();
      } catch (KafkaException e) {
        abort();
        throw e;
      }
      under = false;
    }
    sent = reached().offset();
    places = places == null ? null : following;
    leftOut.removeIf(position -> position < sent);
  }

  /** Aborts, so that readers need not wait for the transaction's timeout; if that fails, they do. */
  public void abort() {
    if (!under) {
      return;
    }
    under = false;
    try {
      producer.abortTransaction();
    } catch (KafkaException | IllegalStateException e) {
      // The original error is told. A commit without an answer can't be aborted: the next sender finds its end.
    }
  }

  private void closeRecords() throws IOException {
    if (records != null) {
      records.close();
    }
  }

  /** Aborts an open transaction; if that fails, the next sender does. */
  @Override
  public void close() throws IOException {
    try (named) {
      closeRecords();
    } finally {
      reader.shutdown();
      producer.close(END);
    }
  }
}
