package dev.messagestore.spark;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FileListingTest {
  @Test
  void theFirstBytesOfFilesComeInTheirOrderAndNoneOfOneThatIsGone(@TempDir Path folder) throws IOException {
    Path longer = Files.writeString(folder.resolve("odd name %20 é"), "0123456789abc");
    Path shorter = Files.writeString(folder.resolve("b"), "01");
    String asked = "[[\"%s\", 10], [\"%s/gone\", 10], [\"%s\", 2], [\"%s\", 9]]"
        .formatted(uri(longer), uri(folder), uri(shorter), uri(shorter));
    String due = "[\"%s\",null,\"%s\",null]".formatted(packed("0123456789"), packed("01"));
    assertEquals(due, FileListing.starts(new Configuration(), asked));
  }

  private static String uri(Path path) {
    return "file://" + path;
  }

  private static String packed(String text) {
    return Base64.getEncoder().encodeToString(text.getBytes(UTF_8));
  }
}
