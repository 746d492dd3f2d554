package dev.messagestore.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** {@code envelope(value binary, spec string)}: {@link Envelope#read} as a Spark function. */
public final class EnvelopeFunction extends CatalogFunction<InternalRow> {
  private final Parsed<UTF8String, EnvelopeSpec> specs = new Parsed<>();

  EnvelopeFunction() {
    super("envelope", Envelope.SCHEMA, DataTypes.BinaryType, DataTypes.StringType);
  }

  /** Called by generated code. */
  public InternalRow invoke(byte[] value, UTF8String spec) {
    return Envelope.read(value, specs.of(spec, UTF8String::copy, text -> EnvelopeSpec.parse(text.toString())));
  }
}
