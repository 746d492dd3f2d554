package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.messagestore.spark.PlannedSource.Part;
import dev.messagestore.spark.RecordSource.FileRange;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;

/** Finds where a file that can't be cut by its bytes can be cut between records. */
public final class FileCuts {
  /** Columns of {@link RecordSource}. */
  private static final int ROW = 1;

  private static final int OFFSET = 3;
  private static final int VALUE = 4;
  private static final int SIZE = 6;

  private FileCuts() {}

  /**
   * The offsets at which a range is cut, then one past its last record: of the unpacked file, in a JSON array. One record
   * is held at a time.
   *
   * @param plan of {@link RecordSource}, with the range alone
   * @param records how many records a part may have
   * @param bytes how many unpacked bytes a part may have, unless it is one record
   */
  public static String find(String plan, long records, long bytes) throws IOException {
    ObjectMapper mapper = new ObjectMapper();
    JsonNode said = mapper.readTree(plan);
    RecordSource source = new RecordSource();
    FileRange range = source.range(said.get("parts").get(0).get(0));
    List<Long> cuts = new ArrayList<>();
    long start = range.from();
    long last = start;
    long end = start;
    long count = 0;
    try (PartitionReader<InternalRow> reader = source.opener(said).open(new Part<>(0, List.of(range)))) {
      while (reader.next()) {
        InternalRow row = reader.get();
        if (row.getInt(ROW) >= 0) {
          long offset = row.getLong(OFFSET);
          end = Math.max(end, offset + (row.isNullAt(SIZE) ? row.getBinary(VALUE).length : row.getLong(SIZE)));
          // What is told of one place isn't cut apart.
          if (count > 0 && offset > last && (count >= records || end - start > bytes)) {
            cuts.add(offset);
            start = offset;
            count = 0;
          }
          last = offset;
          count++;
        }
      }
    }
    cuts.add(end);
    return mapper.writeValueAsString(cuts);
  }
}
