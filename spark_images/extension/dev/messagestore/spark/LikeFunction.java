package dev.messagestore.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code like(text string, pattern string)}: SQL's LIKE with backslash as the escape character. Each part between two
 * {@code %} is searched once, from the left: Spark's own LIKE is a regular expression that backtracks over all of them.
 */
public final class LikeFunction extends CatalogFunction<Boolean> {
  private static final int ANY_ONE = -1;

  private final Parsed<UTF8String, List<int[]>> parsed = new Parsed<>();

  LikeFunction() {
    super("like", DataTypes.BooleanType, DataTypes.StringType, DataTypes.StringType);
  }

  /** Called by generated code. */
  public Boolean invoke(UTF8String text, UTF8String pattern) {
    if (text == null || pattern == null) {
      return null;
    }
    return matches(text.toString().codePoints().toArray(), parsed.of(pattern, UTF8String::copy, LikeFunction::parts));
  }

  /** The parts before, between and after the {@code %}: code points, or {@link #ANY_ONE}. */
  private static List<int[]> parts(UTF8String pattern) {
    List<int[]> parts = new ArrayList<>();
    int[] signs = pattern.toString().codePoints().toArray();
    int[] part = new int[signs.length];
    int length = 0;
    for (int i = 0; i < signs.length; i++) {
      if (signs[i] == '%') {
        parts.add(Arrays.copyOf(part, length));
        length = 0;
      } else if (signs[i] == '\\' && i + 1 < signs.length) {
        part[length++] = signs[++i];
      } else {
        part[length++] = signs[i] == '_' ? ANY_ONE : signs[i];
      }
    }
    parts.add(Arrays.copyOf(part, length));
    return parts;
  }

  private static boolean matches(int[] text, List<int[]> parts) {
    int[] first = parts.get(0);
    int[] last = parts.get(parts.size() - 1);
    if (parts.size() == 1) {
      return text.length == first.length && isAt(text, 0, first);
    }
    int end = text.length - last.length;
    if (end < first.length || !isAt(text, 0, first) || !isAt(text, end, last)) {
      return false;
    }
    int at = first.length;
    for (int[] part : parts.subList(1, parts.size() - 1)) {
      while (at + part.length <= end && !isAt(text, at, part)) {
        at++;
      }
      at += part.length;
      if (at > end) {
        return false;
      }
    }
    return true;
  }

  private static boolean isAt(int[] text, int at, int[] part) {
    for (int i = 0; i < part.length; i++) {
      if (part[i] != ANY_ONE && part[i] != text[at + i]) {
        return false;
      }
    }
    return true;
  }
}
