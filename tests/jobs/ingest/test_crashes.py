"""SIGKILL at each external write of an ingest; after the next run the store is that of an uninterrupted run."""

import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from messagestore_core.store import handle
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.objects import Objects
from messagestore_core.store.schemas import TABLES
from messagestore_core.store.storage import Storage
from support.crash import crash, crash_opening
from support.external_writes import observing
from support.ingests import START, Stream, lines, record
from support.long import few
from support.purges import CrashError

FOLDER_WRITES = ["marker", *(f"create-{name}" for name in TABLES)]
BATCH_WRITES = ["plan", "claim-check", "dead-letters", "messages"]
MOMENTS = ["before", "after"]
SETTINGS = {"max_files_per_batch": 2, "claim_check_bytes": 40}
VARYING = {"inserted_at", "inserted_date", "failed_at", "at", "run"}
"""Times and run names."""


def arrive(stream: Stream) -> None:
    """Two batches of two files; each has a large payload and a bad line, the second also earlier messages."""
    large = b'"' + b"x" * 50 + b'"'
    for name, records in {
        "a": [message("m1"), b"garbage a", message("m2", payload=large)],
        "b": [message("m3", streamName="other")],
        "c": [message("m2", payload=large), message("m4"), b"garbage c"],
        "d": [message("m5", payload=large), message("m6", streamName="other"), message("m1")],
    }.items():
        stream.arrive(f"{name}.jsonl", lines(*records))


def message(message_id: str, **fields: Any) -> bytes:
    return record(message_id, time="2026-01-05T11:00:00Z", **fields)


class Store(NamedTuple):
    tables: dict[str, list[dict[str, Any]]]
    payloads: dict[str, bytes | None]
    totals: dict[str, int]


def contents(stream: Stream) -> Store:
    """A store's whole content, without times, run names (which claim checks also have) and its own folder."""
    uri = stream.table.uri
    objects = Objects(f"{uri}/payloads", Storage())
    return Store(
        {name: _rows(stream, name) for name in TABLES},
        {name[:20]: objects.read(name) for name in objects.names()},
        last_note(handle.Store(uri)).totals.model_dump(),
    )


def _rows(stream: Stream, name: str) -> list[dict[str, Any]]:
    rows = handle.Store(stream.table.uri).table(name).to_pyarrow_table().to_pylist()
    plain = [{column: _plain(stream, value) for column, value in row.items() if column not in VARYING} for row in rows]
    return sorted(plain, key=repr)


def _plain(stream: Stream, value: object) -> str:
    return re.sub(r"(payloads/\d{20})-[0-9a-f]+", r"\1", repr(value).replace(str(stream.folder), ""))


@pytest.fixture(scope="module")
def uninterrupted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Counter[str]]:
    stream = Stream(spark, tmp_path_factory.mktemp("uninterrupted"), SETTINGS)
    arrive(stream)
    writes: list[str] = []
    with observing(lambda name, moment: writes.append(name) if moment == "after" else None):
        outcome = stream.run()
    assert outcome.counts.model_dump() == {
        "received": 10,
        "stored": 6,
        "duplicates": 2,
        "dead_lettered": 2,
        "filtered": 0,
        "discarded": 0,
        "unknown_fields": 0,
    }
    return contents(stream), Counter(writes)


def test_the_crashes_below_cover_every_write(uninterrupted: tuple[Store, Counter[str]]) -> None:
    _, writes = uninterrupted
    assert writes == dict.fromkeys([*FOLDER_WRITES, "ended"], 1) | dict.fromkeys(BATCH_WRITES, 2)


def ends_the_same(stream: Stream, uninterrupted: tuple[Store, Counter[str]]) -> bool:
    stream.run(at=START + timedelta(hours=1))
    assert contents(stream) == uninterrupted[0]
    again = stream.run(at=START + timedelta(hours=2))
    return again.batches == 0 and contents(stream) == uninterrupted[0]


FOLDER_CRASHES = [(name, moment) for name in FOLDER_WRITES for moment in MOMENTS]
BATCH_CRASHES = [(name, moment) for name in BATCH_WRITES for moment in MOMENTS]


@pytest.mark.parametrize(
    ("name", "moment"),
    few(FOLDER_CRASHES, ("marker", "after")),
)
def test_an_ingest_that_was_killed_while_it_made_the_store_ends_with_the_same_store(
    spark: SparkSession, tmp_path: Path, name: str, moment: str, uninterrupted: tuple[Store, Counter[str]]
) -> None:
    stream = Stream(spark, tmp_path, SETTINGS)
    crash_opening(tmp_path / "store", name, moment)
    if (name, moment) in (("marker", "before"), ("marker", "after"), ("create-offsets", "after")):
        arrive(stream)
        assert ends_the_same(stream, uninterrupted)
    else:
        # Opening the folder again completes it; the other cases show what a run then does.
        assert stream.run().table.messages == 0


@pytest.mark.parametrize(("name", "moment"), few(BATCH_CRASHES))
def test_an_ingest_that_was_killed_in_its_second_batch_ends_with_the_same_store(
    spark: SparkSession, tmp_path: Path, name: str, moment: str, uninterrupted: tuple[Store, Counter[str]]
) -> None:
    stream = Stream(spark, tmp_path, SETTINGS)
    arrive(stream)
    crash(stream, name, moment, 2)
    assert ends_the_same(stream, uninterrupted)


def test_a_run_that_was_overtaken_wrote_no_claim_check_of_a_newer_one(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, SETTINGS)
    arrive(stream)
    with pytest.raises(CrashError), observing(crash_after("claim-check")):
        stream.run()
    payloads = Objects(f"{stream.table.uri}/payloads", Storage())
    older = set(payloads.names())
    stream.run()
    named = {row["payload_uri"].rpartition("/")[2] for row in stream.messages() if row["payload_uri"]}
    assert len(older) == 1
    assert named == set(payloads.names()) - older


def crash_after(name: str) -> Callable[[str, str], None]:
    def observer(at: str, moment: str) -> None:
        if (at, moment) == (name, "after"):
            raise CrashError(name)

    return observer


def test_an_ingest_that_was_killed_as_it_wrote_messages_ends_with_the_same_store(
    spark: SparkSession, tmp_path: Path, uninterrupted: tuple[Store, Counter[str]]
) -> None:
    stream = Stream(spark, tmp_path, SETTINGS)
    arrive(stream)
    crash(stream, "messages", "within", 1)
    assert ends_the_same(stream, uninterrupted)


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_ingest_that_was_killed_as_it_dropped_a_missing_file_reads_the_others_once(
    spark: SparkSession, tmp_path: Path, moment: str
) -> None:
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 2})
    stream.arrive("a.jsonl", lines(message("m1")))
    gone = stream.arrive("b.jsonl", lines(message("m2")))
    stream.arrive("c.jsonl", lines(message("m3")))
    crash(stream, "plan", "after", 1)
    gone.unlink()
    crash(stream, "take-out", moment, 1)
    assert stream.run().counts.received == 2
    assert stream.ids() == ["m1", "m3"]
    stream.arrive("b.jsonl", lines(message("m2")))
    assert stream.run().counts.received == 1
    assert stream.ids() == ["m1", "m3", "m2"]
