package dev.messagestore.spark;

import com.fasterxml.jackson.annotation.JsonFormat;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Where in the partitions of a topic a sender's records are: behind the last, which ranges before it may have records of
 * others, and which of them are the first behind some places of the topic that they came from.
 *
 * <p>Records of one transaction lie without a gap in a partition, and between two transactions of one sender is the
 * marker that ends the first. Any other gap has an aborted transaction, or records of somebody else.
 */
final class KafkaPlaces {
  /** A further gap becomes part of the last one. */
  private static final int GAPS = 16;

  private static final ObjectMapper JSON = new ObjectMapper();

  @JsonFormat(shape = JsonFormat.Shape.ARRAY)
  record Gap(long start, long end) {}

  /** A place in a partition of the topics of one name that records came from: these are numbered, and so are records. */
  @JsonFormat(shape = JsonFormat.Shape.ARRAY)
  record Origin(long generation, long offset) implements Comparable<Origin> {
    @Override
    public int compareTo(Origin other) {
      return Comparator.comparingLong(Origin::generation).thenComparingLong(Origin::offset).compare(this, other);
    }
  }

  /** {@code found} has the offset of the first record at or behind each wanted place, in order, as far as it came. */
  record Place(long next, List<Gap> gaps, List<Long> found) {
    static final Place NONE = new Place(-1, List.of(), List.of());

    /** The place after one more record. */
    Place after(long offset, boolean inSameTransaction, Origin origin, List<Origin> wanted) {
      List<Long> reached = found;
      while (reached.size() < wanted.size() && wanted.get(reached.size()).compareTo(origin) <= 0) {
        // Few records reach one.
        reached = reached == found ? new ArrayList<>(found) : reached;
        reached.add(offset);
      }
      long expected = inSameTransaction || next < 0 ? Math.max(next, 0) : next + 1;
      if (offset == expected) {
        return new Place(offset + 1, gaps, reached);
      }
      List<Gap> more = new ArrayList<>(gaps);
      Gap gap = new Gap(Math.max(next, 0), offset);
      if (more.size() == GAPS) {
        gap = new Gap(more.remove(GAPS - 1).start(), offset);
      }
      more.add(gap);
      return new Place(offset + 1, more, reached);
    }

    String text() {
      StringBuilder text = new StringBuilder(Long.toString(next));
      gaps.forEach(gap -> text.append(' ').append(gap.start()).append('-').append(gap.end()));
      found.forEach(offset -> text.append(' ').append(offset));
      return text.toString();
    }

    static Place parse(String text) {
      String[] parts = text.split(" ");
      List<Gap> gaps = new ArrayList<>();
      List<Long> offsets = new ArrayList<>();
      for (int i = 1; i < parts.length; i++) {
        String[] ends = parts[i].split("-");
        if (ends.length == 1) {
          offsets.add(Long.parseLong(ends[0]));
        } else {
          gaps.add(new Gap(Long.parseLong(ends[0]), Long.parseLong(ends[1])));
        }
      }
      return new Place(Long.parseLong(parts[0]), gaps, offsets);
    }
  }

  private final Map<Integer, List<Origin>> wanted;
  private final Map<Integer, Place> places;

  private KafkaPlaces(Map<Integer, List<Origin>> wanted, Map<Integer, Place> places) {
    this.wanted = wanted;
    this.places = places;
  }

  /** With the places that are wanted, in ascending order, as {@code {"0": [[1, 17], [2, 0]]}}. */
  KafkaPlaces(JsonNode wanted) {
    this(JSON.convertValue(wanted, new TypeReference<TreeMap<Integer, List<Origin>>>() {}), new TreeMap<>());
  }

  /** Takes up what {@link #text} gave for a partition. */
  void put(int partition, String text) {
    if (text.matches("[0-9]{1,18}( [0-9]{1,18}-[0-9]{1,18})*( [0-9]{1,18})*")) {
      places.put(partition, Place.parse(text));
    }
  }

  /** The places after a transaction with these records, which came from these places, in the order of sending. */
  KafkaPlaces after(List<RecordMetadata> records, List<Origin> origins) {
    Map<Integer, Place> reached = new TreeMap<>();
    for (int i = 0; i < records.size(); i++) {
      RecordMetadata one = records.get(i);
      List<Origin> looked = wanted.getOrDefault(one.partition(), List.of());
      Place earlier = reached.get(one.partition());
      Place before = earlier == null ? places.getOrDefault(one.partition(), Place.NONE) : earlier;
      reached.put(one.partition(), before.after(one.offset(), earlier != null, origins.get(i), looked));
    }
    Map<Integer, Place> all = new TreeMap<>(places);
    all.putAll(reached);
    return new KafkaPlaces(wanted, all);
  }

  Iterable<Integer> partitions() {
    return places.keySet();
  }

  /** The offset behind the last record of a partition. */
  long next(int partition) {
    return places.get(partition).next();
  }

  String text(int partition) {
    return places.get(partition).text();
  }

  /** All places, as {@code {"0": {"next": 7, "gaps": [[2, 4]], "found": [5]}}}. */
  String json() throws JsonProcessingException {
    return JSON.writeValueAsString(places);
  }
}
