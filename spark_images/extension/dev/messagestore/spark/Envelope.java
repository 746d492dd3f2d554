package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.Arrays;
import java.util.Base64;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code envelope(value binary, spec string, texts struct)}: extracts the canonical fields of one JSON record. Scalars are
 * returned as text, which column expressions convert; payload, metadata and result as the exact bytes of their JSON text.
 * Of a record that is cut off, the scalars that are whole are returned, too. The type of {@code texts} names the scalars;
 * its value is not read.
 */
public final class Envelope extends CatalogFunction<InternalRow> {
  private static final Map<StructType, Envelope> BOUND = new ConcurrentHashMap<>();
  private static final int METADATA = 0;
  private static final int RESULT = 1;
  private static final int HEADERS = 2;
  private static final int PAYLOAD = 3;
  private static final int UNKNOWN = 4;
  private static final int FIRST_TEXT = 5;
  private static final int LONGEST_TEXT = 1024;
  private static final int MOST_HEADERS = 1_000;
  private static final BitSet GOES_ON =
      "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".chars().collect(BitSet::new, BitSet::set, BitSet::or);

  static final String UNPARSEABLE = "Unparseable";
  static final String MISSING_FIELD = "MissingField";
  private static final String INVALID_FIELD = "InvalidField";

  /** The scalars' names in records, in the order of the struct. */
  private final String[] texts;

  private final int contentType;
  private final int payloadBase64;
  private final Parsed<UTF8String, EnvelopeSpec> specs = new Parsed<>();

  /** The function before it knows its scalars. */
  Envelope() {
    this(new StructType());
  }

  Envelope(StructType texts) {
    super("envelope", schema(texts), DataTypes.BinaryType, DataTypes.StringType, texts);
    this.texts = texts.fieldNames();
    this.contentType = textField("contentType");
    this.payloadBase64 = textField("payloadBase64");
  }

  /** Plans with the same call are equal, as they share a function. */
  @Override
  public Envelope bind(StructType arguments) {
    return BOUND.computeIfAbsent((StructType) arguments.fields()[2].dataType(), Envelope::new);
  }

  public InternalRow invoke(byte[] value, UTF8String spec, InternalRow unread) {
    return read(value, specs.of(spec, UTF8String::copy, text -> EnvelopeSpec.parse(text.toString(), this::field)));
  }

  private static StructType schema(StructType texts) {
    StructType schema =
        StructType.fromDDL(
            "reason STRING, detail STRING, metadata STRING, result BINARY, headers MAP<STRING, STRING>, payload BINARY,"
                + " unknown STRING");
    for (StructField text : texts.fields()) {
      schema = schema.add(text);
    }
    return schema;
  }

  /** The slice for a field's name in records. */
  private int field(String name) {
    return switch (name) {
      case "metadata" -> METADATA;
      case "result" -> RESULT;
      case "headers" -> HEADERS;
      case "payload" -> PAYLOAD;
      default -> {
        int field = textField(name);
        if (field < 0) {
          throw new IllegalArgumentException("no canonical field is named " + name);
        }
        yield field;
      }
    };
  }

  /** The slice for a scalar's name in records; below 0 if it is not read. */
  private int textField(String name) {
    int i = Arrays.asList(texts).indexOf(name);
    return i < 0 ? i : FIRST_TEXT + i;
  }

  /** One record as a row of the result; one that is not valid has a reason, and the scalars that it tells. */
  private InternalRow read(byte[] record, EnvelopeSpec spec) {
    int fields = FIRST_TEXT + texts.length;
    GenericInternalRow row = new GenericInternalRow(2 + fields);
    if (record == null) {
      return refuse(row, UNPARSEABLE, "there is no value: it is a tombstone");
    }
    try {
      List<byte[]> records = EnvelopeSpec.Unwrap.records(record, spec.unwrap());
      byte[] inner = records.get(records.size() - 1);
      Slices slices = new Slices(inner, fields, spec);
      String fault = walk(inner, spec, slices);
      if (fault == null) {
        for (EnvelopeSpec.Around around : spec.outer()) {
          takeFrom(records.get(records.size() - 1 - around.level()), around, slices);
        }
        fill(row, slices, spec);
      } else {
        start(row, withoutItsEnd(inner), spec);
        refuse(row, UNPARSEABLE, EnvelopeSpec.Unwrap.where(spec.unwrap()) + fault);
      }
    } catch (RefusedException e) {
      refuse(row, e.reason, e.getMessage());
    } catch (IOException e) {
      refuse(row, UNPARSEABLE, Json.explain(e));
    }
    return row;
  }

