package dev.messagestore.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** {@code envelope(value binary, spec string)}: {@link Envelope#read} as a Spark function. */
public final class EnvelopeFunction implements ScalarFunction<InternalRow> {
  private final Parsed<UTF8String, EnvelopeSpec> specs = new Parsed<>();

  /** Called by generated code. */
  public InternalRow invoke(byte[] value, UTF8String spec) {
    return Envelope.read(value, specs.of(spec, UTF8String::copy, text -> EnvelopeSpec.parse(text.toString())));
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.BinaryType, DataTypes.StringType};
  }

  @Override
  public DataType resultType() {
    return Envelope.SCHEMA;
  }

  @Override
  public String name() {
    return "envelope";
  }

  @Override
  public String canonicalName() {
    return "messagestore.envelope(binary, string)";
  }
}
