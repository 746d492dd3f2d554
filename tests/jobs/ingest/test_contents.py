"""A file of lines that is written while it is read, or rewritten: each line is taken in once, and whole."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.records import Envelope, FieldMapping
from support.crash import crash
from support.ingests import Stream, lines, record


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    envelope = Envelope(format="Custom", fields={"category": FieldMapping(value="log")})
    return Stream(spark, tmp_path, {"format": "Text", "envelope": envelope})


def stored(stream: Stream) -> dict[str, bytes]:
    return {row["message_id"].rpartition("/landing/")[2]: row["payload"] for row in stream.messages()}


def test_what_a_rewritten_file_has_is_stored_and_what_it_had_is_kept(stream: Stream) -> None:
    stream.arrive("app.log", b"first line\npaid 10")
    stream.run()
    stream.arrive("app.log", b"first line\npaid 1000 to bob\n")
    assert stream.run().counts == IngestCounts(received=1, stored=1)
    stream.arrive("app.log", b"first line\npaid 1000 to bob\nend\n")
    assert stream.run().counts == IngestCounts(received=1, stored=1)
    assert stored(stream) == {
        "app.log#0": b"first line",
        "app.log#11": b"paid 10",
        "app.log//@2#11": b"paid 1000 to bob",
        "app.log//@2#28": b"end",
    }


def test_another_content_is_taken_in_once_though_its_batch_broke_off(stream: Stream) -> None:
    stream.settings |= {"after_ingest": "Delete"}
    file = stream.arrive("app.log", b"one\n\xff\n")
    stream.run()
    assert not file.exists()
    stream.arrive("app.log", b"uno\n\xff\n")
    crash(stream, "dead-letters", "after", 1)
    stream.run()
    assert stored(stream) == {"app.log#0": b"one", "app.log//@2#0": b"uno"}
    assert [(row["source"]["uri"], row["raw"]) for row in stream.dead_letters()] == [
        (f"file://{file}", b"\xff"),
        (f"file://{file}//@2", b"\xff"),
    ]
    assert stream.run().totals == IngestCounts(received=4, stored=2, dead_lettered=2)
    assert not file.exists()


def test_a_file_that_is_replaced_before_its_batch_is_repeated_is_taken_in_once(stream: Stream) -> None:
    stream.arrive("app.log", b"one\ntwo\n\xff\n")
    stream.arrive("b.log", b"stays\n")
    crash(stream, "dead-letters", "after", 1)
    stream.arrive("app.log", b"other lines, and\nmore of them\n")
    stream.run()
    assert stored(stream) == {"app.log#0": b"other lines, and", "app.log#17": b"more of them", "b.log#0": b"stays"}
    assert [row["raw"] for row in stream.dead_letters()] == [b"\xff"]
    assert stream.run().totals == IngestCounts(received=4, stored=3, dead_lettered=1)


def test_half_a_line_waits_and_is_told_until_its_file_rests(stream: Stream) -> None:
    half = record("m2")[:-9]
    written = datetime.now(UTC)
    stream.arrive("a.log", b"one\ntwo", written)
    first = stream.run(last_line_after=timedelta(hours=1))
    assert (first.counts, first.lag and first.lag.files) == (IngestCounts(received=1, stored=1), 1)
    assert stream.run(last_line_after=timedelta(hours=1)).batches == 0
    assert [said for said in stream.heard.said if "a.log has no end yet" in said]
    rested = stream.run(last_line_after=timedelta(microseconds=1))
    assert (rested.counts, rested.lag and rested.lag.files) == (IngestCounts(received=1, stored=1), 0)
    assert stored(stream) == {"a.log#0": b"one", "a.log#4": b"two"}

    json = {"format": "JSONLines", "envelope": Envelope(), "last_line_after": timedelta(hours=1)}
    stream.arrive("b.log", lines(record("m1")) + half, written)
    (stream.landing / "a.log").unlink()
    assert stream.run(**json).counts == IngestCounts(received=1, stored=1)
    stream.arrive("b.log", lines(record("m1"), record("m2")), datetime.now(UTC))
    assert stream.run(**json).counts == IngestCounts(received=2, stored=1, duplicates=1)
