package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import dev.messagestore.spark.GunzipInput.DamagedStreamException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * One JSON document per file: an object is one record, each element of an array is one. A malformed document is one
 * record, which becomes a dead letter as a whole, because the ends of its elements are unknown.
 */
final class DocumentFraming implements Framing {
  /** More elements would need more memory than their bytes. */
  private static final int MOST_ELEMENTS = 1_000_000;

  private final byte[] file;
  private final String streamFault;
  private long size = -1;
  private List<int[]> slices;
  private String fault;
  private int at = -1;

  DocumentFraming(InputStream in, int limit) throws IOException {
    byte[] all = new byte[0];
    String broken = null;
    try (in) {
      all = in.readNBytes(limit);
      if (all.length == limit) {
        all = Arrays.copyOf(all, Math.min(limit, KEPT));
        size = limit;
        size += in.transferTo(OutputStream.nullOutputStream());
        broken = Framing.tooLarge("the document", size, limit);
      }
    } catch (DamagedStreamException e) {
      broken = e.getMessage();
    }
    file = all;
    streamFault = broken;
    split();
  }

  private void split() {
    int start = Json.startsWithByteOrderMark(file) ? 3 : 0;
    if (streamFault != null) {
      slices = List.of(new int[] {start, file.length});
      fault = streamFault;
      return;
    }
    try {
      slices = elements(start);
    } catch (IOException | IllegalArgumentException e) {
      slices = List.of(new int[] {start, file.length});
      fault = Json.explain(e, start);
    }
  }

  private List<int[]> elements(int start) throws IOException {
    List<int[]> found = new ArrayList<>();
    try (JsonParser parser = Json.parser(file, start, file.length - start)) {
      JsonToken first = parser.nextToken();
      if (first == null) {
        return found;
      }
      if (first == JsonToken.START_ARRAY) {
        while (parser.nextToken() != JsonToken.END_ARRAY) {
          if (found.size() == MOST_ELEMENTS) {
            throw new IOException("the document has more than " + MOST_ELEMENTS + " elements");
          }
          found.add(slice(parser, start));
        }
      } else {
        found.add(slice(parser, start));
      }
      if (parser.nextToken() != null) {
        throw new IOException("something follows the document");
      }
    }
    return found;
  }

  private int[] slice(JsonParser parser, int base) throws IOException {
    int start = Json.valueStart(parser, base);
    parser.skipChildren();
    return new int[] {start, Json.valueEnd(parser, file, base, start)};
  }

  @Override
  public boolean next() {
    return ++at < slices.size();
  }

  @Override
  public byte[] bytes() {
    int[] slice = slices.get(at);
    return Arrays.copyOfRange(file, slice[0], slice[1]);
  }

  @Override
  public long offset() {
    return slices.get(at)[0];
  }

  @Override
  public String fault() {
    return fault;
  }

  @Override
  public long size() {
    return size;
  }

  @Override
  public void close() {}
}
