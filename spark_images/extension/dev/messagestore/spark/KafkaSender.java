package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends Native records, the lines of staged objects, to a topic: in order, and in transactions that also commit the
 * number of records sent so far, as the offset of the sender's own consumer group.
 *
 * <p>A new sender ends the transaction of an earlier one, which can't send any more.
 */
public final class KafkaSender implements AutoCloseable {
  private static final JsonFactory JSON = new JsonFactory();

  private final KafkaProducer<byte[], byte[]> producer;
  private final String topic;
  private final String key;
  private final TopicPartition place;
  private final ConsumerGroupMetadata group;
  private final boolean byPosition;
  private long sent;
  private long resets;
  private long last;
  private int open;
  private InputStream lines;
  private byte[] next;

  /**
   * @param access the JSON of the cluster's {@link KafkaAccess}
   * @param key the member of a record that becomes the record's key
   * @param transactions the transactional id, the same for all senders of a replay
   * @param progress the consumer group whose offset is the number of records sent
   * @param byPosition whether the group's offset is the global position after the last record sent, and its metadata
   *     how often the position was moved; a group may then have sent to several topics
   */
  public KafkaSender(
      String access, String topic, String key, String transactions, String progress, boolean byPosition)
      throws InterruptedException {
    this.byPosition = byPosition;
    this.topic = topic;
    this.key = key;
    this.place = new TopicPartition(topic, 0);
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
    } catch (RuntimeException | InterruptedException e) {
      producer.close();
      throw e;
    }
  }

  private long committed(KafkaAccess cluster, String progress) throws InterruptedException {
    try (Admin admin = Admin.create(cluster.properties())) {
      Map<TopicPartition, OffsetAndMetadata> offsets =
          admin
              .listConsumerGroupOffsets(progress, new ListConsumerGroupOffsetsOptions().requireStable(true))
              .partitionsToOffsetAndMetadata()
              .get();
      if (byPosition) {
        return newest(offsets);
      }
      OffsetAndMetadata offset = offsets.get(place);
      return offset == null ? 0 : offset.offset();
    } catch (ExecutionException e) {
      throw new KafkaException(e.getCause().getMessage(), e.getCause());
    }
  }

  /** The newest position over all topics: the highest of those with the most resets. */
  private long newest(Map<TopicPartition, OffsetAndMetadata> offsets) {
    long position = 0;
    resets = -1;
    for (OffsetAndMetadata one : offsets.values()) {
      if (one == null || !one.metadata().matches("[0-9]{1,18}")) {
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
  public boolean readOn(Configuration conf, String uri) throws IOException {
    open(conf, uri);
    last = -1;
    byte[] line;
    while ((line = line()) != null) {
      record(line);
      if (last >= sent) {
        next = line;
        return true;
      }
    }
    return false;
  }

  /** Whether a record is left. */
  public boolean more() throws IOException {
    next = line();
    return next != null;
  }

  private void open(Configuration conf, String uri) throws IOException {
    closeLines();
    next = null;
    Path path = new Path(uri);
    lines = new java.io.BufferedInputStream(path.getFileSystem(conf).open(path), 1 << 20);
  }

  /** Opens an object, whose first record has number {@code first}, and skips {@code passedOver} of its records. */
  public void read(Configuration conf, String uri, long first, long passedOver) throws IOException {
    open(conf, uri);
    for (long i = 0; i < passedOver; i++) {
      line();
    }
    sent = first + passedOver;
  }

  /**
   * Sends the object's next records in a transaction, which {@link #commit} or {@link #abort} ends; returns how many
   * there were.
   */
  public int send(int most) throws IOException, InterruptedException {
    List<Future<RecordMetadata>> acknowledged = new ArrayList<>();
    producer.beginTransaction();
    try {
      byte[] line;
      while (acknowledged.size() < most && (line = line()) != null) {
        acknowledged.add(producer.send(record(line)));
      }
      producer.flush();
      // A commit after a refused record would wait in vain.
      for (Future<RecordMetadata> one : acknowledged) {
        one.get();
      }
      producer.sendOffsetsToTransaction(Map.of(place, reached(acknowledged.size())), group);
    } catch (ExecutionException e) {
      abort();
      throw new KafkaException(e.getCause().getMessage(), e.getCause());
    } catch (KafkaException | IOException e) {
      abort();
      throw e;
    }
    open = acknowledged.size();
    return open;
  }

  private OffsetAndMetadata reached(int records) {
    return byPosition
        ? new OffsetAndMetadata(Math.max(sent, last + 1), Long.toString(resets))
        : new OffsetAndMetadata(sent + records);
  }

  /** Commits the transaction of {@link #send}. */
  public void commit() {
    try {
      producer.commitTransaction();
    } catch (KafkaException e) {
      abort();
      throw e;
    }
    sent = byPosition ? Math.max(sent, last + 1) : sent + open;
  }

  /** Aborts, so that readers need not wait for the transaction's timeout; if that fails, they do. */
  public void abort() {
    try {
      producer.abortTransaction();
    } catch (KafkaException e) {
      // The original error is reported.
    }
  }

  /** The next line's bytes; null at the end. */
  private byte[] line() throws IOException {
    if (next != null) {
      byte[] first = next;
      next = null;
      return first;
    }
    ByteArrayOutputStream line = new ByteArrayOutputStream(1024);
    int b;
    while ((b = lines.read()) >= 0) {
      if (b == '\n') {
        return line.toByteArray();
      }
      line.write(b);
    }
    return line.size() == 0 ? null : line.toByteArray();
  }

  /** A record for Kafka; key and headers come from its members, and {@code last} becomes its position. */
  private ProducerRecord<byte[], byte[]> record(byte[] line) throws IOException {
    byte[] named = null;
    List<Header> headers = new ArrayList<>();
    try (JsonParser parser = JSON.createParser(line)) {
      parser.nextToken();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.currentName();
        JsonToken value = parser.nextToken();
        if (name.equals(key) && value.isScalarValue()) {
          named = utf8(parser.getText());
        }
        if (name.equals("globalPosition") && value == JsonToken.VALUE_NUMBER_INT) {
          last = parser.getLongValue();
        }
        if (name.equals("headers") && value == JsonToken.START_OBJECT) {
          readHeaders(parser, headers);
        } else {
          parser.skipChildren();
        }
      }
    }
    return new ProducerRecord<>(topic, null, named, line, headers);
  }

  private static void readHeaders(JsonParser parser, List<Header> into) throws IOException {
    while (parser.nextToken() == JsonToken.FIELD_NAME) {
      String name = parser.currentName();
      JsonToken value = parser.nextToken();
      into.add(new RecordHeader(name, value == JsonToken.VALUE_NULL ? null : utf8(parser.getText())));
    }
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private void closeLines() throws IOException {
    if (lines != null) {
      lines.close();
      lines = null;
    }
  }

  /** Aborts an open transaction; if that fails, the next sender does. */
  @Override
  public void close() throws IOException {
    closeLines();
    producer.close();
  }
}
