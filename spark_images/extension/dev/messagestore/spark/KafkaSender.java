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
 * Sends Native records, one a line of staged objects, to a topic: in order, and in transactions that also commit how many
 * records have been sent so far, as the offset of a consumer group of the sender's own.
 *
 * <p>A sender that is made ends the transaction of one before it, which can send nothing any more.
 */
public final class KafkaSender implements AutoCloseable {
  private static final JsonFactory JSON = new JsonFactory();

  private final KafkaProducer<byte[], byte[]> producer;
  private final String topic;
  private final String key;
  private final TopicPartition place;
  private final ConsumerGroupMetadata group;
  private long sent;
  private InputStream lines;

  /**
   * @param access the JSON of the cluster's {@link KafkaAccess}
   * @param key the member of a record that is its key
   * @param transactions names the sender, over all its lives
   * @param progress names the group whose offset is how many records have been sent
   */
  public KafkaSender(String access, String topic, String key, String transactions, String progress)
      throws InterruptedException {
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
    // Smaller than what any topic takes: of a batch that is too large the client makes the same one again and again.
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
      OffsetAndMetadata offset = offsets.get(place);
      return offset == null ? 0 : offset.offset();
    } catch (ExecutionException e) {
      throw new KafkaException(e.getCause().getMessage(), e.getCause());
    }
  }

  /** How many records have been sent, over all lives. */
  public long sent() {
    return sent;
  }

  /** Go on with an object: its first record is the {@code first}, and so many of its records are passed over. */
  public void read(Configuration conf, String uri, long first, long passedOver) throws IOException {
    closeLines();
    Path path = new Path(uri);
    lines = new java.io.BufferedInputStream(path.getFileSystem(conf).open(path), 1 << 20);
    for (long i = 0; i < passedOver; i++) {
      line();
    }
    sent = first + passedOver;
  }

  /** Send the object's next records in one transaction; how many there were. */
  public int send(int most) throws IOException, InterruptedException {
    List<Future<RecordMetadata>> acknowledged = new ArrayList<>();
    producer.beginTransaction();
    try {
      byte[] line;
      while (acknowledged.size() < most && (line = line()) != null) {
        acknowledged.add(producer.send(record(line)));
      }
      producer.flush();
      // A commit with a record that was refused would wait for nothing.
      for (Future<RecordMetadata> one : acknowledged) {
        one.get();
      }
      producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(sent + acknowledged.size())), group);
      producer.commitTransaction();
    } catch (ExecutionException e) {
      abort();
      throw new KafkaException(e.getCause().getMessage(), e.getCause());
    } catch (KafkaException | IOException e) {
      abort();
      throw e;
    }
    sent += acknowledged.size();
    return acknowledged.size();
  }

  /** So that readers need not wait for the transaction's time to run out; where that fails, they do. */
  private void abort() {
    try {
      producer.abortTransaction();
    } catch (KafkaException e) {
      // What it failed for is told.
    }
  }

  /** The next line's bytes; null at the end. */
  private byte[] line() throws IOException {
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

  /** Its key and its headers are members of the record itself. */
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

  /** A transaction that is open is aborted, at the latest by the next sender. */
  @Override
  public void close() throws IOException {
    closeLines();
    producer.close();
  }
}
