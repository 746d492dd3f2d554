package dev.messagestore.spark;

import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.types.DataTypes;

/**
 * {@code within(size bigint, budget bigint)}: whether the sum of a task's sizes so far, including this one, is within the
 * budget. A size that doesn't fit is not counted, so that later, smaller ones may fit.
 */
public final class WithinFunction extends CatalogFunction<Boolean> {
  private static final Map<TaskContext, long[]> SPENT = Collections.synchronizedMap(new WeakHashMap<>());

  WithinFunction() {
    super("within", DataTypes.BooleanType, DataTypes.LongType, DataTypes.LongType);
  }

  /** False: a row's result depends on the rows before it. */
  @Override
  public boolean isDeterministic() {
    return false;
  }

  public boolean invoke(long size, long budget) {
    long[] spent = SPENT.computeIfAbsent(TaskContext.get(), task -> new long[1]);
    if (size > budget - spent[0]) {
      return false;
    }
    spent[0] += size;
    return true;
  }
}
