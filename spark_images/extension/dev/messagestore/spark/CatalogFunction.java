package dev.messagestore.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * A function of {@link FunctionCatalog}, of one form: Spark casts the arguments to its types. A subclass adds
 * {@code invoke}, which generated code calls.
 */
abstract class CatalogFunction<T> implements ScalarFunction<T>, UnboundFunction {
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
  public BoundFunction bind(StructType arguments) {
    return this;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return name;
  }

  @Override
  public String canonicalName() {
    String types = Arrays.stream(inputs).map(DataType::catalogString).collect(Collectors.joining(", "));
    return "messagestore." + name + "(" + types + ")";
  }

  /**
   * A function's literal argument, parsed once. It is mostly one object for all records of a task, so it need not be
   * compared with the parsed one.
   */
  static final class Parsed<A, V> implements Serializable {
    private static final long serialVersionUID = 1L;

    private transient volatile Known<A, V> known;

    /** {@code copy} is a copy of {@code given}, whose memory may be reused. */
    private record Known<A, V>(A given, A copy, V value) {}

    V of(A given, UnaryOperator<A> copy, Function<A, V> parse) {
      Known<A, V> k = known;
      if (k == null || (k.given() != given && !k.copy().equals(given))) {
        k = new Known<>(given, copy.apply(given), parse.apply(given));
        known = k;
      }
      return k.value();
    }
  }
}
