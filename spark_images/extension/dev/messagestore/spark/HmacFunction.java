package dev.messagestore.spark;

import java.security.GeneralSecurityException;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** {@code hmac_sha256(value binary, key string)}: the keyed hash, in hex; {@code key} names the key's variable. */
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
}
