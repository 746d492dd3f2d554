package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/** {@code is_json(value binary)}: whether the bytes are one JSON value by RFC 8259. */
public final class IsJsonFunction implements ScalarFunction<Boolean> {
  /** Called by generated code. */
  public boolean invoke(byte[] value) {
    if (value == null) {
      return false;
    }
    try (JsonParser parser = Json.parser(value, 0, value.length)) {
      if (parser.nextToken() == null) {
        return false;
      }
      new Keys().skip(parser);
      return parser.nextToken() == null;
    } catch (IOException e) {
      return false;
    }
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.BinaryType};
  }

  @Override
  public DataType resultType() {
    return DataTypes.BooleanType;
  }

  @Override
  public String name() {
    return "is_json";
  }

  @Override
  public String canonicalName() {
    return "messagestore.is_json(binary)";
  }
}
