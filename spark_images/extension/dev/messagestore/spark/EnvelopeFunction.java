package dev.messagestore.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** {@code envelope(value binary, spec string)}: {@link Envelope#read} as a Spark function. */
public final class EnvelopeFunction implements ScalarFunction<InternalRow> {
  private transient volatile Known known;

  /** The spec is a literal, the same for every record of a query: parsed once. */
  private record Known(UTF8String text, EnvelopeSpec spec) {}

  /** Called by generated code. */
  public InternalRow invoke(byte[] value, UTF8String spec) {
    Known k = known;
    if (k == null || !k.text().equals(spec)) {
      k = new Known(spec.copy(), EnvelopeSpec.parse(spec.toString()));
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
