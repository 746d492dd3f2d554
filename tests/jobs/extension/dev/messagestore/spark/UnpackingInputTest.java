package dev.messagestore.spark;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.github.luben.zstd.ZstdOutputStream;
import dev.messagestore.spark.UnpackingInput.DamagedStreamException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.zip.GZIPOutputStream;
import org.apache.commons.compress.compressors.bzip2.BZip2CompressorOutputStream;
import org.junit.jupiter.api.Test;

class UnpackingInputTest {
  private static final String DAMAGED = "the compressed stream is cut short or damaged: ";
  private static final String EARLY = DAMAGED + "it ends early";
  private static final byte[] ONE = "{\"a\":1}\n{\"b\":2}\n".getBytes(UTF_8);
  private static final byte[] TWO = "{\"c\":3}\n".getBytes(UTF_8);
  private static final Map<String, Packer> PACKERS =
      Map.of("gzip", GunzipInputTest::gzip, "zstd", UnpackingInputTest::zstd, "bzip2", UnpackingInputTest::bzip2);

  private interface Packer {
    byte[] pack(byte[] plain) throws IOException;
  }

  /** The unpacked bytes, and the fault that ended them. */
  record Unpacked(byte[] bytes, String fault) {}

  @Test
  void aFileIsUnpackedByItsFirstBytes() throws IOException {
    for (Packer packer : PACKERS.values()) {
      for (byte[] plain : new byte[][] {ONE, new byte[0]}) {
        Unpacked all = unpacked(packer.pack(plain));
        assertArrayEquals(plain, all.bytes());
        assertNull(all.fault());
      }
    }
  }

  @Test
  void whatOnlyBeginsAlikeIsReadAsItIs() throws IOException {
    String[] plain = {"", "BZh", "BZh91AY&S", "BZh91AY&Sy", "BZh01AY&SY", "BZhello, {}", "(\u00b5/", "P*M", "{\"a\":1}", "\u001f"};
    for (String text : plain) {
      byte[] bytes = text.getBytes(UTF_8);
      try (InputStream in = UnpackingInput.of(new ByteArrayInputStream(bytes), bytes.length, false)) {
        assertFalse(in instanceof UnpackingInput, text);
        assertArrayEquals(bytes, in.readAllBytes());
      }
    }
  }

  @Test
  void membersFollowOneAnotherAndZerosMayFollowTheLast() throws IOException {
    for (Packer packer : PACKERS.values()) {
      byte[] both = joined(packer.pack(ONE), packer.pack(new byte[0]), packer.pack(TWO));
      for (byte[] packed : new byte[][] {both, joined(both, new byte[70_000])}) {
        Unpacked all = unpacked(packed);
        assertNull(all.fault());
        assertArrayEquals(joined(ONE, TWO), all.bytes());
      }
    }
  }

  @Test
  void aFileThatEndsEarlySaysSoWhereverThatIs() throws IOException {
    for (var entry : PACKERS.entrySet()) {
      byte[] first = entry.getValue().pack(ONE);
      byte[] packed = joined(first, entry.getValue().pack(TWO));
      for (int length = 10; length < packed.length; length++) {
        Unpacked cut = unpacked(Arrays.copyOf(packed, length));
        assertEquals(length == first.length ? null : EARLY, cut.fault(), entry.getKey() + " cut to " + length);
        assertArrayEquals(Arrays.copyOf(joined(ONE, TWO), cut.bytes().length), cut.bytes());
        assertTrue(length < first.length || cut.bytes().length >= ONE.length);
      }
    }
  }

  @Test
  void aSignAndNothingBehindItIsDamage() throws IOException {
    for (String sign : new String[] {"1f8b", "28b52ffd", "502a4d18", "425a6839314159265359", "425a6839177245385090"}) {
      assertEquals(EARLY, unpacked(java.util.HexFormat.of().parseHex(sign)).fault(), sign);
    }
  }

  @Test
  void whatFollowsAndIsNoMemberIsTold() throws IOException {
    for (var entry : PACKERS.entrySet()) {
      for (byte[] more : new byte[][] {TWO, "B".getBytes(UTF_8), "(\n".getBytes(UTF_8), joined(new byte[9], TWO)}) {
        Unpacked got = unpacked(joined(entry.getValue().pack(ONE), more));
        assertArrayEquals(ONE, got.bytes());
        assertTrue(got.fault().startsWith(DAMAGED), got.fault());
      }
      Unpacked got = unpacked(joined(entry.getValue().pack(ONE), TWO));
      assertEquals(DAMAGED + "something that is no " + entry.getKey() + " follows", got.fault());
    }
  }

