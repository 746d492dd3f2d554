package dev.messagestore.spark;

import org.apache.hadoop.shaded.com.google.re2j.Matcher;
import org.apache.hadoop.shaded.com.google.re2j.Pattern;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code group(text string, pattern string)}: what the one group of an RE2 pattern matches in a text; null if it matches
 * nothing. RE2 takes linear time, whatever the pattern; Spark's own expressions backtrack. It is the one that Hadoop has.
 */
public final class GroupFunction extends CatalogFunction<UTF8String> {
  private final Parsed<UTF8String, Pattern> parsed = new Parsed<>();

  GroupFunction() {
    super("group", DataTypes.StringType, DataTypes.StringType, DataTypes.StringType);
  }

  /** Called by generated code. */
  public UTF8String invoke(UTF8String text, UTF8String pattern) {
    if (text == null) {
      return null;
    }
    Matcher match = parsed.of(pattern, UTF8String::copy, p -> Pattern.compile(p.toString())).matcher(text.toString());
    return match.find() ? UTF8String.fromString(match.group(1)) : null;
  }
}
