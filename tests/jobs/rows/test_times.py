"""Times of messages are the same whatever the zone of the process, from the first year to the last."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_core.clock import microseconds
from messagestore_core.contract.replay import Selection, TimeWindow
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import MESSAGES
from messagestore_jobs.purge.rules import bytes_edge
from messagestore_jobs.replay.selection import selected_messages
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import read_messages
from support.stores import Row, make_store, message

NOW = datetime(2026, 12, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
NIGHT = datetime(2026, 11, 1, 5, tzinfo=UTC)
"""In New York the hours from 5 and from 6 are one local hour twice."""
EDGES = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(4, 2, 29, 12, tzinfo=UTC),
    datetime(1500, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC),
    # Days that only one of the calendars has, and the first of the Gregorian one.
    datetime(1582, 10, 4, tzinfo=UTC),
    datetime(1582, 10, 10, tzinfo=UTC),
    datetime(1582, 10, 15, tzinfo=UTC),
    # Zones had no whole hours.
    datetime(1883, 11, 18, 16, 59, 59, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 2, 29, tzinfo=UTC),
    *(NIGHT + timedelta(minutes=30 * n) for n in range(4)),
]


@pytest.fixture(autouse=True)
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def rows(times: list[datetime]) -> list[Row]:
    return [message(n, payload=b"x" * 50, time=at, inserted_at=NOW - timedelta(days=1)) for n, at in enumerate(times)]


def left(spark: SparkSession, made: list[Row], most: int) -> list[int]:
    """The global positions that a limit of bytes leaves."""
    messages = spark.createDataFrame(pa.Table.from_pylist(made, schema=MESSAGES)).cache()
    edge = bytes_edge(messages, F.lit(True), F.lit(False), most)
    return [row[0] for row in messages.where(~edge.reaches()).select("global_position").orderBy("time").collect()]


def test_a_limit_of_bytes_removes_the_oldest_of_an_hour_that_a_clock_shows_twice(spark: SparkSession) -> None:
    made = rows([NIGHT + timedelta(minutes=5 * n) for n in (0, 1, 2, 6, 12, 13, 14, 15, 16, 17, 18)])
    assert left(spark, made, 250) == [6, 7, 8, 9, 10]


def test_a_limit_of_bytes_orders_messages_from_the_first_year_on(spark: SparkSession) -> None:
    made = rows(EDGES[::-1])
    for kept in (len(EDGES) - 1, 9, 1):
        assert left(spark, made, 50 * kept) == [row["global_position"] for row in made[:kept]][::-1]


def test_a_window_of_a_replay_begins_and_ends_at_its_microsecond(spark: SparkSession, tmp_path: Path) -> None:
    times = [at + by for at in EDGES[1:] for by in (-MICROSECOND, timedelta(0))]
    table = make_store(tmp_path / "store", rows(times))
    messages = read_messages(spark, Store(table.uri)).cache()
    for start, end in pairwise(EDGES[1:]):
        window = TimeWindow.model_validate({"from": start, "to": end})
        found = selected_messages(messages, Selection(time_window=window), NOW).select("global_position").collect()
        assert {times[row[0]] for row in found} == {at for at in times if start <= at < end}


def test_a_moment_is_a_literal_of_its_microseconds(spark: SparkSession) -> None:
    moments = [*EDGES, datetime.max.replace(tzinfo=UTC), NIGHT.astimezone(tz=None)]
    found = spark.range(1).select(*(F.unix_micros(instant(at)).alias(str(n)) for n, at in enumerate(moments)))
    assert list(found.collect()[0]) == [microseconds(at) for at in moments]
