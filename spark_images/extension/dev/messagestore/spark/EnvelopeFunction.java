package dev.messagestore.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** {@code envelope(value binary, spec string)}: {@link Envelope#read} as a Spark function. */
public final class EnvelopeFunction implements ScalarFunction<InternalRow> {
  private transient volatile Known known;

  /** The spec is a literal, one object for all records of a task: parsed once. The text is a copy of what was given. */
  private record Known(UTF8String given, UTF8String text, EnvelopeSpec spec) {}

  /** Called by generated code. */
  public InternalRow invoke(byte[] value, UTF8String spec) {
    Known k = known;
    if (k == null || (k.given() != spec && !k.text().equals(spec))) {
      k = new Known(spec, spec.copy(), EnvelopeSpec.parse(spec.toString()));
      known = k;
    }
    return Envelope.read(value, k.spec());
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
