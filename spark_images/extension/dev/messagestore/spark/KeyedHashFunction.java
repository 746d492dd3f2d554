package dev.messagestore.spark;

import java.io.Serializable;
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
 * function; executors get the key with it, and no plan, setting or log contains the key. Beside it, the HMAC with a key
 * from the environment.
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

  public byte[] invoke(UTF8String text) {
    return text == null ? null : Arrays.copyOf(macs().get().doFinal(text.getBytes()), BYTES);
  }

  private ThreadLocal<Mac> macs() {
    if (macs == null) {
      macs = ThreadLocal.withInitial(() -> mac(key));
    }
    return macs;
  }

  private static Mac mac(byte[] key) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      return mac;
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  static String hex(byte[] value, byte[] key) {
    return HexFormat.of().formatHex(mac(key).doFinal(value));
  }

  /** {@code hmac_sha256(value binary, key string)}: the HMAC in hex; {@code key} names the key's environment variable. */
  public static final class Hmac extends CatalogFunction<UTF8String> {
    private final KeyVariable keys = new KeyVariable();

    Hmac() {
      super("hmac_sha256", DataTypes.StringType, DataTypes.BinaryType, DataTypes.StringType);
    }

    public UTF8String invoke(byte[] value, UTF8String key) {
      return value == null ? null : UTF8String.fromString(hex(value, keys.of(key)));
    }
  }

  /**
   * A key whose environment variable an argument names. It is read where it is used, on the driver and on executors, so
   * that no plan, setting or log contains it.
   */
  static final class KeyVariable implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final char UNREADABLE = '\uFFFD';

    private final Parsed<UTF8String, byte[]> read = new Parsed<>();

    /** The bytes of the key; callers must not change them. */
    byte[] of(UTF8String variable) {
      return read.of(variable, UTF8String::copy, KeyVariable::read);
    }

    private static byte[] read(UTF8String variable) {
      String value = System.getenv(variable.toString());
      if (value == null || value.isEmpty()) {
        throw new IllegalStateException("variable " + variable + " holds no key");
      }
      if (value.indexOf(UNREADABLE) >= 0) {
        // Seals with a wrongly decoded key would be invalid for others.
        throw new IllegalStateException("variable " + variable + " is no text of this process's locale; set LANG=C.UTF-8");
      }
      return UTF8String.fromString(value).getBytes();
    }
  }
}
