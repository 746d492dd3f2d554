package dev.messagestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Where a stream's records hold the canonical fields: {@code {"paths": {"messageId": ["headers", "X-Id"], …},
 * "contentType": default, "restAsHeaders": bool, "known": [name, …]}}.
 *
 * @param paths what to look for in each record
 * @param headers where the path of the headers ends, or null
 * @param contentType of records that name none
 * @param restAsHeaders whether members of the root that no path asked for are headers (CloudEvents' extensions)
 * @param known names of members of the root that no path asks for and that a record may have; where it is empty, any
 */
record EnvelopeSpec(
    JsonPaths paths, JsonPaths headers, String contentType, boolean restAsHeaders, Set<String> known) {
  static EnvelopeSpec parse(String json) {
    try {
      JsonNode root = new ObjectMapper().readTree(json);
      JsonPaths paths = new JsonPaths();
      JsonPaths headers = null;
      for (Map.Entry<String, JsonNode> e : root.get("paths").properties()) {
        JsonPaths end = paths.add(steps(e.getValue()), Envelope.field(e.getKey()));
        headers = e.getKey().equals("headers") ? end : headers;
      }
      Set<String> known = new HashSet<>();
      root.get("known").forEach(name -> known.add(name.asText()));
      return new EnvelopeSpec(
          paths, headers, root.get("contentType").asText(), root.get("restAsHeaders").asBoolean(), known);
    } catch (IOException e) {
      throw new IllegalArgumentException("not the JSON of an envelope specification", e);
    }
  }

  private static List<Object> steps(JsonNode path) {
    List<Object> steps = new ArrayList<>();
    path.forEach(step -> steps.add(step.isInt() ? (Object) step.asInt() : step.asText()));
    return steps;
  }
}
