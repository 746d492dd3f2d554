package dev.messagestore.spark;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A Spark data source that reads planned file ranges as records, in order of arrival.
 *
 * <p>Columns: part int and row int (the place in the plan: partition, and record within it), uri string, offset long
 * (byte at which the record starts in its decompressed file), value binary (its exact bytes), fault string (why it can't
 * be whole, or null). A part's last row is no record: its row is -1 less the number of records in the part. Option {@code plan} is the JSON that {@link RecordPlan} reads.
 */
public final class RecordSource implements TableProvider {
  static final StructType SCHEMA =
      new StructType()
          .add("part", DataTypes.IntegerType, false)
          .add("row", DataTypes.IntegerType, false)
          .add("uri", DataTypes.StringType, false)
          .add("offset", DataTypes.LongType, false)
          .add("value", DataTypes.BinaryType, false)
          .add("fault", DataTypes.StringType, true);

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new RecordTable();
  }

  private static final class RecordTable implements Table, SupportsRead {
    @Override
    public String name() {
      return "records";
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      RecordPlan plan = RecordPlan.parse(options.get("plan"));
      return () -> new RecordScan(plan);
    }
  }

  /** One partition's ranges; {@code index} is its place in order of arrival. */
  record Part(int index, List<FileRange> ranges) implements org.apache.spark.sql.connector.read.InputPartition {}
}
