package dev.messagestore.spark;

import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of functions without an exact equivalent in Spark: {@code messagestore.envelope(value, spec, texts)},
 * {@code messagestore.json_text(value, path)}, {@code messagestore.is_json(value)}, {@code
 * messagestore.is_json_member(value)}, {@code messagestore.scrub_json(value, paths, method, given)}, {@code
 * messagestore.hmac_sha256(value, key)}, {@code messagestore.time(text)}, {@code messagestore.like(text, pattern)},
 * {@code messagestore.group(text, pattern)}, {@code messagestore.partition(path, name)}, {@code
 * messagestore.within(size, budget)}, and those of {@link ObjectFunction} and of {@link KeyedHashFunction}'s keys.
 */
public final class FunctionCatalog implements CatalogPlugin, org.apache.spark.sql.connector.catalog.FunctionCatalog {
  private static final Map<String, CatalogFunction<?>> FUNCTIONS =
      Map.of(
          "json_text", new JsonFunctions.JsonText(),
          "is_json", new JsonFunctions.IsJson("is_json", false),
          "is_json_member", new JsonFunctions.IsJson("is_json_member", true),
          "scrub_json", new ScrubFunction(),
          "hmac_sha256", new KeyedHashFunction.Hmac(),
          "time", new TextFunctions.Time(),
          "like", new TextFunctions.Like(),
          "group", new TextFunctions.Group(),
          "partition", new TextFunctions.Partition(),
          "within", new WithinFunction());

  private String name;

  @Override
  public void initialize(String catalog, CaseInsensitiveStringMap options) {
    name = catalog;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    Stream<String> names = Stream.concat(Stream.of(Envelope.NAME), FUNCTIONS.keySet().stream());
    return names.map(f -> Identifier.of(new String[0], f)).toArray(Identifier[]::new);
  }

  @Override
  public UnboundFunction loadFunction(Identifier id) throws org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException {
    if (id.name().equals(Envelope.NAME)) {
      return new Envelope.Unbound();
    }
    return Stream.of(FUNCTIONS.get(id.name()), ObjectFunction.named(id.name()), KeyedHashFunction.named(id.name()))
        .filter(Objects::nonNull)
        .findFirst()
        .orElseThrow(() -> new org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException(id));
  }
}
