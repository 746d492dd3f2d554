package dev.messagestore.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.messagestore.spark.StagedRecords.Lines;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class LinesTest {
  private static List<String> lines(String text, int bufferBytes) throws IOException {
    List<String> found = new ArrayList<>();
    try (Lines lines = new Lines(new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)), bufferBytes)) {
      byte[] line;
      while ((line = lines.next()) != null) {
        found.add(new String(line, StandardCharsets.UTF_8));
      }
      assertEquals(null, lines.next());
    }
    return found;
  }

  @Test
  void linesAreTheSameWhereverABufferEnds() throws IOException {
    for (int bytes = 1; bytes < 20; bytes++) {
      assertEquals(List.of("one", "", "a longer line", "x"), lines("one\n\na longer line\nx\n", bytes));
      assertEquals(List.of("one", "no end"), lines("one\nno end", bytes));
      assertEquals(List.of(), lines("", bytes));
    }
  }
}
