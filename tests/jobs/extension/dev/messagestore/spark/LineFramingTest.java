package dev.messagestore.spark;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class LineFramingTest {
  private static final int LIMIT = 1 << 20;

  /** The bytes of a byte order mark. */
  private static final String MARK = "\u00ef\u00bb\u00bf";

  /** A record, or the rest of one, and its offset. */
  record Found(String text, long offset) {}

  /** A file that can't be read. */
  static final class Unreadable extends InputStream {
    boolean isClosed;

    @Override
    public int read() throws IOException {
      throw new IOException("unreadable");
    }

    @Override
    public void close() {
      isClosed = true;
    }
  }

  @Test
  void aFileThatCanNotBeReadIsClosed() {
    for (int start : new int[] {0, 2}) {
      Unreadable file = new Unreadable();
      assertThrows(IOException.class, () -> new LineFraming(file, 0, start, 9, LIMIT));
      assertTrue(file.isClosed);
    }
    Unreadable packed = new Unreadable();
    assertThrows(IOException.class, () -> UnpackingInput.of(packed, 9, false));
    assertTrue(packed.isClosed);
  }

  @Test
  void aFileThatIsCutAnywhereGivesEachLineOnceAndInOrder() throws IOException {
    Random random = new Random(1);
    for (int i = 0; i < 30; i++) {
      byte[] file = file(i % 2 == 0 ? "" : MARK, random, "a", "{}", "\n", "\r\n", "\r", " ", "\n\n", MARK, "\t\n");
      List<Found> due = lines(file);
      for (int cut = 0; cut <= file.length; cut++) {
        for (int second = cut; second <= file.length; second++) {
          List<Found> found = new ArrayList<>();
          for (int[] range : new int[][] {{0, cut}, {cut, second}, {second, file.length}}) {
            found.addAll(read(file, range[0], range[1], 1 + i % 3));
          }
          assertEquals(due, found, "cut at " + cut + " and " + second + ": " + Arrays.toString(file));
        }
      }
    }
  }

  @Test
  void aLineEndsAtItsFirstLineFeedWhereverThatIs() {
    Random random = new Random(2);
    for (int length = 0; length < 40; length++) {
      for (int at = 0; at <= length; at++) {
        // A search of eight bytes at a time could mistake bytes next to \n in value, or with the high bit set, for \n.
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
          bytes[i] = (byte) "\u000b\t\u008a\u0000\u00ff".charAt(random.nextInt(5));
        }
        if (at < length) {
          bytes[at] = '\n';
        }
        assertEquals(at, Json.lineEnd(bytes, 0, length));
        assertEquals(at == length ? length : at, Json.lineEnd(bytes, Math.min(at, 1), length));
      }
    }
  }

  @Test
  void ofALineThatIsTooLongItsStartIsKeptAndTheNextLineIsRead() throws IOException {
    byte[] file = "aa\n0123456789abc\nb\n".getBytes(ISO_8859_1);
    LineFraming lines = lines(file, 0, file.length, 1, 8);
    assertTrue(lines.next());
    assertEquals(-1, lines.size());
    assertTrue(lines.next());
    assertEquals("01234567", new String(lines.bytes(), ISO_8859_1));
    assertEquals(3, lines.offset());
    assertEquals(13, lines.size());
    assertEquals("the line is 13 bytes long, but must be shorter than 8; its first 8 are kept", lines.fault());
    assertTrue(lines.next());
    assertEquals("b", new String(lines.bytes(), ISO_8859_1));
    assertEquals(17, lines.offset());
    assertNull(lines.fault());
    assertFalse(lines.next());
  }

  @Test
  void whatADamagedFileGivesIsReadAndTheLineThatIsCutSaysWhy() throws IOException {
    byte[] packed = GunzipInputTest.gzip("one\ntwo\nthree\n".getBytes(ISO_8859_1));
    byte[] cut = Arrays.copyOf(packed, packed.length - 8);
    InputStream plain = new GunzipInput(new ByteArrayInputStream(cut), cut.length);
    try (Framing lines = new LineFraming(plain, 0, 0, Long.MAX_VALUE, LIMIT)) {
      for (String due : List.of("one", "two", "three")) {
        assertTrue(lines.next());
        assertArrayEquals(due.getBytes(ISO_8859_1), lines.bytes());
        assertNull(lines.fault());
      }
      assertTrue(lines.next());
      assertEquals(GunzipInputTest.EARLY, lines.fault());
      assertFalse(lines.next());
    }
  }

  /** The lines of a file, in plain Java: without blank lines and without a byte order mark before the first. */
  private static List<Found> lines(byte[] file) {
    List<Found> lines = new ArrayList<>();
    String text = new String(file, ISO_8859_1);
    int at = text.startsWith(MARK) ? 3 : 0;
    for (String line : text.substring(at).split("\n", -1)) {
      String record = line.endsWith("\r") ? line.substring(0, line.length() - 1) : line;
      if (!record.isBlank()) {
        lines.add(new Found(record, at));
      }
      at += line.length() + 1;
    }
    return lines;
  }

  private static List<Found> read(byte[] file, int start, int end, int atOnce) throws IOException {
    List<Found> found = new ArrayList<>();
    try (LineFraming lines = lines(file, start, end, atOnce, LIMIT)) {
      while (lines.next()) {
        assertNull(lines.fault());
        found.add(new Found(new String(lines.bytes(), ISO_8859_1), lines.offset()));
      }
    }
    return found;
  }

  private static LineFraming lines(byte[] file, int start, int end, int atOnce, int limit) throws IOException {
    int at = Math.max(0, start - 1);
    InputStream in = new Dripping(Arrays.copyOfRange(file, at, file.length), atOnce);
    return new LineFraming(in, at, start, end, limit);
  }

  private static byte[] file(String start, Random random, String... pieces) {
    StringBuilder text = new StringBuilder(start);
    for (int i = random.nextInt(10); i > 0; i--) {
      text.append(pieces[random.nextInt(pieces.length)]);
    }
    return text.toString().getBytes(ISO_8859_1);
  }

  /** Returns a few bytes at a time, as a network may. */
  private static final class Dripping extends ByteArrayInputStream {
    private final int atOnce;

    Dripping(byte[] bytes, int atOnce) {
      super(bytes);
      this.atOnce = atOnce;
    }

    @Override
    public synchronized int read(byte[] into, int from, int length) {
      return super.read(into, from, Math.min(length, atOnce));
    }
  }
}
