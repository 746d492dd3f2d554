"""The report of a run counts the open dead letters by reason."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.store import statistics
from support.ingests import Stream, lines, record

UNPARSEABLE, UNNAMED = b"no object", record(streamName=...)


def _never(*_: object) -> None:
    raise AssertionError("a run without dead letters reads no file of them")


def test_a_run_that_sets_records_aside_counts_all_open_dead_letters_by_reason(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(spark, tmp_path)
    stream.arrive("1.jsonl", lines(record(), UNPARSEABLE, UNNAMED, UNPARSEABLE))
    assert stream.run().table.dead_letters_by_reason == {"Unparseable": 2, "MissingField": 1}
    stream.arrive("2.jsonl", lines(UNPARSEABLE))
    assert stream.run().table.dead_letters_by_reason == {"Unparseable": 3, "MissingField": 1}
    monkeypatch.setattr(statistics, "_count_in_file", _never)
    stream.arrive("3.jsonl", lines(record("m2")))
    outcome = stream.run()
    assert (outcome.table.dead_letters, outcome.table.dead_letters_by_reason) == (4, None)
