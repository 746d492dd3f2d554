"""A run opens a table only when it has changed: the cost of opening grows with the number of files."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.store import handle
from support.ingests import Stream, lines, record


@pytest.mark.long
def test_a_batch_more_opens_each_table_that_it_changes_once_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 1})
    stream.arrive("first.jsonl", lines(record("m0")))
    stream.run()
    opened, refuse_foreign = Counter[str](), handle.refuse_foreign
    monkeypatch.setattr(
        handle, "refuse_foreign", lambda uri, name, table: opened.update([name]) or refuse_foreign(uri, name, table)
    )

    def opens(batches: int) -> Counter[str]:
        for number in range(batches):
            stream.arrive(f"{batches}-{number}.jsonl", lines(record(f"m{batches}-{number}"), b"garbage"))
        opened.clear()
        assert stream.run().batches == batches
        return Counter(opened)

    one, four = opens(1), opens(4)
    assert {name: four[name] - one[name] for name in four} == {
        **dict.fromkeys(four, 0),
        **dict.fromkeys(("messages", "files", "dead_letters"), 3),
    }


def test_the_only_batch_of_a_run_gets_no_checksum(spark: SparkSession, tmp_path: Path) -> None:
    """The first one in a session costs a reading of the table's whole log; those after it hardly anything."""
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 1})
    for batches in (2, 1):
        for number in range(batches):
            stream.arrive(f"{batches}-{number}.jsonl", lines(record(f"m{batches}-{number}")))
        assert stream.run().batches == batches
    log = tmp_path / stream.store / "messages" / "_delta_log"
    commits = sorted(path.stem for path in log.glob("*.json"))[-3:]
    assert [(log / f"{commit}.crc").exists() for commit in commits] == [True, True, False]
