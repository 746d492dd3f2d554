package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/**
 * What one batch reads: {@code {"format": "Lines"|"Documents", "maxRecordBytes": n, "parts": [[{"uri", "start", "end",
 * "size"}]]}}.
 *
 * @param documents whether each file is one JSON document; otherwise lines
 * @param maxRecordBytes how many bytes are too many for a record
 * @param parts the ranges of each partition; partitions, and ranges in one, are in order of arrival
 */
record RecordPlan(boolean documents, int maxRecordBytes, List<List<FileRange>> parts) implements Serializable {
  static RecordPlan parse(String json) {
    try {
      JsonNode root = new ObjectMapper().readTree(json);
      List<List<FileRange>> parts = new ArrayList<>();
      for (JsonNode part : root.get("parts")) {
        List<FileRange> ranges = new ArrayList<>();
        for (JsonNode r : part) {
          ranges.add(
              new FileRange(
                  r.get("uri").asText(), r.get("start").asLong(), r.get("end").asLong(), r.get("size").asLong()));
        }
        parts.add(ranges);
      }
      return new RecordPlan(
          root.get("format").asText().equals("Documents"), root.get("maxRecordBytes").asInt(), parts);
    } catch (IOException e) {
      throw new IllegalArgumentException("option plan is not the JSON of a record plan", e);
    }
  }
}