  private static GenericInternalRow refuse(GenericInternalRow row, String reason, String detail) {
    row.update(0, UTF8String.fromString(reason));
    row.update(1, UTF8String.fromString(detail));
    return row;
  }

  /** Takes fields from a record around the innermost; it was read before, to unwrap what is in it. */
  private static void takeFrom(byte[] outer, EnvelopeSpec.Around around, Slices into) throws IOException {
    Slices slices = into.elsewhere(outer, around);
    try (JsonParser parser = Json.parser(outer)) {
      parser.nextToken();
      around.paths().walk(parser, slices);
    }
    around.fields().forEach(field -> into.take(field, slices));
  }

  /** Finds the fields; returns why the record is unreadable, or null. */
  private static String walk(byte[] record, EnvelopeSpec spec, Slices into) {
    try (JsonParser parser = Json.parser(record)) {
      JsonToken first = parser.nextToken();
      if (first != JsonToken.START_OBJECT) {
        String otherwise = first == JsonToken.START_ARRAY ? spec.otherwise() : "";
        return first == null ? "it is empty" : "expected a JSON object, found " + kind(first) + otherwise;
      }
      spec.paths().walk(parser, into);
      return parser.nextToken() == null ? null : "something follows the object" + spec.otherwise();
    } catch (IOException e) {
      return Json.explain(e);
    }
  }

  /** The bytes without what might go on behind them: a character, a number or a literal. */
  private static byte[] withoutItsEnd(byte[] record) {
    int length = record.length;
    while (length > 0 && (record[length - 1] < 0 || GOES_ON.get(record[length - 1]))) {
      length--;
    }
    return Arrays.copyOf(record, length);
  }

  /** Fills the scalars that are whole in an unreadable record if it is only cut off. */
  private void start(GenericInternalRow row, byte[] record, EnvelopeSpec spec) throws IOException {
    Slices slices = new Slices(record, FIRST_TEXT + texts.length, spec);
    if (Json.INCOMPLETE.equals(walk(record, spec, slices))) {
      slices.forgetUnclosed();
      texts(row, slices, spec);
    }
  }

  private static String kind(JsonToken token) {
    return switch (token) {
      case START_ARRAY -> "an array";
      case START_OBJECT -> "an object";
      case VALUE_STRING -> "a string";
      case VALUE_NULL -> "null";
      case VALUE_TRUE, VALUE_FALSE -> "a boolean";
      default -> "a number";
    };
  }

  private void fill(GenericInternalRow row, Slices slices, EnvelopeSpec spec) throws IOException, RefusedException {
    RefusedException wrong = texts(row, slices, spec);
    if (wrong != null) {
      throw wrong;
    }
    if (slices.of(METADATA).has(METADATA)) {
      row.update(2 + METADATA, UTF8String.fromBytes(slices.of(METADATA).json(METADATA)));
    }
    if (slices.of(RESULT).has(RESULT)) {
      row.update(2 + RESULT, slices.of(RESULT).json(RESULT));
    }
    row.update(2 + HEADERS, headers(slices.of(HEADERS), spec));
    row.update(2 + PAYLOAD, payload(slices.of(PAYLOAD), row, spec));
    if (slices.unknown() != null) {
      row.update(2 + UNKNOWN, UTF8String.fromString(slices.unknown()));
    }
  }

  /** Fills the scalars; returns why the first wrong one is not in the row, or null. */
  private RefusedException texts(GenericInternalRow row, Slices slices, EnvelopeSpec spec) throws IOException {
    RefusedException wrong = null;
    for (int field = FIRST_TEXT; field < FIRST_TEXT + texts.length; field++) {
      try {
        if (slices.of(field).has(field)) {
          row.update(2 + field, text(slices.of(field), field, spec));
        }
      } catch (RefusedException e) {
        wrong = wrong == null ? e : wrong;
      }
    }
    return wrong;
  }

  private UTF8String text(Slices slices, int field, EnvelopeSpec spec) throws IOException, RefusedException {
    String name = texts[field - FIRST_TEXT];
    JsonToken token = slices.token(field);
    if (token.isStructStart()) {
      throw new RefusedException(INVALID_FIELD, name + " is " + kind(token));
    }
    if (spec.restAsHeaders() && token != JsonToken.VALUE_STRING) {
      throw new RefusedException(INVALID_FIELD, name + " is " + kind(token) + ", expected a string");
    }
    UTF8String text = checked("", name, slices, token, slices.start(field), slices.end(field));
    if (text.numBytes() > LONGEST_TEXT && field != payloadBase64 && !name.equals("error")) {
      throw new RefusedException(
          INVALID_FIELD, name + " is " + text.numBytes() + " bytes long, at most " + LONGEST_TEXT + " are allowed");
    }
    return text;
  }

