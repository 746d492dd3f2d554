package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import org.apache.commons.io.function.IOSupplier;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.util.LineReader;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * The records of a staged object, one of each line, in order. The next part of them is read and parsed while one is
 * sent.
 */
final class StagedRecords implements Closeable {
  /** The topic of a record that names none. */
  static final String NO_TOPIC = "";

  private static final int PART_BYTES = 4 << 20;
  private static final int LINE_BUFFER = 1 << 18;

  /**
   * A record for Kafka.
   *
   * @param position the global position of its message; -1 if the line has none
   * @param origin where the record was in the topic that it came from
   * @param bytes the size of its line
   * @param record null if it is not sent
   */
  record Staged(long position, KafkaPlaces.Origin origin, int bytes, ProducerRecord<byte[], byte[]> record) {
    Staged unsent() {
      return new Staged(position, origin, bytes, null);
    }
  }

  private final InputStream stream;
  private final String topic;
  private final String key;
  private final ExecutorService reader;
  private Queue<Staged> part = new ArrayDeque<>();
  private Future<Queue<Staged>> following;
  private boolean ended;

  /** The stream's next record; null at its end. Made by the thread that reads: to make it may read, too. */
  private IOSupplier<Staged> records;

  /**
   * @param topic null: each line names its own
   * @param key the member of a Native record that becomes the record's key; null: a line says all of its record
   * @param reader runs one task at a time
   */
  StagedRecords(InputStream stream, String topic, String key, ExecutorService reader) {
    this.stream = stream;
    this.topic = topic;
    this.key = key;
    this.reader = reader;
    this.following = reader.submit(this::readPart);
  }

  /** The next record; null at the end. */
  Staged next() throws IOException, InterruptedException {
    Staged first = peek();
    part.poll();
    return first;
  }

  /** The record that {@link #next} will return. */
  Staged peek() throws IOException, InterruptedException {
    if (part.isEmpty() && following != null) {
      part = result(following);
      following = ended ? null : reader.submit(this::readPart);
    }
    return part.peek();
  }

  private static Queue<Staged> result(Future<Queue<Staged>> read) throws IOException, InterruptedException {
    try {
      return read.get();
    } catch (ExecutionException e) {
      throw new IOException(e.getCause().getMessage(), e.getCause());
    }
  }

  private Queue<Staged> readPart() throws IOException {
    if (records == null) {
      records = records();
    }
    Queue<Staged> read = new ArrayDeque<>();
    for (int bytes = 0; bytes < PART_BYTES && !ended; ) {
      Staged next = records.get();
      if (next == null) {
        ended = true;
      } else {
        read.add(next);
        bytes += next.bytes;
      }
    }
    return read;
  }

  private IOSupplier<Staged> records() throws IOException {
    if (key == null) {
      JsonParser parser = Json.FACTORY.createParser(stream);
      return () -> fullRecord(parser);
    }
    LineReader lines = new LineReader(stream, LINE_BUFFER, new byte[] {'\n'});
    Text line = new Text();
    return () -> lines.readLine(line) == 0 ? null : nativeRecord(line.copyBytes());
  }

  /** The line itself, with the key and headers that it has as members. */
  private Staged nativeRecord(byte[] line) throws IOException {
    byte[] keyBytes = null;
    long position = -1;
    List<Header> headers = new ArrayList<>();
    try (JsonParser parser = Json.FACTORY.createParser(line)) {
      parser.nextToken();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.currentName();
        JsonToken value = parser.nextToken();
        if (name.equals(key) && value.isScalarValue()) {
          keyBytes = utf8(parser.getText());
        }
        if (name.equals("globalPosition") && value == JsonToken.VALUE_NUMBER_INT) {
          position = parser.getLongValue();
        }
        if (name.equals("headers") && value == JsonToken.START_OBJECT) {
          readTexts(parser, headers);
        } else {
          parser.skipChildren();
        }
      }
    }
    return new Staged(position, null, line.length, new ProducerRecord<>(topic, null, keyBytes, line, headers));
  }

  /** The record that a line tells: key, value and headers in base64, and maybe its topic, partition and timestamp. */
  private Staged fullRecord(JsonParser parser) throws IOException {
    if (parser.nextToken() == null) {
      return null;
    }
    long begin = parser.currentTokenLocation().getByteOffset();
    byte[] keyBytes = null;
    byte[] content = null;
    String to = topic == null ? NO_TOPIC : topic;
    Integer partition = null;
    Long timestamp = null;
    long position = -1;
    long generation = 0;
    long offset = 0;
    List<Header> headers = new ArrayList<>();
    while (parser.nextToken() == JsonToken.FIELD_NAME) {
      String name = parser.currentName();
      parser.nextToken();
      switch (name) {
        case "globalPosition" -> position = parser.getLongValue();
        case "topic" -> to = parser.getText();
        case "key" -> keyBytes = bytes(parser);
        case "value" -> content = bytes(parser);
        case "headers" -> readBytes(parser, headers);
        case "partition" -> partition = parser.getIntValue();
        case "timestamp" -> timestamp = parser.getLongValue();
        case "generation" -> generation = parser.getLongValue();
        case "offset" -> offset = parser.getLongValue();
        default -> parser.skipChildren();
      }
    }
    int size = (int) (parser.currentLocation().getByteOffset() - begin);
    KafkaPlaces.Origin origin = new KafkaPlaces.Origin(generation, offset);
    ProducerRecord<byte[], byte[]> record =
        new ProducerRecord<>(to, partition, timestamp, keyBytes, content, headers);
    return new Staged(position, origin, size, record);
  }

  private static void readBytes(JsonParser parser, List<Header> into) throws IOException {
    while (parser.nextToken() == JsonToken.START_OBJECT) {
      String header = null;
      byte[] content = null;
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        boolean isName = parser.currentName().equals("name");
        parser.nextToken();
        if (isName) {
          header = parser.getText();
        } else {
          content = bytes(parser);
        }
      }
      into.add(new RecordHeader(header, content));
    }
  }

  private static void readTexts(JsonParser parser, List<Header> into) throws IOException {
    while (parser.nextToken() == JsonToken.FIELD_NAME) {
      String name = parser.currentName();
      JsonToken value = parser.nextToken();
      into.add(new RecordHeader(name, value == JsonToken.VALUE_NULL ? null : utf8(parser.getText())));
    }
  }

  /** Bytes in base64; the parser's own decoder takes several times as long. */
  private static byte[] bytes(JsonParser parser) throws IOException {
    return Base64.getDecoder().decode(parser.getText());
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** Closes the object, once the part that is being read is. */
  @Override
  public void close() throws IOException {
    try {
      if (following != null) {
        following.get();
      }
    } catch (ExecutionException e) {
      // What is not sent need not be readable.
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    stream.close();
  }
}
