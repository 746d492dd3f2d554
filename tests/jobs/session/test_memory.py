"""A run knows its memory limits."""

import os

from pyspark.sql import SparkSession

from messagestore_jobs.session import heap_bytes, python_bytes


def test_a_local_run_may_hold_half_of_what_the_machine_has_beside_its_heap(spark: SparkSession) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert machine // 4 < python_bytes(spark) < (machine - heap_bytes(spark)) // 2
