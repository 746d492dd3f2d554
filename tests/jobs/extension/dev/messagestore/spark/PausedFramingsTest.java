package dev.messagestore.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class PausedFramingsTest {
  private static final DocumentPaths PATHS = new DocumentPaths(List.of(), Map.of());
  private final List<Integer> closed = new ArrayList<>();

  @Test
  void eachGoesOnOnceWhereItHasStoppedInTheFileThatItWas() throws IOException {
    Framing one = framing(1);
    Framing other = framing(2);
    PausedFramings.put(key(7, "file:/a", 100), one);
    PausedFramings.put(key(7, "file:/a", 100), other);
    assertNull(PausedFramings.take(key(7, "file:/a", 99)));
    assertNull(PausedFramings.take(key(8, "file:/a", 100)));
    assertNull(PausedFramings.take(key(7, "file:/b", 100)));
    assertSame(one, PausedFramings.take(key(7, "file:/a", 100)));
    assertSame(other, PausedFramings.take(key(7, "file:/a", 100)));
    assertNull(PausedFramings.take(key(7, "file:/a", 100)));
  }

  @Test
  void theOldestIsClosedWhenThereAreTooMany() throws IOException {
    for (int i = 0; i < PausedFramings.MOST + 2; i++) {
      PausedFramings.put(key(i, "file:/a", 1), framing(i));
    }
    assertEquals(List.of(0, 1), closed);
    for (int i = 0; i < PausedFramings.MOST + 2; i++) {
      assertEquals(i < 2, PausedFramings.take(key(i, "file:/a", 1)) == null);
    }
  }

  private static PausedFramings.Key key(long modifiedAt, String uri, long at) {
    var range = new RecordSource.FileRange(uri, 3, 5, 10, uri, null, at - 1, at, 4);
    return new PausedFramings.Key(range, modifiedAt, false, 100, PATHS, at);
  }

  private Framing framing(int number) throws IOException {
    InputStream file =
        new ByteArrayInputStream(new byte[0]) {
          @Override
          public void close() {
            closed.add(number);
          }
        };
    return new LineFraming(file, 0, 0, 1, 100);
  }
}
