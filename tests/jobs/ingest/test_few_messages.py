"""A run with little to do appends its messages by delta-rs; the store is then the same as by Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.run_document import RunDocument
from messagestore_core.progress import Silent
from messagestore_core.store.delta_log import files_of, last_note
from messagestore_core.store.handle import Store
from messagestore_core.store.storage import Storage
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.session import FOR_LITTLE, settings
from support.external_writes import observing
from support.ingests import RESOURCE, START, Stream, lines, record
from support.lost_answers import losing
from support.objectstore import ObjectStore
from support.purges import CrashError

VARYING = {"path", "size_bytes", "modification_time"}


@pytest.fixture
def little(spark: SparkSession) -> Iterator[None]:
    with settings(spark, FOR_LITTLE):
        yield


def arrive(stream: Stream, *, later: bool = False) -> None:
    headers = {"a": "1", "b": "é"}
    records = [
        record("m1", headers=headers, time="2026-01-05T11:00:00.123456Z"),
        b"garbage",
        record("m2", payload=b"null"),
    ]
    stream.arrive("a.jsonl", lines(*records))
    if later:
        stream.arrive("b.jsonl", lines(record("m1"), record("m3", sequenceId="s", sequenceNumber=1)))


def ingested(stream: Stream) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Any]:
    """The messages, what the log says of their files, and the totals."""
    files = files_of(Store(stream.table.uri).table("messages")).to_pylist()
    said = [{name: value for name, value in one.items() if name not in VARYING} for one in files]
    folder = str(stream.folder)
    rows = [json.loads(json.dumps(row, default=str).replace(folder, "")) for row in stream.messages()]
    return rows, said, last_note(Store(stream.table.uri)).totals


def test_rows_and_statistics_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    by_spark, few = Stream(spark, tmp_path / "spark"), Stream(spark, tmp_path / "few")
    for stream in (by_spark, few):
        arrive(stream, later=True)
    by_spark.run()
    with settings(spark, FOR_LITTLE):
        outcome = few.run()
    assert (outcome.counts.stored, outcome.counts.dead_lettered, outcome.counts.duplicates) == (3, 1, 1)
    assert ingested(few) == ingested(by_spark)


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize(("compression", "codec"), [("Zstd", "ZSTD"), ("None", "UNCOMPRESSED")])
def test_files_are_compressed_as_the_stream_says(
    spark: SparkSession, tmp_path: Path, compression: str, codec: str
) -> None:
    stream = Stream(spark, tmp_path, {"compression": compression})
    arrive(stream)
    stream.run()
    (path,) = files_of(Store(stream.table.uri).table("messages"))["path"].to_pylist()
    metadata = pq.ParquetFile(tmp_path / "store" / "messages" / path).metadata
    assert {metadata.row_group(0).column(column).compression for column in range(metadata.num_columns)} == {codec}


@pytest.mark.usefixtures("little")
def test_a_batch_without_a_new_message_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    arrive(stream)
    stream.run()
    stream.arrive("again.jsonl", lines(record("m1")))
    assert stream.run().counts.duplicates == 1
    assert stream.ids() == ["m1", "m2"]
    assert stream.run().batches == 0


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_that_broke_off_at_its_commit_is_gone_on_with(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    stream = Stream(spark, tmp_path)
    arrive(stream)

    def end(name: str, at: str) -> None:
        if (name, at) == ("messages", moment):
            raise CrashError(name)

    with pytest.raises(CrashError), observing(end):
        stream.run()
    assert stream.ids() == ([] if moment == "before" else ["m1", "m2"])
    again = stream.run()
    assert (stream.ids(), len(stream.dead_letters())) == (["m1", "m2"], 1)
    assert (again.totals.stored, again.totals.dead_lettered) == (2, 1)


@pytest.mark.usefixtures("little")
def test_a_commit_whose_answer_was_lost_counts_once(
    spark: SparkSession, object_store: ObjectStore, tmp_path: Path
) -> None:
    uri = object_store.make_bucket("few-unheard")
    stream = Stream(spark, tmp_path)
    arrive(stream)
    with losing(object_store.endpoint, tmp_path / "lost") as way:
        entry = object_store.entry("few-unheard").model_copy(update={"endpoint": way.endpoint})

        def run(epoch: int) -> RunDocument:
            table = stream.table.model_copy(update={"uri": f"{uri}/store", "epoch": epoch})
            task = stream.document().task
            return RunDocument(
                run=f"run-{epoch}", resource=RESOURCE, table=table, at=START, storage=(entry,), task=task
            )

        reports = [execute(run(epoch), lambda: spark, Silent(), 0, lambda: START) for epoch in range(1, 6)]
        assert any("messages" in kind and "inserted" not in kind for kind in way.lost())
    assert reports[-1].error is None, reports
    assert reports[-1].outcome.totals.stored == 2
    assert ids_in(object_store, "few-unheard", uri) == ["m1", "m2"]


def ids_in(object_store: ObjectStore, bucket: str, uri: str) -> list[str]:
    store = Store(f"{uri}/store", Storage((object_store.entry(bucket),)))
    return sorted(store.table("messages").to_pyarrow_table()["message_id"].to_pylist())
