package dev.messagestore.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Test;

class StagedRecordsTest {
  private static List<StagedRecords.Staged> records(String text, int atOnce, String key) throws Exception {
    InputStream slow =
        new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)) {
          @Override
          public int read(byte[] into, int offset, int length) {
            return super.read(into, offset, Math.min(length, atOnce));
          }
        };
    List<StagedRecords.Staged> found = new ArrayList<>();
    ExecutorService reader = Executors.newSingleThreadExecutor();
    try (StagedRecords records = new StagedRecords(slow, key == null ? null : "t", key, reader)) {
      StagedRecords.Staged staged;
      while ((staged = records.next()) != null) {
        found.add(staged);
      }
      assertNull(records.next());
    } finally {
      reader.shutdown();
    }
    return found;
  }

  private static List<String> lines(String text, int atOnce) throws Exception {
    List<String> found = new ArrayList<>();
    for (StagedRecords.Staged staged : records(text, atOnce, "messageId")) {
      byte[] value = staged.record().value();
      assertEquals(value.length, staged.bytes());
      found.add(new String(value, StandardCharsets.UTF_8));
    }
    return found;
  }

  @Test
  void nativeLinesAreTheSameWhereverABufferEnds() throws Exception {
    for (int bytes = 1; bytes < 20; bytes++) {
      assertEquals(List.of("{}", "", "{\"longer\":\r1}", "{ }"), lines("{}\n\n{\"longer\":\r1}\n{ }\n", bytes));
      assertEquals(List.of("{}", "{ }"), lines("{}\n{ }", bytes));
      assertEquals(List.of(), lines("", bytes));
    }
  }

  @Test
  void fullRecordsAreTheSameWhereverABufferEnds() throws Exception {
    String large = "{\"globalPosition\":7,\"value\":\"" + "YWJj".repeat(5000) + "\",\"topic\":\"ä\"}";
    String whole =
        "{\"globalPosition\":8,\"topic\":\"t\",\"key\":\"aw==\",\"headers\":[{\"name\":\"h\",\"value\":\"dg==\"},"
            + "{\"name\":\"none\"}],\"partition\":2,\"timestamp\":5,\"generation\":1,\"offset\":9}";
    for (int bytes : new int[] {1, 2, 3, 7, 8000, 20_000, 1 << 20}) {
      List<StagedRecords.Staged> found = records(large + "\n" + whole + "\n", bytes, null);
      assertEquals(2, found.size());
      assertEquals(7, found.get(0).position());
      assertEquals(large.getBytes(StandardCharsets.UTF_8).length, found.get(0).bytes());
      assertEquals("ä", found.get(0).record().topic());
      assertEquals("abc".repeat(5000), new String(found.get(0).record().value(), StandardCharsets.UTF_8));
      assertEquals(whole.length(), found.get(1).bytes());
      assertEquals(new KafkaPlaces.Origin(1, 9), found.get(1).origin());
      ProducerRecord<byte[], byte[]> record = found.get(1).record();
      assertEquals(List.of("t", 2, 5L), List.of(record.topic(), record.partition(), record.timestamp()));
      assertArrayEquals(new byte[] {'k'}, record.key());
      assertNull(record.value());
      assertArrayEquals(new byte[] {'v'}, record.headers().lastHeader("h").value());
      assertNull(record.headers().lastHeader("none").value());
    }
    assertEquals(List.of(), records("", 1, null));
  }
}
