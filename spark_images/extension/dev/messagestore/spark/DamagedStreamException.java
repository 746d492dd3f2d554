package dev.messagestore.spark;

import java.io.IOException;

/** A compressed file can't be read on; the message says why. What came before is as it was packed. */
final class DamagedStreamException extends IOException {
  DamagedStreamException(String message) {
    super(message);
  }
}
