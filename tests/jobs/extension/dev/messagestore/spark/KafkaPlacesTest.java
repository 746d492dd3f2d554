package dev.messagestore.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** Where a sender's records are in a topic. */
class KafkaPlacesTest {
  private static List<RecordMetadata> at(int partition, long... offsets) {
    List<RecordMetadata> taken = new ArrayList<>();
    for (long offset : offsets) {
      taken.add(new RecordMetadata(new TopicPartition("t", partition), offset, 0, -1, -1, -1));
    }
    return taken;
  }

  private static KafkaPlaces wanting(String origins) throws IOException {
    return new KafkaPlaces(new ObjectMapper().readTree(origins));
  }

  private static KafkaPlaces sent(KafkaPlaces before, int partition, long... offsets) {
    List<KafkaPlaces.Origin> origins = new ArrayList<>();
    for (long offset : offsets) {
      origins.add(new KafkaPlaces.Origin(1, 10 * offset));
    }
    return before.after(at(partition, offsets), origins);
  }

  @Test
  void betweenTwoTransactionsIsOneMarker() throws IOException {
    assertEquals("6", sent(sent(wanting("{}"), 0, 0, 1, 2), 0, 4, 5).text(0));
  }

  @Test
  void anyOtherGapMayHaveRecordsOfOthers() throws IOException {
    KafkaPlaces places = sent(sent(sent(wanting("{}"), 0, 2), 0, 4, 6), 0, 9);
    assertEquals("10 0-2 5-6 7-9", places.text(0));
    assertEquals("{\"0\":{\"next\":10,\"gaps\":[[0,2],[5,6],[7,9]],\"found\":[]}}", places.json());
  }

  @Test
  void aPlaceIsFoundWithTheFirstRecordAtOrBehindIt() throws IOException {
    KafkaPlaces places = wanting("{\"1\": [[1, 0], [1, 11], [1, 20], [1, 21], [2, 0]], \"2\": [[1, 0]]}");
    assertEquals("4 0 2 2 3", sent(places, 1, 0, 1, 2, 3).text(1));
  }

  @Test
  void aLaterSenderGoesOn() throws IOException {
    KafkaPlaces places = wanting("{\"1\": [[1, 0], [1, 75]]}");
    places.put(1, "7 0-2 3");
    places.put(2, "nothing that a sender wrote");
    assertEquals("{\"1\":{\"next\":9,\"gaps\":[[0,2]],\"found\":[3,8]}}", sent(places, 1, 8).json());
  }

  @Test
  void manyGapsBecomeOne() throws IOException {
    KafkaPlaces places = wanting("{}");
    for (long offset = 1; offset < 200; offset += 10) {
      places = sent(places, 0, offset);
    }
    String[] parts = places.text(0).split(" ");
    assertEquals(List.of(17, "142-191"), List.of(parts.length, parts[16]));
  }
}
