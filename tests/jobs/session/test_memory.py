"""A run knows its memory limits."""

import os

from pyspark.sql import SparkSession

from messagestore_jobs.session import heap_bytes, python_bytes


def test_a_local_run_may_hold_half_of_what_the_machine_has_beside_its_heap(spark: SparkSession) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert machine // 4 < python_bytes(spark) < (machine - heap_bytes(spark)) // 2


def test_the_heap_size_is_read_from_the_options_of_the_jvm(spark: SparkSession) -> None:
    """A batch that is repeated would be judged anew by another size."""
    jvm = spark._jvm
    given = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    (largest,) = (option.removeprefix("-Xmx") for option in given if option.startswith("-Xmx"))
    assert heap_bytes(spark) == jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(largest)
