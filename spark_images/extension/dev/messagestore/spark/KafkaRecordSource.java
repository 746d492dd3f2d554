package dev.messagestore.spark;

import dev.messagestore.spark.KafkaPlan.KafkaRange;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * A Spark data source that reads planned ranges of Kafka offsets as records, in order of arrival. What Spark's own
 * connector does not do: records are numbered within their part as they are read, and no secret is in its options.
 *
 * <p>Columns: part int and row int (the place in the plan: partition, and record within it), uri string ({@code
 * kafka:topic}), partition int, offset long, value binary (null: a tombstone), key binary, record_headers map (of a name
 * that is there twice the last; a value that is no text is base64), record_time timestamp, fault string and size long (of a record
 * that is too large, of which value is the start; else null). A part's last row is no record: its row is -1 less the
 * number of records in the part. Option {@code plan} is the JSON that {@link KafkaPlan} reads.
 */
public final class KafkaRecordSource extends PlannedSource {
  static final StructType SCHEMA =
      new StructType()
          .add("part", DataTypes.IntegerType, false)
          .add("row", DataTypes.IntegerType, false)
          .add("uri", DataTypes.StringType, false)
          .add("partition", DataTypes.IntegerType, false)
          .add("offset", DataTypes.LongType, false)
          .add("value", DataTypes.BinaryType, true)
          .add("key", DataTypes.BinaryType, true)
          .add("record_headers", DataTypes.createMapType(DataTypes.StringType, DataTypes.StringType), true)
          .add("record_time", DataTypes.TimestampType, true)
          .add("fault", DataTypes.StringType, true)
          .add("size", DataTypes.LongType, true);

  /** Made by Spark. */
  public KafkaRecordSource() {
    super("kafka records", SCHEMA);
  }

  @Override
  Scan scan(String plan) {
    return new RecordScan(KafkaPlan.parse(plan));
  }

  private record RecordScan(KafkaPlan plan) implements Scan, Batch {
    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public Batch toBatch() {
      return this;
    }

    @Override
    public InputPartition[] planInputPartitions() {
      InputPartition[] parts = new InputPartition[plan.parts().size()];
      for (int i = 0; i < parts.length; i++) {
        parts[i] = new Part(i, plan.parts().get(i));
      }
      return parts;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new ReaderFactory(plan.access(), plan.maxRecordBytes());
    }

    @Override
    public String description() {
      return "kafka records";
    }
  }

  /** One Spark partition's ranges; {@code index} is its place in order of arrival. */
  record Part(int index, List<KafkaRange> ranges) implements InputPartition {}

  private record ReaderFactory(KafkaAccess access, int limit) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new KafkaRecordReader((Part) partition, access, limit);
    }
  }
}
