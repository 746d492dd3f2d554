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

  @Test
  void documentsFollowOneAnotherWithWhiteSpaceOrNothingBetween() throws IOException {
    assertEquals(List.of("{}", "{\"a\":\"}\"}", "1", "{}", "x"), texts("{}{\"a\":\"}\"}[1,{}] x "));
    assertEquals(List.of("1 \"{\" null", "{}"), texts("1 \"{\" null{}"));
    assertEquals(List.of(), texts(" \n\t"));
  }

  @Test
  void damageCostsNoMoreThanWhatStandsBetweenBrackets() throws IOException {
    assertEquals(List.of("{\"a\":}", "{}"), texts("{\"a\":}{}"));
    assertEquals(List.of("{}", "}", "{}"), texts("{}}{}"));
    assertEquals(List.of("{} {}", "1"), texts("[{} {},1]"));
    assertEquals(List.of("{}}", "1"), texts("[{}},1]"));
    assertEquals(List.of("\"a,1]{}"), texts("[\"a,1]{}"));
    assertEquals(List.of("{[}{}"), texts("{[}{}"));
    assertEquals(List.of("{\"a\\"), texts("{\"a\\"));
  }

  @Test
  void whatIsMissingIsTold() throws IOException {
    assertEquals(List.of("an element of the array is missing"), faults("[{},]"));
    assertEquals(List.of("an element of the array is missing"), faults("[,{}]"));
    assertEquals(List.of("the array that begins at byte 1 has no end"), faults(" [{}"));
    assertEquals(List.of("the array that begins at byte 1 has no end"), faults(" [{},"));
    assertEquals(List.of(), faults("[{}, {\"a\":"));
  }

  @Test
  void ofATextSequenceEachTextIsReadByItself() throws IOException {
    assertEquals(List.of("{}", "{\"a\":\"x", "1", "", "{}"), texts("\u001e{}\n\u001e{\"a\":\"x\u001e[1,\u001e{}"));
    assertEquals(List.of("{}", "{}"), texts("{}\u001e{}"));
    assertEquals(List.of("{\"\u001e\"}", "{}"), texts("{\"\u001e\"}{}"));
  }

  @Test
  void ofARecordThatIsTooLargeTheStartIsKept() throws IOException {
    DocumentFraming records = framing("[\"0123456789\", 1] {", 8);
    assertTrue(records.next());
    assertEquals("\"0123456", new String(records.bytes(), UTF_8));
    assertEquals(12, records.size());
    assertEquals("the record is 12 bytes long, but must be shorter than 8; its first 8 are kept", records.fault());
    assertTrue(records.cut());
    assertTrue(records.next());
    assertEquals("1", new String(records.bytes(), UTF_8));
    assertFalse(records.cut());
    assertTrue(records.next());
    assertFalse(records.next());
  }

  @Test
  void aRestThatIsTooLargeIsSkippedInLittleMemory() throws IOException {
    int large = 5 << 20;
    DocumentFraming records = framing("{}" + " ".repeat(large) + "[1,{\"a\":\"" + "x".repeat(large) + "\"}, {" + "\"".repeat(large), 1 << 20);
    List<Long> sizes = new ArrayList<>();
    while (records.next()) {
      sizes.add(records.size());
      assertTrue(records.bytes().length <= Framing.KEPT);
    }
    assertEquals(List.of(-1L, -1L, large + 8L, large + 1L), sizes);
    assertTrue(records.fault().endsWith("; it has no end"), records.fault());
  }

  @Test
  void aFileThatIsCutBetweenAnyRecordsGivesEachOnceAndInOrder() throws IOException {
    List<String> paths = List.of("$.a.b", "$.c");
    for (String file : List.of("[1,,{}, \"]\"] {}[2,]", "\u001e[1,2\u001e{}\u001e3", "{\"a\":{\"b\":[1, 2,],\"b\":[3]} 4} x", "[1,")) {
      for (List<String> of : List.of(List.<String>of(), paths)) {
        List<Found> due = found(file, 0, Long.MAX_VALUE, of);
        for (Found first : due) {
          for (Found second : due.subList(due.indexOf(first), due.size())) {
            List<Found> found = found(file, 0, first.offset(), of);
            found.addAll(found(file, first.offset(), second.offset(), of));
            found.addAll(found(file, second.offset(), Long.MAX_VALUE, of));
            assertEquals(due, found, file + " cut at " + first.offset() + " and " + second.offset());
          }
        }
      }
    }
  }

  /** A record, its offset, and why it is damaged. */
  record Found(String text, long offset, String fault) {}

  private static List<Found> found(String file, long from, long to, List<String> paths) throws IOException {
    List<Found> found = new ArrayList<>();
    DocumentFraming records =
        new DocumentFraming(new ByteArrayInputStream(file.getBytes(UTF_8)), from, to, 1 << 20, paths);
    while (records.next()) {
      found.add(new Found(new String(records.bytes(), UTF_8), records.offset(), records.fault()));
    }
    return found;
  }

  private static List<String> texts(String file) throws IOException {
    List<String> found = new ArrayList<>();
    DocumentFraming records = framing(file, 1 << 20);
    while (records.next()) {
      byte[] bytes = records.bytes();
      assertEquals(new String(bytes, UTF_8), text(file, records.offset(), bytes.length));
      found.add(new String(bytes, UTF_8));
    }
    return found;
  }

  private static List<String> faults(String file) throws IOException {
    List<String> found = new ArrayList<>();
    DocumentFraming records = framing(file, 1 << 20);
    while (records.next()) {
      assertFalse(records.cut());
      if (records.fault() != null) {
        found.add(records.fault());
      }
    }
    return found;
  }

  @Test
  void theElementsOfAnArrayAtAPathAreRecords() throws IOException {
    List<String> paths = List.of("$.Records", "$['re cords']['\u00e9']", "$");
    assertEquals(List.of("{}", "1"), records("{\"a\":[{}],\"Records\":[{}, 1],\"b\":{\"Records\":[2]}}", paths));
    assertEquals(List.of("1", "2", "3"), records("{\"Rec\\u006frds\":[1]}{\"re cords\":{\"\u00e9\":[2]}}\n[3]", paths));
    assertEquals(List.of(), records("{\"Records\":[]}", paths));
    assertEquals(List.of("MissingField {\"records\":[1]}", "2"), records("{\"records\":[1]}{\"Records\":[2]}", paths.subList(0, 1)));
    assertEquals(List.of("MissingField {\"Records\":null}"), records("{\"Records\":null}", paths));
    assertEquals(List.of("InvalidField {\"Records\":{\"a\":[]}}"), records("{\"Records\":{\"a\":[]}}", paths));
    assertEquals(List.of("MissingField [1]"), records("[1]", paths.subList(0, 2)));
    assertEquals(List.of("InvalidField {\"Records\":7}", "MissingField {}"), records("{\"Records\":7} {}", paths.subList(0, 1)));
  }

  @Test
  void damageBehindRecordsIsToldAndCostsNone() throws IOException {
    List<String> paths = List.of("$.a", "$.b.c");
    assertEquals(List.of("1", "Unparseable [2]", "3"), records("{\"a\":[1],\"a\":[2]}{\"a\":[3]}", paths));
    assertEquals(List.of("1", "Unparseable [2]"), records("{\"b\":{\"c\":[1]},\"a\":[2]}", paths));
    assertEquals(List.of("1", "Unparseable ", "2"), records("{\"a\":[1],\"x\":}{\"a\":[2]}", paths));
    assertEquals(List.of("1", "Unparseable "), records("{\"a\":[1],", paths));
    assertEquals(List.of("1", "Unparseable "), records("{\"a\":[1]", paths));
    assertEquals(List.of("1", "Unparseable "), records("{\"a\":[1", paths));
    assertEquals(List.of("{\"x\":"), records("{\"a\":[{\"x\":", paths));
    assertEquals(List.of("{\"x\":,\"b\":{"), records("{\"x\":,\"b\":{", paths));
    assertEquals(List.of("1", "Unparseable ", "2"), records("\u001e{\"a\":[1],\"x\":[\u001e{\"a\":[2]}", paths));
  }

  @Test
  void aDocumentWithoutRecordsMayBeTooLarge() throws IOException {
    DocumentFraming records = framing("{\"x\":\"0123456789\"}", 8, List.of("$.a"));
    assertTrue(records.next());
    assertEquals(18, records.size());
    assertEquals(null, records.reason());
    assertFalse(records.next());
  }

  private static List<String> records(String file, List<String> paths) throws IOException {
    List<String> found = new ArrayList<>();
    DocumentFraming records = framing(file, 1 << 20, paths);
    while (records.next()) {
      String text = new String(records.bytes(), UTF_8);
      assertEquals(text, text(file, records.offset(), records.bytes().length));
      String why = records.reason() == null ? "Unparseable" : records.reason();
      found.add(records.fault() == null ? text : why + " " + text);
    }
    return found;
  }

  private static DocumentFraming framing(String document, int limit) throws IOException {
    return framing(document, limit, List.of());
  }

  private static DocumentFraming framing(String document, int limit, List<String> paths) throws IOException {
    return new DocumentFraming(new ByteArrayInputStream(document.getBytes(UTF_8)), 0, Long.MAX_VALUE, limit, paths);
  }

  private static String text(String document, long offset, int length) {
    return new String(document.getBytes(UTF_8), (int) offset, length, UTF_8);
  }
}
