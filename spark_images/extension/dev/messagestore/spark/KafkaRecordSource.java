package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A Spark data source that reads planned ranges of Kafka offsets as records, in order of arrival. Unlike Spark's own
 * connector it numbers the records of a part as they are read, and has no secret in its options.
 *
 * <p>Columns: part int and row int (the position in the plan: partition, and record within it), uri string ({@code
 * kafka:topic}), partition int, offset long, value binary (null: a tombstone), key binary, record_headers map (for a
 * repeated name the last value; a value that is no text is base64), record_time timestamp, fault string and size long
 * (for a record that is too large, of which value is the start; else null), kept struct (what the columns before lose:
 * headers as they came, and the timestamp with its type; null unless the plan asks for it, and of a record that is too
 * large). A part's last row is no record: its row is -1 minus the number of records in the part.
 *
 * <p>The plan: {@code {"access": how to connect to the cluster, "maxRecordBytes": how many bytes are too many for a
 * record, "keep": whether column kept is filled, "parts": [[{"topic", "partition", "start", "end"}]]}}.
 */
public final class KafkaRecordSource extends PlannedSource<KafkaRecordSource.KafkaRange> {
  private static final StructType HEADER =
      new StructType().add("name", DataTypes.StringType, false).add("value", DataTypes.BinaryType, true);
  private static final StructType KEPT =
      new StructType()
          .add("headers", DataTypes.createArrayType(HEADER, false), false)
          .add("timestamp", DataTypes.LongType, false)
          .add("timestamp_type", DataTypes.StringType, false);
  private static final StructType SCHEMA =
      StructType.fromDDL(
              "part INT NOT NULL, row INT NOT NULL, uri STRING NOT NULL, partition INT NOT NULL, offset BIGINT NOT NULL,"
                  + " value BINARY, key BINARY, record_headers MAP<STRING, STRING>, record_time TIMESTAMP, fault STRING,"
                  + " size BIGINT")
          .add("kept", KEPT, true);

  /** Called by Spark. */
  public KafkaRecordSource() {
    super("kafka records", SCHEMA, KafkaRange.class);
  }

  /** The records of a topic's partition with offsets in [start, end). */
  record KafkaRange(String topic, int partition, long start, long end) implements Serializable {}

  @Override
  Opener<KafkaRange> opener(JsonNode plan) {
    KafkaAccess access = KafkaAccess.of(plan.get("access"));
    int limit = plan.get("maxRecordBytes").asInt();
    boolean keep = plan.path("keep").asBoolean();
    return part -> new Reader(part, access, limit, keep);
  }

  /** Offsets without a record (of transactions, or removed by compaction) are skipped. */
  private static final class Reader extends PartReader<KafkaRange> {
    /** How long a broker may take to restart. */
    private static final Duration PATIENCE = Duration.ofSeconds(90);

    private static final Duration POLL = Duration.ofSeconds(1);

    private static final int MOST_HEADERS = 1_000;

    private final KafkaAccess access;
    private final int limit;
    private final boolean keep;
    private KafkaConsumer<byte[], byte[]> consumer;
    private Iterator<ConsumerRecord<byte[], byte[]>> fetched = Collections.emptyIterator();
    private KafkaRange range;
    private TopicPartition place;
    private UTF8String uri;

    Reader(Part<KafkaRange> part, KafkaAccess access, int limit, boolean keep) {
      super(part, UTF8String.EMPTY_UTF8, 0, 0L, null, null, null, null, null, null, null);
      this.access = access;
      this.limit = limit;
      this.keep = keep;
    }

    @Override
    public boolean next() throws IOException {
      try {
        while (range != null || ranges.hasNext()) {
          if (range == null) {
            seek(ranges.next());
          }
          ConsumerRecord<byte[], byte[]> record = nextOfRange();
          if (record != null) {
            fill(record);
            return true;
          }
          range = null;
        }
      } catch (OffsetOutOfRangeException e) {
        throw new IOException(KafkaOffsets.GONE + ": " + range, e);
      } catch (KafkaException e) {
        throw new IOException("Kafka: " + e.getMessage(), e);
      }
      return end();
    }

