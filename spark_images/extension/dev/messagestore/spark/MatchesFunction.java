package dev.messagestore.spark;

import com.google.re2j.Pattern;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code matches(text string, pattern string)}: whether the text contains a match of the RE2 pattern, in a time linear in
 * the text's length. The JDK's engine, which Spark's RLIKE uses, backtracks: for ever on some texts, until the stack
 * overflows on others.
 */
public final class MatchesFunction extends CatalogFunction<Boolean> {
  private final Parsed<UTF8String, Pattern> parsed = new Parsed<>();

  MatchesFunction() {
    super("matches", DataTypes.BooleanType, DataTypes.StringType, DataTypes.StringType);
  }

  /** Called by generated code. */
  public Boolean invoke(UTF8String text, UTF8String pattern) {
    if (text == null || pattern == null) {
      return null;
    }
    return parsed.of(pattern, UTF8String::copy, p -> Pattern.compile(p.toString())).matcher(text.getBytes()).find();
  }
}
