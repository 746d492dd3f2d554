package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import org.apache.spark.sql.types.DataTypes;

/** {@code is_json(value binary)}: whether the bytes are a JSON value (RFC 8259) that a record can have as a member. */
public final class IsJsonFunction extends CatalogFunction<Boolean> {
  IsJsonFunction() {
    super("is_json", DataTypes.BooleanType, DataTypes.BinaryType);
  }

  /** Called by generated code. */
  public boolean invoke(byte[] value) {
    if (value == null) {
      return false;
    }
    try (JsonParser parser = Json.parser(Json.MEMBERS, value, 0, value.length)) {
      if (parser.nextToken() == null) {
        return false;
      }
      new Keys().skip(parser);
      return parser.nextToken() == null;
    } catch (IOException e) {
      return false;
    }
  }
}
