from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.ingests import Stream, adds_up


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """A stream whose counts must add up after each test."""
    stream = Stream(spark, tmp_path)
    yield stream
    totals = stream.run().totals
    assert adds_up(totals)
    assert (totals.stored, totals.dead_lettered) == (len(stream.messages()), len(stream.dead_letters()))
