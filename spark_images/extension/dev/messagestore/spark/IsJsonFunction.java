package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import org.apache.spark.sql.types.DataTypes;

/**
 * {@code is_json(value binary)}: whether the bytes are one JSON value (RFC 8259). {@code is_json_member(value binary)}:
 * whether a record can have it as a member, too, as it is not nested as deeply as a record may be.
 */
public final class IsJsonFunction extends CatalogFunction<Boolean> {
  private final boolean isMember;

  private IsJsonFunction(String name, boolean isMember) {
    super(name, DataTypes.BooleanType, DataTypes.BinaryType);
    this.isMember = isMember;
  }

  IsJsonFunction() {
    this("is_json", false);
  }

  static IsJsonFunction ofMembers() {
    return new IsJsonFunction("is_json_member", true);
  }

  /** Called by generated code. */
  public boolean invoke(byte[] value) {
    if (value == null) {
      return false;
    }
    try (JsonParser parser = Json.parser(isMember ? Json.MEMBERS : Json.FACTORY, value)) {
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