  @Test
  void aBitThatIsWrongIsFoundOrChangesNothing() throws IOException {
    for (String name : new String[] {"zstd", "bzip2"}) {
      byte[] packed = PACKERS.get(name).pack(ONE);
      for (int bit = 80; bit < 8 * packed.length; bit++) {
        byte[] changed = packed.clone();
        changed[bit / 8] ^= (byte) (1 << bit % 8);
        Unpacked got = unpacked(changed);
        assertTrue(got.fault() != null || Arrays.equals(ONE, got.bytes()), name + " bit " + bit);
        assertTrue(got.bytes().length == 0 || name.equals("zstd") || Arrays.equals(ONE, got.bytes()), name + " bit " + bit);
      }
    }
  }

  @Test
  void blocksBeforeDamageAreReadWhole() throws IOException {
    byte[] plain = noise(2_500_000);
    for (String name : new String[] {"zstd", "bzip2"}) {
      byte[] packed = PACKERS.get(name).pack(plain);
      for (double place : new double[] {0.3, 0.6, 0.95}) {
        byte[] changed = packed.clone();
        int at = (int) (place * packed.length);
        Arrays.fill(changed, at, at + 50, (byte) 0x55);
        Unpacked got = unpacked(changed);
        assertTrue(got.fault().startsWith(DAMAGED), got.fault());
        // A block of zstd has no sum of its own, so that damage may be found only behind it.
        int block = name.equals("zstd") ? 128 << 10 : 899_000;
        int whole = (int) (place * plain.length / block) * block - (name.equals("zstd") ? block : 0);
        assertTrue(got.bytes().length >= whole, name + got.bytes().length);
        int same = name.equals("zstd") ? whole : got.bytes().length;
        assertArrayEquals(Arrays.copyOf(plain, same), Arrays.copyOf(got.bytes(), same));
      }
    }
  }

  @Test
  void smallBlocksBeforeDamageAreReadWhole() throws IOException {
    byte[] packed = flushed(50);
    byte[] changed = packed.clone();
    Arrays.fill(changed, packed.length - 9, packed.length, (byte) 0xFF);
    Unpacked got = unpacked(changed);
    assertEquals(49 * 100, got.bytes().length);
    assertTrue(got.fault().startsWith(DAMAGED), got.fault());
  }

  @Test
  void aFileThatGrowsPastAllMeasureIsReadThatFar() throws IOException {
    for (Packer packer : PACKERS.values()) {
      Unpacked got = unpacked(packer.pack(new byte[40 << 20]));
      assertEquals(16 << 20, got.bytes().length);
      assertTrue(got.fault().startsWith("the compressed file unpacks to more than 250 times its size"), got.fault());
    }
  }

  @Test
  void framesToSkipAreNoContent() throws IOException {
    byte[] skipped = joined(new byte[] {0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0}, new byte[] {1, 2, 3});
    Unpacked got = unpacked(joined(skipped, zstd(ONE), skipped, skipped, zstd(TWO), skipped));
    assertNull(got.fault());
    assertArrayEquals(joined(ONE, TWO), got.bytes());
    assertNull(unpacked(skipped).fault());
    assertEquals(EARLY, unpacked(Arrays.copyOf(skipped, skipped.length - 1)).fault());
  }

  @Test
  void aWindowIsBoundedAndGivenBack() throws Exception {
    byte[] plain = noise(3 << 20);
    byte[] largest = windowed(plain, 27);
    byte[] larger = largest.clone();
    larger[5] = (byte) ((28 - 10) << 3);
    assertEquals(
        DAMAGED + "its window has 268435456 bytes, and may have 134217728, as by zstd --long=27",
        unpacked(larger).fault());
    var threads = Executors.newFixedThreadPool(4);
    Callable<Unpacked> task = () -> unpacked(joined(zstd(ONE), largest, zstd(ONE)));
    for (Future<Unpacked> done : threads.invokeAll(java.util.Collections.nCopies(8, task))) {
      assertArrayEquals(joined(ONE, plain, ONE), done.get().bytes());
      assertNull(done.get().fault());
    }
    threads.shutdown();
  }

