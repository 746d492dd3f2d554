package dev.messagestore.spark;

import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code time(text string)}: an RFC 3339 time (section 5.6) in the years 1 to 9999, to the microsecond; null for other
 * texts. Spark's own cast accepts many other forms, and a pattern before it costs more than the cast.
 */
public final class TimeFunction extends CatalogFunction<Long> {
  private static final String FORM = "dddd-dd-ddTdd:dd:dd";
  private static final long FIRST = TimeUnit.SECONDS.toMicros(LocalDate.of(1, 1, 1).toEpochDay() * 86_400);
  private static final long END = TimeUnit.SECONDS.toMicros(LocalDate.of(10_000, 1, 1).toEpochDay() * 86_400);
  private static final int MOST_FRACTION_DIGITS = 9;
  private static final int LARGEST_OFFSET = 18 * 60;

  TimeFunction() {
    super("time", DataTypes.TimestampType, DataTypes.StringType);
  }

  /** Called by generated code; microseconds since 1970. */
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
