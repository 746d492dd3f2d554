package dev.messagestore.spark;

import java.io.Serializable;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A key that an argument names by its environment variable. It is read where it is used, on the driver and on executors, so
 * that it stands in no plan, setting or log.
 */
final class KeyVariable implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final char UNREADABLE = '\uFFFD';

  private final Parsed<UTF8String, byte[]> read = new Parsed<>();

  /** The bytes of the key; they are nobody's to change. */
  byte[] of(UTF8String variable) {
    return read.of(variable, UTF8String::copy, KeyVariable::read);
  }

  private static byte[] read(UTF8String variable) {
    String value = System.getenv(variable.toString());
    if (value == null || value.isEmpty()) {
      throw new IllegalStateException("variable " + variable + " holds no key");
    }
    if (value.indexOf(UNREADABLE) >= 0) {
      // By another key than the one that is meant, seals would be made that nobody else finds right.
      throw new IllegalStateException("variable " + variable + " is no text of this process's locale; set LANG=C.UTF-8");
    }
    return UTF8String.fromString(value).getBytes();
  }
}