  private static UTF8String checked(String kind, String name, Slices slices, JsonToken token, int start, int end)
      throws IOException, RefusedException {
    try {
      return slices.text(token, start, end);
    } catch (Slices.LoneSurrogateException e) {
      throw new RefusedException(INVALID_FIELD, kind + name + " " + e.getMessage());
    }
  }

  private static ArrayBasedMapData headers(Slices slices, EnvelopeSpec spec) throws IOException, RefusedException {
    if (spec.restAsHeaders()) {
      List<Slices.Member> rest = slices.rest().stream().filter(m -> m.token() != JsonToken.VALUE_NULL).toList();
      for (Slices.Member m : rest) {
        if (!isAttribute(m, slices)) {
          throw new RefusedException(
              INVALID_FIELD,
              "attribute '" + m.name() + "' is " + kind(m.token()) + ", and neither a string, a boolean nor a whole number of 32 bits");
        }
      }
      return rest.isEmpty() ? null : map("", rest, slices);
    }
    if (!slices.has(HEADERS)) {
      return null;
    }
    if (slices.token(HEADERS) != JsonToken.START_OBJECT) {
      throw new RefusedException(INVALID_FIELD, "headers is " + kind(slices.token(HEADERS)) + ", expected an object");
    }
    return map("header ", slices.headers(), slices);
  }

  /** Whether a member has one of CloudEvents' types for attributes (JSON format, section 2.2). */
  private static boolean isAttribute(Slices.Member m, Slices slices) throws IOException {
    return switch (m.token()) {
      case VALUE_STRING, VALUE_TRUE, VALUE_FALSE -> true;
      case VALUE_NUMBER_INT -> isInteger(slices.text(m.token(), m.start(), m.end()).toString());
      default -> false;
    };
  }

  private static boolean isInteger(String digits) {
    try {
      Integer.parseInt(digits);
      return true;
    } catch (NumberFormatException e) {
      return false;
    }
  }

  /** No key comes twice: {@link Keys} has checked that. */
  private static ArrayBasedMapData map(String kind, List<Slices.Member> members, Slices slices)
      throws IOException, RefusedException {
    if (members.size() > MOST_HEADERS) {
      throw new RefusedException(
          INVALID_FIELD, "there are " + members.size() + " headers, at most " + MOST_HEADERS + " are allowed");
    }
    Object[] names = new Object[members.size()];
    Object[] values = new Object[members.size()];
    for (int i = 0; i < names.length; i++) {
      Slices.Member m = members.get(i);
      names[i] = UTF8String.fromString(m.name());
      values[i] = checked(kind, m.name(), slices, m.token(), m.start(), m.end());
    }
    return ArrayBasedMapData.apply(names, values);
  }

  private byte[] payload(Slices slices, GenericInternalRow row, EnvelopeSpec spec)
      throws IOException, RefusedException {
    if (payloadBase64 >= 0 && slices.has(payloadBase64)) {
      if (slices.has(PAYLOAD)) {
        throw new RefusedException(INVALID_FIELD, "payload and payloadBase64 are both there");
      }
      return decoded((UTF8String) row.get(2 + payloadBase64, DataTypes.StringType));
    }
    if (!slices.has(PAYLOAD)) {
      return null;
    }
    UTF8String named = contentType < 0 ? null : (UTF8String) row.get(2 + contentType, DataTypes.StringType);
    JsonToken token = slices.token(PAYLOAD);
    if (token != JsonToken.VALUE_STRING || isJson(named == null ? spec.contentType() : named.toString())) {
      return slices.json(PAYLOAD);
    }
    return checked("", "payload", slices, token, slices.start(PAYLOAD), slices.end(PAYLOAD)).getBytes();
  }

  private static byte[] decoded(UTF8String base64) throws RefusedException {
    try {
      return Base64.getDecoder().decode(base64.getBytes());
    } catch (IllegalArgumentException e) {
      throw new RefusedException(INVALID_FIELD, "payloadBase64 is no base64");
    }
  }

  private static boolean isJson(String contentType) {
    int parameters = contentType.indexOf(';');
    String media = (parameters < 0 ? contentType : contentType.substring(0, parameters)).trim().toLowerCase();
    return media.endsWith("/json") || media.endsWith("+json");
  }

  /** There is no record within a record, or a field has a wrong type or form. */
  static final class RefusedException extends Exception {
    private final String reason;

    RefusedException(String reason, String message) {
      super(message, null, false, false);
      this.reason = reason;
    }
  }
}
