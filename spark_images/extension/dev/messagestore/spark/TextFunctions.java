package dev.messagestore.spark;

import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.shaded.com.google.re2j.Matcher;
import org.apache.hadoop.shaded.com.google.re2j.Pattern;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Functions of texts. */
public final class TextFunctions {
  private TextFunctions() {}

  /**
   * {@code time(text string)}: an RFC 3339 time (section 5.6) in the years 1 to 9999, to the microsecond; null for other
   * texts. Spark's own cast accepts many other forms, and a pattern before it costs more than the cast.
   */
  public static final class Time extends CatalogFunction<Long> {
    private static final String FORM = "dddd-dd-ddTdd:dd:dd";
    private static final long FIRST = TimeUnit.SECONDS.toMicros(LocalDate.of(1, 1, 1).toEpochDay() * 86_400);
    private static final long END = TimeUnit.SECONDS.toMicros(LocalDate.of(10_000, 1, 1).toEpochDay() * 86_400);
    private static final int MOST_FRACTION_DIGITS = 9;
    private static final int LARGEST_OFFSET = 18 * 60;

    Time() {
      super("time", DataTypes.TimestampType, DataTypes.StringType);
    }

    /** Microseconds since 1970. */
    public Long invoke(UTF8String text) {
      if (text == null || !hasForm(text)) {
        return null;
      }
      int zone = fractionEnd(text);
      Integer offset = zone < 0 ? null : offsetMinutes(text, zone);
      int hour = number(text, 11, 2);
      int minute = number(text, 14, 2);
      int second = number(text, 17, 2);
      if (offset == null || hour > 23 || minute > 59 || second > 59) {
        return null;
      }
      try {
        long day = LocalDate.of(number(text, 0, 4), number(text, 5, 2), number(text, 8, 2)).toEpochDay();
        long seconds = day * 86_400 + hour * 3600 + (minute - offset) * 60 + second;
        long moment = TimeUnit.SECONDS.toMicros(seconds) + fraction(text, zone);
        return moment < FIRST || moment >= END ? null : moment;
      } catch (DateTimeException e) {
        return null;
      }
    }

    private static boolean hasForm(UTF8String text) {
      if (text.numBytes() <= FORM.length()) {
        return false;
      }
      for (int i = 0; i < FORM.length(); i++) {
        char due = FORM.charAt(i);
        byte b = text.getByte(i);
        if (!(due == 'd' ? isDigit(b) : due == 'T' ? b == 'T' || b == 't' || b == ' ' : b == due)) {
          return false;
        }
      }
      return true;
    }

    /** Where the zone begins; -1 if the fraction is invalid. */
    private static int fractionEnd(UTF8String text) {
      int i = FORM.length();
      if (text.getByte(i) != '.') {
        return i;
      }
      int start = ++i;
      while (i < text.numBytes() && isDigit(text.getByte(i))) {
        i++;
      }
      return i > start && i - start <= MOST_FRACTION_DIGITS && i < text.numBytes() ? i : -1;
    }

    private static Integer offsetMinutes(UTF8String text, int at) {
      byte sign = text.getByte(at);
      if (text.numBytes() == at + 1 && (sign == 'Z' || sign == 'z')) {
        return 0;
      }
      if (text.numBytes() != at + 6 || sign != '+' && sign != '-' || text.getByte(at + 3) != ':') {
        return null;
      }
      for (int i : new int[] {1, 2, 4, 5}) {
        if (!isDigit(text.getByte(at + i))) {
          return null;
        }
      }
      int minutes = number(text, at + 1, 2) * 60 + number(text, at + 4, 2);
      boolean valid = minutes <= LARGEST_OFFSET && number(text, at + 4, 2) <= 59;
      return !valid ? null : sign == '-' ? -minutes : minutes;
    }

    /** The fraction in microseconds; further digits are cut off. */
    private static long fraction(UTF8String text, int zone) {
      long micros = 0;
      for (int i = 0; i < 6; i++) {
        int at = FORM.length() + 1 + i;
        micros = micros * 10 + (at < zone ? text.getByte(at) - '0' : 0);
      }
      return micros;
    }

    private static int number(UTF8String text, int from, int digits) {
      int n = 0;
      for (int i = from; i < from + digits; i++) {
        n = n * 10 + text.getByte(i) - '0';
      }
      return n;
    }

    private static boolean isDigit(byte b) {
      return b >= '0' && b <= '9';
    }
  }

  /**
   * {@code like(text string, pattern string)}: SQL's LIKE with backslash as the escape character. Each part between two
   * {@code %} is searched once, from the left: Spark's own LIKE is a regular expression that backtracks over all of them.
   */
  public static final class Like extends CatalogFunction<Boolean> {
    private static final int ANY_ONE = -1;

    private final Parsed<UTF8String, List<int[]>> parsed = new Parsed<>();

    Like() {
      super("like", DataTypes.BooleanType, DataTypes.StringType, DataTypes.StringType);
    }

    public Boolean invoke(UTF8String text, UTF8String pattern) {
      if (text == null || pattern == null) {
        return null;
      }
      return matches(text.toString().codePoints().toArray(), parsed.of(pattern, UTF8String::copy, Like::parts));
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

  /**
   * {@code group(text string, pattern string)}: what the one group of an RE2 pattern matches in a text; null if it matches
   * nothing. RE2 takes linear time, whatever the pattern; Spark's own expressions backtrack. It is the one that Hadoop has.
   */
  public static final class Group extends CatalogFunction<UTF8String> {
    private final Parsed<UTF8String, Pattern> parsed = new Parsed<>();

    Group() {
      super("group", DataTypes.StringType, DataTypes.StringType, DataTypes.StringType);
    }

    public UTF8String invoke(UTF8String text, UTF8String pattern) {
      if (text == null) {
        return null;
      }
      Matcher match = parsed.of(pattern, UTF8String::copy, p -> Pattern.compile(p.toString())).matcher(text.toString());
      return match.find() ? UTF8String.fromString(match.group(1)) : null;
    }
  }

  /**
   * {@code partition(path string, name string)}: the value of a partition in the path of a file, whose folders are named as
   * Hive names them ({@code dt=2026-03-01}), with escapes decoded as Hive and Spark do; null for Hive's name of null, and if
   * there is no such folder. Of several, the first counts.
   */
  public static final class Partition extends CatalogFunction<UTF8String> {
    Partition() {
      super("partition", DataTypes.StringType, DataTypes.StringType, DataTypes.StringType);
    }

    public UTF8String invoke(UTF8String path, UTF8String name) {
      if (path == null) {
        return null;
      }
      List<String> folders = new ArrayList<>(List.of(path.toString().split("/")));
      folders.remove(folders.size() - 1);
      for (String folder : folders) {
        int equals = folder.indexOf('=');
        if (equals > 0 && ExternalCatalogUtils.unescapePathName(folder.substring(0, equals)).equals(name.toString())) {
          String value = folder.substring(equals + 1);
          boolean isNull = value.equals(ExternalCatalogUtils.DEFAULT_PARTITION_NAME());
          return isNull ? null : UTF8String.fromString(ExternalCatalogUtils.unescapePathName(value));
        }
      }
      return null;
    }
  }
}
