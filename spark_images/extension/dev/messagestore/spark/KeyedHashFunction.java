package dev.messagestore.spark;

import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code keyed_…(text string)}: the first 16 bytes of a text's HMAC-SHA256, with a key from the driver. A plan names the
 * function; executors get the key with it, and no plan, setting or log contains the key.
 */
public final class KeyedHashFunction extends CatalogFunction<byte[]> {
  private static final String PREFIX = "keyed_";
  private static final int BYTES = 16;
  private static final Map<String, KeyedHashFunction> GIVEN = new ConcurrentHashMap<>();

  private final byte[] key;
  private transient ThreadLocal<Mac> macs;

  private KeyedHashFunction(String name, byte[] key) {
    super(name, DataTypes.BinaryType, DataTypes.StringType);
    this.key = key.clone();
  }

  /** Registers a key; returns the name of the function that hashes with it. */
  public static String given(byte[] key) throws GeneralSecurityException {
    byte[] digest = MessageDigest.getInstance("SHA-256").digest(key);
    String name = PREFIX + HexFormat.of().formatHex(digest, 0, Long.BYTES);
    GIVEN.computeIfAbsent(name, n -> new KeyedHashFunction(n, key));
    return name;
  }

  /** The function of a name; null if no key is registered for it. */
  static KeyedHashFunction named(String name) {
    return GIVEN.get(name);
  }

  /** Called by generated code. */
  public byte[] invoke(UTF8String text) {
    return text == null ? null : Arrays.copyOf(macs().get().doFinal(text.getBytes()), BYTES);
  }

  private ThreadLocal<Mac> macs() {
    if (macs == null) {
      macs = ThreadLocal.withInitial(this::mac);
    }
    return macs;
  }

  private Mac mac() {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      return mac;
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }
}
