package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Functions of JSON documents, which read them. */
public final class JsonFunctions {
  private JsonFunctions() {}

  /**
   * {@code is_json(value binary)}: whether the bytes are one JSON value (RFC 8259). {@code is_json_member(value binary)}:
   * whether a record can have it as a member, too, as it is not nested as deeply as a record may be.
   */
  public static final class IsJson extends CatalogFunction<Boolean> {
    private final boolean isMember;

    IsJson(String name, boolean isMember) {
      super(name, DataTypes.BooleanType, DataTypes.BinaryType);
      this.isMember = isMember;
    }

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

  /**
   * {@code json_text(value binary, path string)}: the value at the path, a string unescaped and others as their exact JSON
   * text; null if there is no value at the path or the bytes are no JSON.
   */
  public static final class JsonText extends CatalogFunction<UTF8String> {
    private final Parsed<UTF8String, JsonPaths> parsed = new Parsed<>();

    JsonText() {
      super("json_text", DataTypes.StringType, DataTypes.BinaryType, DataTypes.StringType);
    }

    public UTF8String invoke(byte[] value, UTF8String path) {
      if (value == null) {
        return null;
      }
      JsonPaths paths = parsed.of(path, UTF8String::copy, text -> JsonPaths.of(List.of(text.toString())));
      Slices slices = new Slices(value, 1);
      try (JsonParser parser = Json.parser(value)) {
        if (parser.nextToken() == null) {
          return null;
        }
        paths.walk(parser, slices);
        return parser.nextToken() == null && slices.has(0) ? slices.text(slices.token(0), slices.start(0), slices.end(0)) : null;
      } catch (IOException e) {
        return null;
      }
    }
  }
}
