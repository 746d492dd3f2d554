package dev.messagestore.spark;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class DocumentFramingTest {
  @Test
  void theElementsOfAnArrayAreRecordsOfTheirExactBytes() throws IOException {
    List<String> elements = List.of("{\"é\" : 1.50e1}", "\"\\u00e9]\\\"\"", "[ 1 , [2] ]", "-0.0", "null", "\"\"", "{}");
    for (String between : List.of(",", " ,\n\t", ",\r\n ")) {
      String document = "\ufeff [" + String.join(between, elements) + "\n] ";
      List<String> found = new ArrayList<>();
      DocumentFraming records = framing(document, 1 << 20);
      while (records.next()) {
        byte[] bytes = records.bytes();
        assertEquals(new String(bytes, UTF_8), text(document, records.offset(), bytes.length));
        found.add(new String(bytes, UTF_8));
      }
      assertEquals(elements, found);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"[{},", "[{} {}]", "[1,]", "{} x", "[{}]]", "{\"a\":}", "[\u0000]", "[1\u00a0]"})
  void aDocumentThatIsNotWellFormedIsOneRecordAsItIs(String document) throws IOException {
    DocumentFraming records = framing(document, 1 << 20);
    assertTrue(records.next());
    assertEquals(document, new String(records.bytes(), UTF_8));
    assertTrue(records.fault() != null && !records.fault().contains("com.fasterxml"), records.fault());
    assertFalse(records.next());
  }

  @Test
  void ofADocumentThatIsTooLargeItsStartIsKept() throws IOException {
    DocumentFraming records = framing("[\"0123456789\"]", 8);
    assertTrue(records.next());
    assertEquals("[\"012345", new String(records.bytes(), UTF_8));
    assertEquals(14, records.size());
    assertEquals("the document is 14 bytes long, but must be shorter than 8; its first 8 are kept", records.fault());
    assertFalse(records.next());
  }

  private static DocumentFraming framing(String document, int limit) throws IOException {
    return new DocumentFraming(new ByteArrayInputStream(document.getBytes(UTF_8)), limit);
  }

  private static String text(String document, long offset, int length) {
    return new String(document.getBytes(UTF_8), (int) offset, length, UTF_8);
  }
}
