package dev.messagestore.spark;

import static dev.messagestore.spark.UnpackingInputTest.drained;
import static dev.messagestore.spark.UnpackingInputTest.joined;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.messagestore.spark.UnpackingInputTest.Unpacked;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;

class GunzipInputTest {
  static final String EARLY = "the compressed stream is cut short or damaged: it ends early";
  private static final byte[] ONE = "{\"a\":1}\n{\"b\":2}\n".getBytes(UTF_8);
  private static final byte[] TWO = "{\"c\":3}\n".getBytes(UTF_8);
  private static final byte[] BOTH = joined(ONE, TWO);

  @Test
  void membersFollowOneAnotherAndZerosMayFollowTheLast() throws IOException {
    for (byte[] packed : new byte[][] {joined(gzip(ONE), gzip(TWO)), joined(gzip(ONE), gzip(TWO), new byte[512])}) {
      Unpacked all = unpacked(packed);
      assertArrayEquals(BOTH, all.bytes());
      assertNull(all.fault());
    }
  }

  @Test
  void aFileThatEndsEarlySaysSoWhereverThatIs() throws IOException {
    byte[] packed = joined(gzip(ONE), gzip(TWO));
    int first = gzip(ONE).length;
    for (int length = 0; length < packed.length; length++) {
      Unpacked cut = unpacked(Arrays.copyOf(packed, length));
      assertEquals(length == first ? null : EARLY, cut.fault(), "cut to " + length);
      assertArrayEquals(Arrays.copyOf(BOTH, cut.bytes().length), cut.bytes());
    }
  }

  @Test
  void aBitThatIsWrongIsFoundOrChangesNothing() throws IOException {
    byte[] packed = gzip(ONE);
    for (int bit = 0; bit < 8 * packed.length; bit++) {
      byte[] changed = packed.clone();
      changed[bit / 8] ^= (byte) (1 << bit % 8);
      Unpacked got = unpacked(changed);
      // No checksum covers the header's time and system, nor the padding bits of the last compressed byte.
      assertTrue(got.fault() != null || Arrays.equals(ONE, got.bytes()), "bit " + bit);
    }
  }

  @Test
  void whatFollowsAndIsNoGzipIsTold() throws IOException {
    Unpacked got = unpacked(joined(gzip(ONE), TWO));
    assertArrayEquals(ONE, got.bytes());
    assertEquals("the compressed stream is cut short or damaged: something that is no gzip follows", got.fault());
  }

  @Test
  void aFileThatGrowsPastAllMeasureIsReadThatFar() throws IOException {
    byte[] packed = gzip(new byte[20 << 20]);
    Unpacked got = unpacked(packed);
    assertEquals(16 << 20, got.bytes().length);
    assertTrue(got.fault().startsWith("the compressed file unpacks to more than 250 times its size"), got.fault());
  }

  static byte[] gzip(byte[] plain) throws IOException {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (GZIPOutputStream out = new GZIPOutputStream(packed)) {
      out.write(plain);
    }
    return packed.toByteArray();
  }

  private static Unpacked unpacked(byte[] packed) throws IOException {
    return drained(new GunzipInput(new ByteArrayInputStream(packed), packed.length), 1000);
  }
}
