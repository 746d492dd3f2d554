package dev.messagestore.spark;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A Spark data source that reads what the JSON in its option {@code plan} says, in batches, always with one schema. */
abstract class PlannedSource implements TableProvider {
  private final String name;
  private final StructType schema;

  PlannedSource(String name, StructType schema) {
    this.name = name;
    this.schema = schema;
  }

  abstract Scan scan(String plan);

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return schema;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new PlannedTable();
  }

  private final class PlannedTable implements Table, SupportsRead {
    @Override
    public String name() {
      return name;
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return schema;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      Scan scan = scan(options.get("plan"));
      return () -> scan;
    }
  }
}
