package dev.messagestore.spark;

import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.types.DataTypes;

/**
 * {@code within(size bigint, budget bigint)}: whether all sizes that a task has asked for so far, this one included, are no
 * more than the budget together. A size that is too much is not counted, so that smaller ones behind it may fit.
 */
public final class WithinFunction extends CatalogFunction<Boolean> {
  private static final Map<TaskContext, long[]> SPENT = Collections.synchronizedMap(new WeakHashMap<>());

  WithinFunction() {
    super("within", DataTypes.BooleanType, DataTypes.LongType, DataTypes.LongType);
  }

  /** What it says of one row hangs on those before it. */
  @Override
  public boolean isDeterministic() {
    return false;
  }

  /** Called by generated code. */
  public boolean invoke(long size, long budget) {
    long[] spent = SPENT.computeIfAbsent(TaskContext.get(), task -> new long[1]);
    if (size > budget - spent[0]) {
      return false;
    }
    spent[0] += size;
    return true;
  }
}
