package dev.messagestore.spark;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/**
 * What a run uses until it is closed: CPU time of this JVM and of executors' tasks, and bytes that tasks write.
 *
 * <p>Bytes that tasks read are not among it: Spark doesn't count what other threads read for a task, and most of Parquet
 * is read so.
 */
public final class RunUsage extends SparkListener {
  private static final String DRIVER = "driver";
  private static final long LAST_EVENTS_MILLIS = 2_000;

  private final SparkContext context;
  private final long nanosBefore;
  private long nanosOfExecutors;
  private long bytesWritten;

  /**
   * @param begun when the run began, in milliseconds since 1970; a JVM that started later is all the run's own
   */
  public RunUsage(SparkContext context, long begun) {
    this.context = context;
    nanosBefore = ManagementFactory.getRuntimeMXBean().getStartTime() < begun ? nanosOfProcess() : 0;
    context.addSparkListener(this);
  }

  @Override
  public synchronized void onTaskEnd(SparkListenerTaskEnd end) {
    TaskMetrics metrics = end.taskMetrics();
    if (metrics == null) {
      return;
    }
    if (!DRIVER.equals(end.taskInfo().executorId())) {
      nanosOfExecutors += metrics.executorCpuTime() + metrics.executorDeserializeCpuTime();
    }
    bytesWritten += metrics.outputMetrics().bytesWritten();
  }

  /** Count no longer; tasks that have ended are counted, unless Spark is too busy to tell of them. */
  public void close() {
    try {
      context.listenerBus().waitUntilEmpty(LAST_EVENTS_MILLIS);
    } catch (TimeoutException e) {
      // What is counted so far is about right.
    }
    context.removeSparkListener(this);
  }

  public long nanosOfJvm() {
    return nanosOfProcess() - nanosBefore;
  }

  public synchronized long nanosOfExecutors() {
    return nanosOfExecutors;
  }

  public synchronized long bytesWritten() {
    return bytesWritten;
  }

  private static long nanosOfProcess() {
    return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
  }
}