    private void seek(KafkaRange next) {
      if (consumer == null) {
        consumer = KafkaOffsets.consumer(access);
      }
      range = next;
      place = new TopicPartition(next.topic(), next.partition());
      uri = UTF8String.fromString(KafkaOffsets.URI + next.topic());
      fetched = Collections.emptyIterator();
      consumer.assign(List.of(place));
      consumer.seek(place, next.start());
    }

    /** The range's next record; null after its last. */
    private ConsumerRecord<byte[], byte[]> nextOfRange() throws IOException {
      long waiting = System.nanoTime();
      while (true) {
        if (fetched.hasNext()) {
          ConsumerRecord<byte[], byte[]> record = fetched.next();
          return record.offset() < range.end() ? record : null;
        }
        long before = consumer.position(place);
        if (before >= range.end()) {
          return null;
        }
        fetched = consumer.poll(POLL).iterator();
        if (consumer.position(place) > before) {
          waiting = System.nanoTime();
        } else if (System.nanoTime() - waiting > PATIENCE.toNanos()) {
          throw new IOException(
              KafkaOffsets.SILENT + " for " + PATIENCE.toSeconds() + " s: " + range + " at offset " + before);
        }
      }
    }

    private void fill(ConsumerRecord<byte[], byte[]> record) {
      begin();
      row.update(2, uri);
      row.update(3, range.partition());
      row.update(4, record.offset());
      long time = record.timestamp();
      row.update(8, KafkaOffsets.isTime(time) ? time * 1000L : null);
      String fault = fault(record);
      if (fault == null) {
        fill(record.value(), record.key(), headers(record), null, null);
        row.update(11, keep ? kept(record) : null);
      } else {
        byte[] value = record.value();
        byte[] start = value == null ? null : Arrays.copyOf(value, Math.min(value.length, Framing.KEPT));
        fill(start, null, null, UTF8String.fromString(fault), size(record));
        row.update(11, null);
      }
    }

    private void fill(byte[] value, byte[] key, ArrayBasedMapData headers, UTF8String fault, Long size) {
      row.update(5, value);
      row.update(6, key);
      row.update(7, headers);
      row.update(9, fault);
      row.update(10, size);
    }

    /** Why a record is too large, or null. */
    private String fault(ConsumerRecord<byte[], byte[]> record) {
      int headers = record.headers().toArray().length;
      if (headers > MOST_HEADERS) {
        return "the record has " + headers + " headers, at most " + MOST_HEADERS
            + " are allowed; the start of its value is kept";
      }
      long size = size(record);
      return size < limit ? null : Framing.tooLarge("the record, with its key and headers,", size, limit);
    }

    private static long size(ConsumerRecord<byte[], byte[]> record) {
      long size = length(record.value()) + length(record.key());
      for (Header header : record.headers()) {
        size += header.key().length() + length(header.value());
      }
      return size;
    }

    private static long length(byte[] bytes) {
      return bytes == null ? 0 : bytes.length;
    }

    private static ArrayBasedMapData headers(ConsumerRecord<byte[], byte[]> record) {
      Map<String, UTF8String> headers = new LinkedHashMap<>();
      for (Header header : record.headers()) {
        // A header without a value only shows that it exists.
        headers.put(header.key(), header.value() == null ? UTF8String.EMPTY_UTF8 : text(header.value()));
      }
      Object[] names = headers.keySet().stream().map(UTF8String::fromString).toArray();
      return headers.isEmpty() ? null : ArrayBasedMapData.apply(names, headers.values().toArray());
    }

    private static GenericInternalRow kept(ConsumerRecord<byte[], byte[]> record) {
      Header[] all = record.headers().toArray();
      Object[] headers = new Object[all.length];
      for (int i = 0; i < all.length; i++) {
        headers[i] = new GenericInternalRow(new Object[] {UTF8String.fromString(all[i].key()), all[i].value()});
      }
      UTF8String type = UTF8String.fromString(record.timestampType().name);
      return new GenericInternalRow(new Object[] {new GenericArrayData(headers), record.timestamp(), type});
    }

    private static UTF8String text(byte[] value) {
      try {
        StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(value));
        return UTF8String.fromBytes(value);
      } catch (CharacterCodingException e) {
        return UTF8String.fromBytes(Base64.getEncoder().encode(value));
      }
    }

    @Override
    public void close() {
      if (consumer != null) {
        consumer.close();
        consumer = null;
      }
    }
  }
}
