package dev.messagestore.spark;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class EnvelopeTest {
  private static final String SPEC =
      """
      {"paths": {"messageId": ["id"], "type": ["meta", "types", 1], "headers": ["meta", "headers"], "contentType": ["as"],
                 "payload": ["body"], "payloadBase64": ["base64"]},
       "contentType": "%s", "restAsHeaders": false, "known": []}
      """;

  private static final StructType TEXTS =
      StructType.fromDDL("messageId string, type string, contentType string, payloadBase64 string");

  private final Envelope envelope = new Envelope(TEXTS);

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "{\"a\" : 1.50e1, \"b\":[ ]}",
        "123456789012345678901234567890.50",
        "[\"\\u00e9\", null]",
        "\"a\\/b\"",
        "false",
      })
  void aPayloadOfJsonIsItsExactBytes(String payload) {
    String record = "{\"id\":\"1\" , \"body\" :\t" + payload + " , \"x\":{\"body\":2}}";
    assertEquals(payload, text(read(record, "application/json"), "payload"));
  }

  @Test
  void aPayloadOfTextIsTheCharactersOfItsString() {
    InternalRow row = read("{\"body\":\"a\\/b\\u00e9\\ud83d\\ude00\"}", "text/plain");
    assertEquals("a/bé\ud83d\ude00", text(row, "payload"));
    assertEquals("\"a\\/b\"", text(read("{\"body\":\"a\\/b\",\"as\":\"a/b+JSON ; x\"}", "text/plain"), "payload"));
    assertEquals("{ }", text(read("{\"body\":{ }}", "text/plain"), "payload"));
  }

  @Test
  void fieldsAreTakenFromWhereTheSpecSaysAndNowhereElse() {
    InternalRow row = read("{\"meta\":{\"id\":7,\"types\":[\"no\",\"yes\",\"no\"],\"headers\":{\"n\":1.0,\"m\":\"x\"}}}", "a/b");
    assertNull(text(row, "reason"));
    assertNull(text(row, "messageId"));
    assertNull(text(row, "payload"));
    assertEquals("yes", text(row, "type"));
    assertEquals("[n, m] [1.0, x]", map(row));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "[1] | Unparseable | expected a JSON object, found an array",
        "`` | Unparseable | it is empty",
        "{\"id\":1,\"id\":1} | Unparseable | key 'id' comes twice in one object",
        "{\"x\":{\"y\":1,\"y\":2}} | Unparseable | key 'y' comes twice in one object",
        "{} {} | Unparseable | something follows the object",
        "{\"id\":\"1\" | Unparseable | the JSON is incomplete",
        "{\"id\":\"1\", | Unparseable | the JSON is incomplete",
        "{\"id\":[1]} | InvalidField | messageId is an array",
        "{\"id\":\"\\udead\"} | InvalidField | messageId holds half of a surrogate pair, which is no character",
        "{\"meta\":{\"headers\":[]}} | InvalidField | headers is an array, expected an object",
        "{\"body\":1,\"base64\":\"MQ==\"} | InvalidField | payload and payloadBase64 are both there",
        "{\"base64\":\"MQ=\"} | InvalidField | payloadBase64 is no base64",
      })
  void whatCannotBeReadHasAReason(String record, String reason, String detail) {
    InternalRow row = read(record, "application/json");
    assertEquals(reason, text(row, "reason"));
    assertEquals(detail, text(row, "detail"));
  }

  @Test
  void membersThatNoPathAsksForAreHeadersWhereTheSpecSaysSo() {
    String spec = "{\"paths\":{\"messageId\":[\"id\"]},\"contentType\":\"a/b\",\"restAsHeaders\":true,\"known\":[]}";
    InternalRow row = invoke("{\"one\":1,\"id\":\"i\",\"none\":null,\"two\":\"[ 2 ]\"}", spec);
    assertEquals("i", text(row, "messageId"));
    assertEquals("[one, two] [1, [ 2 ]]", map(row));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      nullValues = "null",
      value = {
        "\"one\":\"1\",\"two\":true,\"three\":-2147483648,\"four\":2147483647,\"five\":null | null",
        "\"id\":7 | messageId is a number, expected a string",
        "\"id\":true | messageId is a boolean, expected a string",
        "\"x\":{} | attribute 'x' is an object, and neither a string, a boolean nor a whole number of 32 bits",
        "\"x\":[1] | attribute 'x' is an array, and neither a string, a boolean nor a whole number of 32 bits",
        "\"x\":1.0 | attribute 'x' is a number, and neither a string, a boolean nor a whole number of 32 bits",
        "\"x\":1e3 | attribute 'x' is a number, and neither a string, a boolean nor a whole number of 32 bits",
        "\"x\":2147483648 | attribute 'x' is a number, and neither a string, a boolean nor a whole number of 32 bits",
        "\"x\":-2147483649 | attribute 'x' is a number, and neither a string, a boolean nor a whole number of 32 bits",
      })
  void membersOfACloudEventHaveOneOfItsTypes(String members, String detail) {
    String spec = "{\"paths\":{\"messageId\":[\"id\"]},\"contentType\":\"a/b\",\"restAsHeaders\":true,\"known\":[]}";
    InternalRow row = invoke("{" + members + "}", spec);
    assertEquals(detail, text(row, "detail"));
    assertEquals(detail == null ? null : "InvalidField", text(row, "reason"));
  }

  @Test
  void theFirstMemberThatNobodyKnowsIsNamed() {
    String spec = "{\"paths\":{\"messageId\":[\"id\"]},\"contentType\":\"a/b\",\"restAsHeaders\":false,\"known\":[\"k\"]}";
    assertEquals("b", text(invoke("{\"k\":{\"a\":1},\"id\":\"i\",\"b\":1,\"c\":1}", spec), "unknown"));
    assertNull(text(invoke("{\"k\":{\"a\":1},\"id\":\"i\"}", spec), "unknown"));
  }

  @Test
  void aWrongFieldHidesNoOther() {
    InternalRow row = read("{\"meta\":{\"types\":[0,{}]},\"as\":[],\"id\":\"7\",\"base64\":\"?\"}", "a/b");
    assertEquals("type is an object", text(row, "detail"));
    assertEquals("7", text(row, "messageId"));
    assertEquals("?", text(row, "payloadBase64"));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      nullValues = "null",
      value = {
        "{\"id\":\"7\",\"as\":[],\"body\":\"é | 7",
        "{\"id\":70,\"body\":[ | 70",
        "{\"id\":7 | null",
        "{\"id\":\"7 | null",
        "{\"id\":\"7! | null",
        "{\"id\":\"7!\\\" | null",
        "{\"body\":1, | null",
        "{\"id\":\"7\", | 7",
        "{\"id\":\"7\" | 7",
        "{\"id\":\"7\",\"body\":[1, | 7",
        "{\"id\":\"7\",\"body\":tru | 7",
        "{\"id\":\"7\",\"body\":-1.5e | 7",
        "{\"id\":\"7\",\"body\":\"\\u00 | 7",
        "{\"id\":\"7\"} {\"id\":\"8\",\"body\":[ | null",
        "{\"id\":\"7\",\"body\":] | null",
      })
  void theStartOfARecordTellsWhatIsWholeInIt(String start, String id) {
    byte[] bytes = start.getBytes(UTF_8);
    // The last character of the first one is cut in half.
    byte[] cut = start.endsWith("é") ? Arrays.copyOf(bytes, bytes.length - 1) : bytes;
    InternalRow row = envelope.invoke(cut, UTF8String.fromString(SPEC.formatted("a/b")), null);
    assertEquals(id, text(row, "messageId"));
    assertEquals("Unparseable", text(row, "reason"));
  }

  @Test
  void aScalarThatIsNotNamedIsNotRead() {
    Envelope few = new Envelope(StructType.fromDDL("type string"));
    String spec = "{\"paths\":{\"type\":[\"t\"],\"payload\":[\"p\"]},\"contentType\":\"%s\",\"restAsHeaders\":false,\"known\":[]}";
    byte[] record = "{\"t\":\"a\",\"p\":\"b\",\"contentType\":7}".getBytes(UTF_8);
    InternalRow row = few.invoke(record, UTF8String.fromString(spec.formatted("text/plain")), null);
    StructType schema = (StructType) few.resultType();
    assertEquals("a", row.getUTF8String(schema.fieldIndex("type")).toString());
    assertEquals("b", new String(row.getBinary(schema.fieldIndex("payload")), UTF_8));
    assertEquals(8, schema.length());
  }

  @Test
  void aRecordWithinARecordHasTheFields() {
    String inner = "{\"id\":\"7\",\"body\":{ \"é\":1.0}}";
    String quoted = "\"" + inner.replace("\"", "\\\"") + "\"";
    String packed = "\"" + Base64.getEncoder().encodeToString(("{\"m\":" + quoted + "}").getBytes(UTF_8)) + "\"";
    for (String record : List.of("{\"id\":1,\"data\":" + packed + "}", "{\"data\":{\"m\":" + inner + "}}")) {
      InternalRow row = unwrapped(record);
      assertNull(text(row, "reason"));
      assertEquals("7", text(row, "messageId"));
      assertEquals("{ \"é\":1.0}", text(row, "payload"));
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "{\"id\":1} | MissingField | unwrap 1, $.data: it is absent or null",
        "{\"data\":null} | MissingField | unwrap 1, $.data: it is absent or null",
        "{\"data\":[]} | Unparseable | unwrap 1, $.data: it is neither an object nor a string",
        "{\"data\":\"?\"} | Unparseable | unwrap 1, $.data: it is no base64",
        "{\"data\":\"\"} | Unparseable | unwrap 1, $.data: it is empty",
        "{\"data\":{},\"data\":{}} | Unparseable | key 'data' comes twice in one object",
        "{\"data\":{\"m\":\"{\"}} | Unparseable | unwrap 2, $.m: the JSON is incomplete",
        "{\"data\":{\"m\":\"1\"}} | Unparseable | unwrap 2, $.m: expected a JSON object, found a number",
        "{\"data\":{\"m\":\"{}{}\"}} | Unparseable | unwrap 2, $.m: something follows the object",
        "{\"data\":{\"m\":\"\\udead\"}} | Unparseable | unwrap 2, $.m: it holds half of a surrogate pair, which is no character",
        "{\"data\":{\"m\":{\"id\":[]}}} | InvalidField | messageId is an array",
        "{\"data\":{\"m\":{}}} {} | Unparseable | something follows the document",
      })
  void aRecordThatIsNotWithinIsRefusedWithTheStep(String record, String reason, String detail) {
    InternalRow row = unwrapped(record);
    assertEquals(reason, text(row, "reason"));
    assertEquals(detail, text(row, "detail"));
  }

  private InternalRow unwrapped(String record) {
    String steps = "[{\"path\":[\"data\"],\"text\":\"$.data\",\"base64\":true},{\"path\":[\"m\"],\"text\":\"$.m\",\"base64\":false}]";
    String spec = SPEC.formatted("a/json").replace("\"known\": []", "\"known\": [], \"unwrap\": " + steps);
    return envelope.invoke(record.getBytes(UTF_8), UTF8String.fromString(spec), null);
  }

  private InternalRow read(String record, String contentType) {
    return invoke(record, SPEC.formatted(contentType));
  }

  private InternalRow invoke(String record, String spec) {
    return envelope.invoke(record.getBytes(UTF_8), UTF8String.fromString(spec), null);
  }

  private String text(InternalRow row, String name) {
    StructType schema = (StructType) envelope.resultType();
    int i = schema.fieldIndex(name);
    if (row.isNullAt(i)) {
      return null;
    }
    Object value = row.get(i, schema.fields()[i].dataType());
    return value instanceof byte[] bytes ? new String(bytes, UTF_8) : value.toString();
  }

  private String map(InternalRow row) {
    var map = row.getMap(((StructType) envelope.resultType()).fieldIndex("headers"));
    var type = org.apache.spark.sql.types.DataTypes.StringType;
    return java.util.Arrays.toString(map.keyArray().toObjectArray(type)) + " "
        + java.util.Arrays.toString(map.valueArray().toObjectArray(type));
  }
}
