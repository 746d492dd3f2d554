package dev.messagestore.spark;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.SequenceInputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.zip.GZIPOutputStream;
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
        DocumentFraming.of(bytes(file), null, from, to, 1 << 20, new DocumentPaths(paths, Map.of()));
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

  @Test
  void eachRecordHasTheValuesAroundItWhereverTheyStand() throws IOException {
    assertEquals(List.of("1 {a=\"x\"}", "2 {a=\"x\"}"), around("{\"a\": \"x\" ,\"R\":[1,2]}"));
    assertEquals(List.of("1 {a=7.50, b=true}", "2 {}", "3 {b=\"y\"}"),
        around("{\"R\":[1],\"o\":{\"b\":true},\"a\":7.50}{\"R\":[2]} {\"o\":{\"c\":[],\"b\":\"y\"},\"R\":[3]}"));
    assertEquals(List.of("1 {a=[\"]\",{}]}", "2 {a=null}"), around("{\"\\u0061\":[\"]\",{}],\"R\":[1]}{\"R\":[2],\"a\":null}"));
    assertEquals(List.of("{\"a\":1} {a=1}", "[3] {}", "{ {a=damaged, b=damaged}"), around("{\"a\":1}[3]{"));
    assertEquals(List.of("1 {a=\"x\" \"y\"}"), around("{\"a\":\"x\" \"y\",\"R\":[1]}"));
  }

  @Test
  void valuesThatCannotBeToldAreNoJson() throws IOException {
    assertEquals(List.of("1 {a=twice}"), around("{\"a\":1,\"a\":1,\"R\":[1]}"));
    assertEquals(List.of("1 {a=2}", " {a=2}", "2 {a=3}"),
        around("{\"a\":2,\"R\":[1],\"a\":3,\"a\":4}{\"a\":3,\"R\":[2]}"));
    assertEquals(List.of("1 {a=1}", " {a=1}"), around("{\"R\":[1],\"a\":1,\"a\":2}"));
    assertEquals(List.of("1 {a=1, b=damaged}", " {a=1, b=damaged}"), around("{\"a\":1,\"R\":[1]"));
    assertEquals(List.of("1 {a=damaged, b=damaged}", " {a=damaged, b=damaged}"), around("{\"R\":[1],\"a\" 1}"));
    assertEquals(List.of("1 {a=damaged, b=damaged}", " {a=damaged, b=damaged}", "2 {a=1}"),
        around("\u001e{\"R\":[1],\"a\":[\u001e{\"a\":1,\"R\":[2]}"));
    String most = "\"" + "x".repeat(1022) + "\"";
    assertEquals(List.of("1 {a=" + most + "}"), around("{\"a\":" + most + ",\"R\":[1]}"));
    String more = "[" + "x".repeat(3_000_000);
    assertEquals(List.of("1 {a=" + more.substring(0, 1025) + ", b=2}"), around("{\"R\":[1],\"o\":{\"b\":2},\"a\":" + more + "]}"));
  }

  @Test
  void allPartsOfAFileHaveTheSameValuesHoweverItIsDamaged() throws IOException {
    String file = "{\"a\":1,\"R\":[1,{\"x\":[2]}],\"o\":{\"b\":2}} {\"o\":{\"b\":\"]\"},\"R\":[3],\"a\":[{}]}{\"R\":[4,5]}";
    Random random = new Random(7);
    for (int i = 0; i < 2_000; i++) {
      StringBuilder damaged = new StringBuilder(file);
      for (int j = random.nextInt(3); j >= 0; j--) {
        damaged.setCharAt(random.nextInt(file.length()), "{}[],:\"\\ \u001e1aR".charAt(random.nextInt(12)));
      }
      String text = damaged.toString();
      List<String> all = around(text, 0, Long.MAX_VALUE);
      long cut = random.nextInt(text.length());
      List<String> parts = around(text, 0, cut);
      parts.addAll(around(text, cut, Long.MAX_VALUE));
      assertEquals(all, parts, text + " cut at " + cut);
      assertEquals(all, goingOn(text, cut), text + " that went on at " + cut);
    }
  }

  /** The same, where the second part goes on at the end of the first. */
  private static List<String> goingOn(String file, long cut) throws IOException {
    List<String> found = new ArrayList<>();
    try (DocumentFraming records = framed(file, 0, cut)) {
      addAll(records, found);
      if (records.paused()) {
        records.goOn(Long.MAX_VALUE);
        addAll(records, found);
        assertFalse(records.paused());
      }
    }
    return found;
  }

  @Test
  void damageAtTheEndIsToldByThePartThatGoesOn() throws IOException {
    byte[] packed = new byte[] {31, -117, 8, 0, 0, 0, 0, 0, 0, 3};
    InputStream torn = UnpackingInput.of(new SequenceInputStream(gzip("[1,2]"), new ByteArrayInputStream(packed)), 100, false);
    DocumentFraming records = DocumentFraming.of(torn, null, 0, 4, 1 << 20, new DocumentPaths(List.of(), Map.of()));
    List<String> found = new ArrayList<>();
    addAll(records, found);
    assertTrue(records.paused());
    records.goOn(Long.MAX_VALUE);
    addAll(records, found);
    assertEquals(List.of("1 {}", "2 {}", " {}"), found);
    assertTrue(records.cut());
  }

  private static InputStream gzip(String text) throws IOException {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (GZIPOutputStream out = new GZIPOutputStream(packed)) {
      out.write(text.getBytes(UTF_8));
    }
    return new ByteArrayInputStream(packed.toByteArray());
  }

  /** Each record, and the values around it. */
  private static List<String> around(String file) throws IOException {
    return around(file, 0, Long.MAX_VALUE);
  }

  private static List<String> around(String file, long from, long to) throws IOException {
    List<String> found = new ArrayList<>();
    try (DocumentFraming records = framed(file, from, to)) {
      addAll(records, found);
    }
    return found;
  }

  private static DocumentFraming framed(String file, long from, long to) throws IOException {
    Map<String, String> values = new LinkedHashMap<>();
    values.put("a", "$.a");
    values.put("b", "$.o.b");
    DocumentPaths paths = new DocumentPaths(List.of("$.R"), values);
    return DocumentFraming.of(bytes(file), bytes(file), from, to, 1 << 20, paths);
  }

  private static void addAll(DocumentFraming records, List<String> into) throws IOException {
    while (records.next()) {
      into.add(new String(records.bytes(), UTF_8) + " " + records.about());
    }
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
    return DocumentFraming.of(bytes(document), null, 0, Long.MAX_VALUE, limit, new DocumentPaths(paths, Map.of()));
  }

  private static ByteArrayInputStream bytes(String text) {
    return new ByteArrayInputStream(text.getBytes(UTF_8));
  }

  private static String text(String document, long offset, int length) {
    return new String(document.getBytes(UTF_8), (int) offset, length, UTF_8);
  }
}
