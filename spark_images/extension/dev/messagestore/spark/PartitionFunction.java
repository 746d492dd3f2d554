package dev.messagestore.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code partition(path string, name string)}: the value of a partition in the path of a file, whose folders are named as
 * Hive names them ({@code dt=2026-03-01}), with escapes decoded as Hive and Spark do; null for Hive's name of null, and if
 * there is no such folder. Of several, the first counts.
 */
public final class PartitionFunction extends CatalogFunction<UTF8String> {
  PartitionFunction() {
    super("partition", DataTypes.StringType, DataTypes.StringType, DataTypes.StringType);
  }

  /** Called by generated code. */
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
