package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A Spark batch data source with a fixed schema that reads the ranges in the JSON of its option {@code plan}, {@code
 * {"parts": [[range, …], …], …}}: a Spark partition for each part. Parts, and ranges in one, are in order of arrival.
 */
abstract class PlannedSource<R extends Serializable> implements TableProvider {
  private final String name;
  private final StructType schema;
  private final Class<R> ranges;

  PlannedSource(String name, StructType schema, Class<R> ranges) {
    this.name = name;
    this.schema = schema;
    this.ranges = ranges;
  }

  /** One partition's ranges; {@code index} is its number in order of arrival. */
  record Part<R extends Serializable>(int index, List<R> ranges) implements InputPartition {}

  /** Opens one part's ranges on an executor. */
  interface Opener<R extends Serializable> extends Serializable {
    PartitionReader<InternalRow> open(Part<R> part);
  }

  /**
   * Reads the ranges of one part one after the other, then returns one row that ends the part with its number of records:
   * it shows whether the last records of a truncated input are missing. The row object is reused; its first columns are
   * the part and the record's number in it.
   */
  abstract static class PartReader<R extends Serializable> implements PartitionReader<InternalRow> {
    protected final Iterator<R> ranges;
    protected final GenericInternalRow row;
    private final int part;
    private final Object[] last;
    private int count;
    private boolean ended;

    /**
     * @param last what the other columns have in the row that ends the part
     */
    PartReader(Part<R> part, Object... last) {
      this.part = part.index();
      this.ranges = part.ranges().iterator();
      this.row = new GenericInternalRow(2 + last.length);
      this.last = last;
    }

    /** Begins the row of a record. */
    protected final void begin() {
      row.update(0, part);
      row.update(1, count++);
    }

    /** Fills the row that ends the part; false if that was returned. */
    protected final boolean end() {
      if (ended) {
        return false;
      }
      ended = true;
      row.update(0, part);
      row.update(1, -1 - count);
      for (int i = 0; i < last.length; i++) {
        row.update(2 + i, last[i]);
      }
      return true;
    }

    @Override
    public final InternalRow get() {
      return row;
    }
  }

  /** One range of a part. */
  final R range(JsonNode range) {
    return new ObjectMapper().convertValue(range, ranges);
  }

  /** How to read the ranges, from the rest of the plan. */
  abstract Opener<R> opener(JsonNode plan);

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
      try {
        JsonNode plan = new ObjectMapper().readTree(options.get("plan"));
        Scan scan = new PlannedScan(parts(plan.get("parts")), plan);
        return () -> scan;
      } catch (IOException e) {
        throw new IllegalArgumentException("option plan is not the JSON of a plan of " + name, e);
      }
    }

    private InputPartition[] parts(JsonNode parts) {
      InputPartition[] made = new InputPartition[parts.size()];
      for (int i = 0; i < made.length; i++) {
        List<R> ranges = new ArrayList<>();
        parts.get(i).forEach(range -> ranges.add(range(range)));
        made[i] = new Part<>(i, ranges);
      }
      return made;
    }
  }

  private final class PlannedScan implements Scan, Batch {
    private final InputPartition[] parts;
    private final JsonNode plan;

    PlannedScan(InputPartition[] parts, JsonNode plan) {
      this.parts = parts;
      this.plan = plan;
    }

    @Override
    public StructType readSchema() {
      return schema;
    }

    @Override
    public String description() {
      return name;
    }

    @Override
    public Batch toBatch() {
      return this;
    }

    @Override
    public InputPartition[] planInputPartitions() {
      return parts.clone();
    }

    @Override
    @SuppressWarnings("unchecked")
    public PartitionReaderFactory createReaderFactory() {
      Opener<R> opener = opener(plan);
      return part -> opener.open((Part<R>) part);
    }
  }
}
