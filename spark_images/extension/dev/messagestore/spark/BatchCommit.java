package dev.messagestore.spark;

import java.util.function.LongSupplier;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RuntimeConfig;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.SetTransaction;
import scala.Option;
import scala.collection.mutable.ListBuffer;

/**
 * Appends a batch to a Delta table in one commit that names the batch.
 *
 * <p>Delta's writer can do this with its options txnAppId and txnVersion, but first computes the table's whole state to
 * look for the batch: three Spark jobs per commit. Here the caller knows from the log whether the batch exists. As in
 * Delta's writer, a concurrent commit of the same source is a conflict.
 */
public final class BatchCommit {
  private static final String DERIVES_CHECKSUM = "spark.databricks.delta.incremental.commit.enabled";
  private static final String WRITES_CHECKSUM = "spark.databricks.delta.writeChecksumFile.enabled";

  private BatchCommit() {}

  /**
   * Write the rows and commit them; returns the table version.
   *
   * @param says the checked protocol and metadata, as of {@link #says}, which the table must still have, as Delta obeys
   *     them
   * @param alone whether this is probably the session's only commit; then it gets no checksum, as deriving the first one
   *     takes the table's whole state, too
   */
  public static long append(
      Dataset<Row> rows, String table, String source, long number, String note, String says, boolean alone) {
    DeltaLog log = DeltaLog.forTable(rows.sparkSession(), new Path(table));
    OptimisticTransaction transaction = log.startTransaction(Option.empty(), Option.empty());
    if (!says(transaction.snapshot()).equals(says)) {
      throw new IllegalStateException("the protocol or metadata of " + table + " was changed by another writer");
    }
    transaction.readTxn().addOne(source);
    ListBuffer<Action> actions = new ListBuffer<>();
    actions.addOne(new SetTransaction(source, number, Option.apply(log.clock().getTimeMillis())));
    transaction.writeFiles(rows).foreach(actions::addOne);
    LongSupplier commit = () -> transaction.commit(actions.toList(), operation(note));
    return alone ? withoutChecksum(rows, commit) : commit.getAsLong();
  }

  /** Commits without a checksum. A transaction that begins like this would validate an earlier checksum. */
  private static long withoutChecksum(Dataset<Row> rows, LongSupplier commit) {
    RuntimeConfig settings = rows.sparkSession().conf();
    String derives = settings.get(DERIVES_CHECKSUM, "true");
    String writes = settings.get(WRITES_CHECKSUM, "true");
    settings.set(DERIVES_CHECKSUM, false);
    settings.set(WRITES_CHECKSUM, false);
    try {
      return commit.getAsLong();
    } finally {
      settings.set(DERIVES_CHECKSUM, derives);
      settings.set(WRITES_CHECKSUM, writes);
    }
  }

  /** Protocol and metadata of a table's version, one line of JSON each. */
  public static String says(Snapshot snapshot) {
    return snapshot.protocol().json() + "\n" + snapshot.metadata().json();
  }

  private static DeltaOperations.Operation operation(String note) {
    return new DeltaOperations.Write(
        SaveMode.Append,
        Option.empty(),
        Option.empty(),
        Option.apply(note),
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Option.empty());
  }
}
