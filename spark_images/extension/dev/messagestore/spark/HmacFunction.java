package dev.messagestore.spark;

import java.io.Serializable;
import java.security.GeneralSecurityException;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** {@code hmac_sha256(value binary, key string)}: the HMAC in hex; {@code key} names the key's environment variable. */
public final class HmacFunction extends CatalogFunction<UTF8String> {
  private final KeyVariable keys = new KeyVariable();

  HmacFunction() {
    super("hmac_sha256", DataTypes.StringType, DataTypes.BinaryType, DataTypes.StringType);
  }

  /** Called by generated code. */
  public UTF8String invoke(byte[] value, UTF8String key) {
    return value == null ? null : UTF8String.fromString(hex(value, keys.of(key)));
  }

  static String hex(byte[] value, byte[] key) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      return HexFormat.of().formatHex(mac.doFinal(value));
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
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
