package dev.messagestore.spark;

import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;

/** What {@link FunctionCatalog} tells of a function; a subclass adds {@code invoke}, which generated code calls. */
abstract class CatalogFunction<T> implements ScalarFunction<T> {
  private final String name;
  private final DataType result;
  private final DataType[] inputs;

  CatalogFunction(String name, DataType result, DataType... inputs) {
    this.name = name;
    this.result = result;
    this.inputs = inputs;
  }

  @Override
  public DataType[] inputTypes() {
    return inputs.clone();
  }

  @Override
  public DataType resultType() {
    return result;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String canonicalName() {
    String types = Arrays.stream(inputs).map(DataType::catalogString).collect(Collectors.joining(", "));
    return "messagestore." + name + "(" + types + ")";
  }
}
