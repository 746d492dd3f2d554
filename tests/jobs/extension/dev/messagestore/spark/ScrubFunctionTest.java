package dev.messagestore.spark;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ScrubFunctionTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "Redact | $.a     | { \"a\" : [1, 2] ,\"b\":1.50 } | { \"a\" : \"gone\" ,\"b\":1.50 }",
        "Redact | $.a.b   | {\"a\":[{\"b\":1}],\"b\":2}    | {\"a\":[{\"b\":1}],\"b\":2}",
        "Redact | $.a[1]  | {\"a\":[ 1 , \"\\\"\" , 3]}    | {\"a\":[ 1 , \"gone\" , 3]}",
        "Redact | $.a     | {\"\\u0061\":1}                | {\"\\u0061\":\"gone\"}",
        "Redact | $.a     | {\"a\":null}                   | {\"a\":null}",
        "Redact | $       | [1]                            | \"gone\"",
        "Drop   | $.a[1]  | {\"a\":[1, 2 ,3]}              | {\"a\":[1, null ,3]}",
        "Drop   | $.a     | {\"b\":{\"a\":1}, \"a\" : 2 }  | {\"b\":{\"a\":1} }",
        "Drop   | $       | [1]                            |",
        "Redact | $.a     | {\"a\":1                       |",
        "Redact | $.a     | {\"a\":1} 2                    |",
      })
  void whatLiesAtAPathLeavesAndAllElseStaysAsItWas(String method, String path, String document, String due) {
    assertEquals(due, scrubbed(document, method, path));
  }

  @Test
  void whateverMembersAreDroppedTheRestIsJson() {
    List<String> members = List.of("\"a\":1", "\"b\" : [ 2 ]", "\"c\":\"},\"", "\"d\": null", "\"e\":{\"a\":5}");
    for (int set = 0; set < 1 << members.size(); set++) {
      List<String> paths = new ArrayList<>(List.of("$.none"));
      List<String> left = new ArrayList<>();
      for (int i = 0; i < members.size(); i++) {
        if ((set >> i & 1) == 1) {
          paths.add("$." + (char) ('a' + i));
        } else {
          left.add(members.get(i).replace(" ", ""));
        }
      }
      String document = "{ " + String.join(" ,\n", members) + " }";
      String result = scrubbed(document, "Drop", paths.toArray(String[]::new));
      assertTrue(new JsonFunctions.IsJson("is_json", false).invoke(result.getBytes(UTF_8)), result);
      assertEquals("{" + String.join(",", left) + "}", result.replaceAll("[ \n]", ""));
    }
  }

  @Test
  void aKeyThatIsThereTwiceIsScrubbedTwice() {
    String result = scrubbed("{\"a\":\"secret\",\"a\":\"secret\"}", "Redact", "$.a");
    assertFalse(result == null || result.contains("secret"), result);
  }

  @Test
  void withoutADocumentThereIsNone() {
    assertNull(new ScrubFunction().invoke(null, null, null, null));
  }

  private static String scrubbed(String document, String method, String... paths) {
    Object[] texts = Arrays.stream(paths).map(UTF8String::fromString).toArray();
    byte[] result =
        new ScrubFunction()
            .invoke(
                document.getBytes(UTF_8),
                new GenericArrayData(texts),
                UTF8String.fromString(method),
                UTF8String.fromString("gone"));
    return result == null ? null : new String(result, UTF_8);
  }
}