  @Test
  void tasksThatReadTheirFilesTwiceAtATimeDoNotWaitForEachOther() throws Exception {
    byte[] plain = noise(3 << 20);
    byte[] packed = joined(zstd(ONE), windowed(plain, 27));
    var threads = Executors.newFixedThreadPool(4);
    Callable<Boolean> task =
        () -> {
          try (InputStream one = UnpackingInput.of(new ByteArrayInputStream(packed), packed.length, false);
              InputStream ahead = UnpackingInput.of(new ByteArrayInputStream(packed), packed.length, true)) {
            byte[] some = new byte[1 << 16];
            while (ahead.read(some, 0, some.length) >= 0) {
              one.read(some, 0, some.length);
            }
            return drained(one, 1 << 20).fault() == null;
          }
        };
    for (Future<Boolean> done : threads.invokeAll(java.util.Collections.nCopies(8, task), 1, TimeUnit.MINUTES)) {
      assertTrue(!done.isCancelled() && done.get());
    }
    threads.shutdown();
  }

  @Test
  void anErrorOfTheStorageIsNoDamage() throws IOException {
    for (Packer packer : PACKERS.values()) {
      byte[] packed = packer.pack(noise(300_000));
      IOException thrown = assertThrows(IOException.class, () -> read(new Failing(packed), packed.length));
      assertEquals("no route to host", thrown.getMessage());
    }
  }

  private static byte[] noise(int length) {
    byte[] plain = new byte[length];
    Random random = new Random(7);
    for (int i = 0; i < length; i++) {
      plain[i] = (byte) ('a' + random.nextInt(16));
    }
    return plain;
  }

  private static byte[] zstd(byte[] plain) throws IOException {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (ZstdOutputStream out = new ZstdOutputStream(packed).setChecksum(true)) {
      out.write(plain);
    }
    return packed.toByteArray();
  }

  /** A frame without a sum, of blocks of 100 bytes. */
  private static byte[] flushed(int blocks) throws IOException {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (ZstdOutputStream out = new ZstdOutputStream(packed)) {
      byte[] plain = noise(100 * blocks);
      for (int i = 0; i < blocks; i++) {
        out.write(plain, 100 * i, 100);
        out.flush();
      }
    }
    return packed.toByteArray();
  }

  private static byte[] windowed(byte[] plain, int bits) throws IOException {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (ZstdOutputStream out = new ZstdOutputStream(packed).setLong(bits)) {
      out.write(plain);
    }
    return packed.toByteArray();
  }

  private static byte[] bzip2(byte[] plain) throws IOException {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (OutputStream out = new BZip2CompressorOutputStream(packed)) {
      out.write(plain);
    }
    return packed.toByteArray();
  }

  private static Unpacked unpacked(byte[] packed) throws IOException {
    return read(new ByteArrayInputStream(packed), packed.length);
  }

  private static Unpacked read(InputStream file, int size) throws IOException {
    InputStream content = UnpackingInput.of(file, size, false);
    assertTrue(content instanceof UnpackingInput);
    return drained(content, 1 << 20);
  }

  /** Reads to the end or the first fault, so many bytes at once. */
  static Unpacked drained(InputStream content, int atOnce) throws IOException {
    ByteArrayOutputStream plain = new ByteArrayOutputStream();
    byte[] some = new byte[atOnce];
    try (content) {
      for (int n = content.read(some, 0, some.length); n >= 0; n = content.read(some, 0, some.length)) {
        plain.write(some, 0, n);
      }
      return new Unpacked(plain.toByteArray(), null);
    } catch (DamagedStreamException e) {
      return new Unpacked(plain.toByteArray(), e.getMessage());
    }
  }

  static byte[] joined(byte[]... parts) {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    for (byte[] part : parts) {
      all.writeBytes(part);
    }
    return all.toByteArray();
  }

  /** Fails in its middle. */
  private static final class Failing extends InputStream {
    private final InputStream bytes;
    private int left;

    Failing(byte[] bytes) {
      this.bytes = new ByteArrayInputStream(bytes);
      this.left = bytes.length / 2;
    }

    @Override
    public int read() throws IOException {
      throw new UnsupportedOperationException();
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
      if (left == 0) {
        throw new IOException("no route to host");
      }
      int n = bytes.read(into, offset, Math.min(length, left));
      left -= n;
      return n;
    }
  }
}
