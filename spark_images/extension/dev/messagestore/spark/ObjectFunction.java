package dev.messagestore.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.util.functional.FutureIO;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;

/** A function over objects that rows name: executors read and write them, so no content passes through the driver. */
public abstract class ObjectFunction<T> extends CatalogFunction<T> {
  private static final Map<String, Supplier<CatalogFunction<?>>> NAMED =
      Map.of("read_object", ReadObject::new, "has_object", HasObject::new, "write_object", WriteObject::new);

  private final SerializableConfiguration conf =
      new SerializableConfiguration(SparkSession.active().sessionState().newHadoopConf());

  ObjectFunction(String name, DataType result, DataType... inputs) {
    super(name, result, inputs);
  }

  /** The function of a name, with the session's file systems; null if there is no such function. */
  static CatalogFunction<?> named(String name) {
    Supplier<CatalogFunction<?>> function = NAMED.get(name);
    return function == null ? null : function.get();
  }

  /** False: Spark would evaluate a deterministic function again wherever its result is used. */
  @Override
  public boolean isDeterministic() {
    return false;
  }

  FileSystem files(Path path) throws IOException {
    return path.getFileSystem(conf.value());
  }

  /** The status of an object; null if there is no object. */
  FileStatus status(Path path) throws IOException {
    try {
      FileStatus status = files(path).getFileStatus(path);
      return status.isFile() ? status : null;
    } catch (FileNotFoundException e) {
      return null;
    }
  }

  /** {@code read_object(uri string, most long)}: its bytes; null if it doesn't exist or has more than {@code most}. */
  public static final class ReadObject extends ObjectFunction<byte[]> {
    private static final int MOST_BYTES = Integer.MAX_VALUE - 8;

    ReadObject() {
      super("read_object", DataTypes.BinaryType, DataTypes.StringType, DataTypes.LongType);
    }

    public byte[] invoke(UTF8String uri, long most) throws IOException {
      Path path = new Path(uri.toString());
      FileStatus status = status(path);
      if (status == null || status.getLen() > Math.min(most, MOST_BYTES)) {
        return null;
      }
      byte[] content = new byte[(int) status.getLen()];
      // With the status, S3A opens it without another request.
      try (FSDataInputStream in = FutureIO.awaitFuture(files(path).openFile(path).withFileStatus(status).build())) {
        in.readFully(content);
        return content;
      } catch (FileNotFoundException e) {
        return null;
      }
    }
  }

  /** {@code has_object(uri string)}: whether it exists. */
  public static final class HasObject extends ObjectFunction<Boolean> {
    HasObject() {
      super("has_object", DataTypes.BooleanType, DataTypes.StringType);
    }

    public boolean invoke(UTF8String uri) throws IOException {
      return status(new Path(uri.toString())) != null;
    }
  }

  /** {@code write_object(uri string, content binary)}: writes or replaces it; returns the number of bytes. */
  public static final class WriteObject extends ObjectFunction<Long> {
    WriteObject() {
      super("write_object", DataTypes.LongType, DataTypes.StringType, DataTypes.BinaryType);
    }

    public long invoke(UTF8String uri, byte[] content) throws IOException {
      Path path = new Path(uri.toString());
      // For S3A: no requests for what may be there before.
      FSDataOutputStreamBuilder<?, ?> creating = files(path).createFile(path);
      creating.recursive().overwrite(true).opt("fs.s3a.create.performance", true);
      FSDataOutputStream out = creating.build();
      try {
        out.write(content);
      } catch (IOException | RuntimeException e) {
        // To close a stream of S3A would put what it has got so far.
        if (out.hasCapability(StreamCapabilities.ABORTABLE_STREAM)) {
          out.abort();
        } else {
          out.close();
        }
        throw e;
      }
      out.close();
      return content.length;
    }
  }
}
