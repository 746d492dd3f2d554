package dev.messagestore.spark;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_16LE;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.util.HexFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
  @ParameterizedTest
  @ValueSource(
      strings = {
        "{}", "[]", "\"\"", "0", "-0", "1.5e+10", "1E400", "null", "true", " [ 1 , 2 ]\r\n\t", "{\"\":{\"\":0}}", "\"\\ud800\"",
        "\"\\u0000\"", "\"\u007f\"", "\"\u2028\"", "[{\"a\":1},{\"a\":2}]", "123456789012345678901234567890.5"
      })
  void whatRfc8259TakesIsJson(String text) {
    assertTrue(isJson(text));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "", " ", "nul", "True", "NaN", "Infinity", "+1", "01", ".5", "1.", "1e", "0x1", "'a'", "{a:1}", "[1,]", "{\"a\":1,}",
        "[1 2]", "{} {}", "{}x", "1 2", "\"\t\"", "\"\n\"", "\"\\x\"", "\"\\u12\"", "\"", "[", "{\"a\"", "//\n1", "/**/1", "#\n1",
        "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":1}", "\u00a01", "\u000c1", "\ufeff{}", "1\u0000", "\u00001"
      })
  void whatItDoesNotTakeIsNone(String text) {
    assertFalse(isJson(text));
  }

  /** Texts of json.txt, which a test of the writer reads, too. */
  static Stream<Arguments> texts() throws IOException {
    try (InputStream file = JsonTest.class.getResourceAsStream("/json.txt")) {
      return new String(file.readAllBytes(), UTF_8).lines().filter(line -> !line.startsWith("#"))
          .map(line -> line.split("\t", 2)).map(parts -> Arguments.of(parts[0], parts[1]));
    }
  }

  @ParameterizedTest
  @MethodSource("texts")
  void eachKindOfTextIsTakenOrRefused(String kind, String text) {
    String plain = Pattern.compile("<([0-9a-f]{2})>").matcher(text)
        .replaceAll(hex -> Matcher.quoteReplacement(Character.toString(Integer.parseInt(hex.group(1), 16))));
    assertEquals(!kind.endsWith("-"), new JsonFunctions.IsJson("is_json", false).invoke(plain.getBytes(ISO_8859_1)));
  }

  @ParameterizedTest
  @ValueSource(strings = {"22c3 28 22", "22 ff 22", "22 c0 af 22", "22 ed a0 80 22", "22 f4 90 80 80 22", "22 e2 82 22"})
  void bytesThatAreNoUtf8AreNone(String hex) {
    assertFalse(new JsonFunctions.IsJson("is_json", false).invoke(HexFormat.of().parseHex(hex.replace(" ", ""))));
  }

  @Test
  void anotherEncodingIsNone() {
    assertFalse(new JsonFunctions.IsJson("is_json", false).invoke("[1]".getBytes(UTF_16LE)));
  }

  @Test
  void aKeyIsTheOnlyOneOfItsNameHoweverManyThereAre() {
    for (int keys = 1; keys <= 40; keys++) {
      for (int again = 0; again <= keys; again++) {
        String last = again == keys ? "" : ",\"k" + again + "\":{}";
        String object = IntStream.range(0, keys).mapToObj(i -> "\"k" + i + "\":{\"k0\":0}").collect(Collectors.joining(","));
        assertEquals(again == keys, isJson("[{" + object + last + "},{" + object + "}]"), keys + " keys and " + last);
      }
    }
  }

  @Test
  void nestingEndsAtAThousandInARecordWithItsMembers() {
    String deepest = "[".repeat(1000) + "]".repeat(1000);
    String member = deepest.substring(1, deepest.length() - 1);
    assertTrue(isJson(deepest));
    assertFalse(isJson("[" + deepest + "]"));
    assertTrue(new JsonFunctions.IsJson("is_json_member", true).invoke(member.getBytes(UTF_8)));
    assertFalse(new JsonFunctions.IsJson("is_json_member", true).invoke(deepest.getBytes(UTF_8)));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "$.a | {\"b\":2,\"a\": 1.50e1 } | 1.50e1",
        "$.a | {\"a\":\"x\\u00e9\\n\"} | `xé\n`",
        "$.a | {\"a\":{ \"b\" : [1 , 2] }} | { \"b\" : [1 , 2] }",
        "$.a[1].b | {\"a\":[0,{\"b\":true}]} | true",
        "$['a.b\\'c'] | {\"a.b'c\":\"\"} | ``",
        "$.a | {\"a\":null} |",
        "$.a | {\"b\":1} |",
        "$.a | {\"a\":1,\"b\":1,\"b\":2} |",
        "$.a | {\"a\":1} x |",
        "$.a | {\"a\":\"\\ud800\"} |",
      })
  void whatLiesAtAPathIsItsExactText(String path, String document, String due) {
    UTF8String found = new JsonFunctions.JsonText().invoke(document.getBytes(UTF_8), UTF8String.fromString(path));
    if (due == null) {
      assertNull(found);
    } else {
      assertEquals(due, found.toString());
    }
  }

  private static boolean isJson(String text) {
    return new JsonFunctions.IsJson("is_json", false).invoke(text.getBytes(UTF_8));
  }
}
