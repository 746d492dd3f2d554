package dev.messagestore.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;

class StagedRecordsTest {
  private static List<String> lines(String text, int atOnce) throws Exception {
    InputStream slow =
        new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)) {
          @Override
          public int read(byte[] into, int offset, int length) {
            return super.read(into, offset, Math.min(length, atOnce));
          }
        };
    List<String> found = new ArrayList<>();
    ExecutorService reader = Executors.newSingleThreadExecutor();
    try (StagedRecords records = new StagedRecords(slow, "t", "messageId", reader)) {
      StagedRecords.Staged staged;
      while ((staged = records.next()) != null) {
        found.add(new String(staged.record().value(), StandardCharsets.UTF_8));
        assertEquals(staged.record().value().length, staged.bytes());
      }
      assertEquals(null, records.next());
    } finally {
      reader.shutdown();
    }
    return found;
  }

  @Test
  void linesAreTheSameWhereverABufferEnds() throws Exception {
    for (int bytes = 1; bytes < 20; bytes++) {
      assertEquals(List.of("{}", "", "{\"longer\":\r1}", "{ }"), lines("{}\n\n{\"longer\":\r1}\n{ }\n", bytes));
      assertEquals(List.of("{}", "{ }"), lines("{}\n{ }", bytes));
      assertEquals(List.of(), lines("", bytes));
    }
  }
}
