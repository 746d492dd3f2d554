package dev.messagestore.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;

/** The scan of one record plan: a Spark partition for each of the plan's. */
final class RecordScan implements Scan, Batch {
  private final RecordPlan plan;

  RecordScan(RecordPlan plan) {
    this.plan = plan;
  }

  @Override
  public StructType readSchema() {
    return RecordSource.SCHEMA;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    InputPartition[] parts = new InputPartition[plan.parts().size()];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = new RecordSource.Part(i, plan.parts().get(i));
    }
    return parts;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    Configuration hadoop = SparkSession.active().sessionState().newHadoopConf();
    SerializableConfiguration conf = new SerializableConfiguration(hadoop);
    boolean documents = plan.documents();
    int limit = plan.maxRecordBytes();
    return new RecordReaderFactory(conf, documents, limit);
  }
}
