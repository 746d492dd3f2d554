from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.ingests import Stream, final_totals


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """A stream whose counts must add up after each test."""
    stream = Stream(spark, tmp_path)
    yield stream
    final_totals(stream)
