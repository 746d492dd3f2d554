package dev.messagestore.spark;

import java.io.Serializable;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * What a function's argument means, parsed once: it is a literal, and mostly one object for all records of a task, so that
 * it need not be compared with what was parsed.
 */
final class Parsed<A, V> implements Serializable {
  private static final long serialVersionUID = 1L;

  private transient volatile Known<A, V> known;

  /** The copy is of what was given, whose memory may be used again. */
  private record Known<A, V>(A given, A copy, V value) {}

  V of(A given, UnaryOperator<A> copy, Function<A, V> parse) {
    Known<A, V> k = known;
    if (k == null || (k.given() != given && !k.copy().equals(given))) {
      k = new Known<>(given, copy.apply(given), parse.apply(given));
      known = k;
    }
    return k.value();
  }
}
