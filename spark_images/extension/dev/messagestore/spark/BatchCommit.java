package dev.messagestore.spark;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.SetTransaction;
import scala.Option;
import scala.collection.mutable.ListBuffer;

/**
 * Appends a batch to a Delta table in one commit that says which batch it is.
 *
 * <p>Delta's writer does so by its options txnAppId and txnVersion, but first computes the table's whole state to look
 * for the batch, three Spark jobs a commit. The caller knows from the log whether the batch is there. That another
 * writer commits the same source meanwhile is a conflict here as it is there.
 */
public final class BatchCommit {
  private BatchCommit() {}

  /** Write the rows and commit them; returns the table version. */
  public static long append(Dataset<Row> rows, String table, String source, long number, String note) {
    DeltaLog log = DeltaLog.forTable(rows.sparkSession(), new Path(table));
    OptimisticTransaction transaction = log.startTransaction(Option.empty(), Option.empty());
    transaction.readTxn().addOne(source);
    ListBuffer<Action> actions = new ListBuffer<>();
    actions.addOne(new SetTransaction(source, number, Option.apply(log.clock().getTimeMillis())));
    transaction.writeFiles(rows).foreach(actions::addOne);
    return transaction.commit(actions.toList(), operation(note));
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
