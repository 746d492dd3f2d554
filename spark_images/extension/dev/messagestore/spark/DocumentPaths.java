package dev.messagestore.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Which parts of documents are needed. No path of {@code around} leads to or through another path.
 *
 * @param records where a document may have its array of records; if empty, documents and elements are records
 * @param around where it has values that go with each of its records, by their names
 */
record DocumentPaths(List<String> records, Map<String, String> around) implements Serializable {
  /** The paths of records as fields 0, 1, …, then those around them. */
  JsonPaths tree() {
    List<String> all = new ArrayList<>(records);
    all.addAll(around.values());
    return JsonPaths.of(all);
  }

  /** The path of a field of the tree. */
  String path(int field) {
    return field < records.size() ? records.get(field) : List.copyOf(around.values()).get(field - records.size());
  }
}
