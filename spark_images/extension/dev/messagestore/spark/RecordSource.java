package dev.messagestore.spark;

import java.util.List;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * A Spark data source that reads planned file ranges as records, in order of arrival.
 *
 * <p>Columns: part int and row int (the place in the plan: partition, and record within it), uri string, offset long
 * (byte at which the record starts in its decompressed file), value binary (its exact bytes), fault string (why it can't
 * be whole, or null), size long (of a record that is too large, of which value is the start; else null). A part's last
 * row is no record: its row is -1 less the number of records in the part. Option {@code plan} is the JSON that {@link
 * RecordPlan} reads.
 */
public final class RecordSource extends PlannedSource {
  static final StructType SCHEMA =
      new StructType()
          .add("part", DataTypes.IntegerType, false)
          .add("row", DataTypes.IntegerType, false)
          .add("uri", DataTypes.StringType, false)
          .add("offset", DataTypes.LongType, false)
          .add("value", DataTypes.BinaryType, false)
          .add("fault", DataTypes.StringType, true)
          .add("size", DataTypes.LongType, true);

  /** Made by Spark. */
  public RecordSource() {
    super("records", SCHEMA);
  }

  @Override
  Scan scan(String plan) {
    return new RecordScan(RecordPlan.parse(plan));
  }

  /** One partition's ranges; {@code index} is its place in order of arrival. */
  record Part(int index, List<FileRange> ranges) implements org.apache.spark.sql.connector.read.InputPartition {}
}
