package dev.messagestore.spark;

import java.io.IOException;

/** A commit was refused because the table has been given to a newer run. */
public final class FencedException extends IOException {
  FencedException(String message) {
    super(message);
  }
}
