package dev.messagestore.spark;

import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.stream.Collectors;
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
      Stream.<CatalogFunction<?>>of(
              new Envelope(),
              new JsonFunctions.JsonText(),
              new JsonFunctions.IsJson("is_json", false),
              new JsonFunctions.IsJson("is_json_member", true),
              new ScrubFunction(),
              new KeyedHashFunction.Hmac(),
              new TextFunctions.Time(),
              new TextFunctions.Like(),
              new TextFunctions.Group(),
              new TextFunctions.Partition(),
              new WithinFunction())
          .collect(Collectors.toMap(CatalogFunction::name, Function.identity()));

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
    return FUNCTIONS.keySet().stream().map(f -> Identifier.of(new String[0], f)).toArray(Identifier[]::new);
  }

  @Override
  public UnboundFunction loadFunction(Identifier id) throws org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException {
    return Stream.of(FUNCTIONS.get(id.name()), ObjectFunction.named(id.name()), KeyedHashFunction.named(id.name()))
        .filter(Objects::nonNull)
        .findFirst()
        .orElseThrow(() -> new org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException(id));
  }
}
