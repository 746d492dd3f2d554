package dev.messagestore.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.util.SerializableConfiguration;

/** Sent to the executors: opens one partition's ranges there. */
record RecordReaderFactory(SerializableConfiguration conf, boolean documents, int maxRecordBytes)
    implements PartitionReaderFactory {
  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new RecordReader((RecordSource.Part) partition, conf.value(), documents, maxRecordBytes);
  }
}
