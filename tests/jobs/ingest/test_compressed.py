"""Compressed files, whatever their names: cut or not, killed, repeated, put away, and of status updates."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.run_document import Memory
from messagestore_core.contract.run_report import IngestCounts, UpdateCounts
from messagestore_core.store.handle import Store
from messagestore_jobs.source import records
from support.external_writes import observing
from support.ingests import START, Stream, adds_up, lines, positions_have_no_gap, received_in, record, write_file
from support.lifecycles import Updated, update
from support.packing import PACKERS, Packer
from support.purges import CrashError
from support.stores import change_rows

RECORDS = [record(f"m{n:03}") for n in range(60)]
IDS = [f"m{n:03}" for n in range(60)]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def planned(stream: Stream) -> dict[str, set[str | None]]:
    """The compressions that plans noted, by the names of files."""
    found: dict[str, set[str | None]] = {}
    for row in Store(stream.table.uri).table("files").to_pyarrow_table().to_pylist():
        found.setdefault(row["uri"].rpartition("/")[2], set()).add(row["compression"])
    return found


def test_only_files_that_would_be_cut_are_looked_at_and_only_plain_ones_are_cut(stream: Stream) -> None:
    # Of one character in each, compressed files are as large as the plain one.
    noise = [record(f"n{n:03}", payload=f'"{n * 7919:0100x}"'.encode()) for n in range(400)]
    stream.arrive("1-plain.gz", lines(*RECORDS))
    stream.arrive("2.jsonl", PACKERS["zstd"](lines(*noise)))
    stream.arrive("3.jsonl", lines(record("small")))
    outcome = stream.run(memory=Memory(batch_bytes=1_000))
    assert outcome.batches > 5
    assert planned(stream) == {"1-plain.gz": {"none"}, "2.jsonl": {"zstd"}, "3.jsonl": {None}}
    assert stream.ids() == [*IDS, *(f"n{n:03}" for n in range(400)), "small"]
    assert outcome.counts == IngestCounts(received=461, stored=461)


def test_of_a_batch_large_plain_files_are_read_in_parts(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "part_bytes", lambda total, cores: 500)
    stream.arrive("1.gz", lines(*RECORDS[:30]))
    stream.arrive("2.jsonl", PACKERS["bzip2"](lines(*(record(f"b{n}", type=f"{n**40:x}") for n in range(30)))))
    stream.arrive("3.jsonl", lines(*RECORDS[30:]))
    assert stream.run().batches == 1
    assert planned(stream) == {"1.gz": {"none"}, "2.jsonl": {"bzip2"}, "3.jsonl": {"none"}}
    assert stream.ids() == [*IDS[:30], *(f"b{n}" for n in range(30)), *IDS[30:]]


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_killed_at_each_write_the_same_is_stored(stream: Stream, pack: Packer) -> None:
    stream.arrive("1", pack(lines(*RECORDS[:20], b"garbage")) + pack(lines(*RECORDS[20:40]))[:-9])
    stream.arrive("2", pack(lines(*RECORDS[40:])))
    for name, moment in [("plan", "after"), ("dead-letters", "after"), ("messages", "before"), ("messages", "after")]:
        crash(stream.run, name, moment)
    totals = stream.run().totals
    assert adds_up(totals)
    assert totals.received == received_in(stream.landing)
    assert (totals.stored, totals.duplicates, totals.dead_lettered) == (len(stream.ids()), 0, 2)
    assert [row["reason"] for row in stream.dead_letters()] == ["Unparseable", "Unparseable"]
    assert [row["cut"] for row in stream.dead_letters()] == [False, True]
    assert stream.ids()[:20] == IDS[:20]
    assert stream.ids()[-20:] == IDS[40:]
    assert positions_have_no_gap(stream.messages())


def crash(run: Callable[[], object], name: str, moment: str) -> None:
    def observer(at: str, when: str) -> None:
        if (at, when) == (name, moment):
            raise CrashError(name)

    with pytest.raises(CrashError), observing(observer):
        run()


def test_what_an_earlier_release_planned_is_read_by_its_content(stream: Stream) -> None:
    stream.arrive("1.gz", lines(*RECORDS[:30]))
    stream.arrive("2.jsonl", PACKERS["zstd"](lines(*RECORDS[30:])))
    crash(stream.run, "messages", "before")
    change_rows(stream.table.uri, "files", {"compression": "null", "judged_by": "null"}, "true")
    assert stream.run().totals == IngestCounts(received=60, stored=60)
    assert stream.ids() == IDS


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_file_leaves_unless_the_rest_of_a_record_is_in_it_alone(stream: Stream, pack: Packer) -> None:
    stream.arrive("torn", pack(lines(record("m1"))) + pack(lines(record("m2")))[:-9])
    whole = pack(lines(record("m3"), b"garbage"))
    stream.arrive("whole", whole)
    archive = stream.folder / "archive"
    chosen = {"after_ingest": "Archive", "archive_uri": f"file://{archive}"}
    stream.run(after_ingest="Delete")
    assert [path.name for path in stream.landing.iterdir()] == ["torn"]
    stream.run(**chosen)
    assert [path.name for path in archive.iterdir()] == ["torn"]


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_documents_are_read_too(stream: Stream, pack: Packer) -> None:
    stream.arrive("1", pack(b"[" + record("m1") + b"," + record("m2") + b"]"))
    stream.arrive("2", pack(b"[" + record("m3") + b",") + pack(record("m4") + b"]")[:-20])
    stream.arrive("3", record("m5"))
    outcome = stream.run(format="JSON")
    assert outcome.counts == IngestCounts(received=5, stored=4, dead_lettered=1)
    assert stream.ids() == ["m1", "m2", "m3", "m5"]


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_status_updates_are_read_too(spark: SparkSession, tmp_path: Path, pack: Packer) -> None:
    stream = Updated(spark, tmp_path)
    stream.arrive("a.jsonl", lines(record("m1"), record("m2"), record("m3")))
    updates = [update("m1", "COMPLETED"), update("m2", "PROCESSING")]
    at = START - timedelta(days=1)
    write_file(stream.update_landing / "1", pack(lines(*updates)), at)
    write_file(stream.update_landing / "2", pack(lines(update("m3", "PROCESSING"))) + b"garbage", at)
    source = stream.lifecycle().source.model_copy(update={"after_ingest": "Delete"})
    deleting = stream.lifecycle().model_copy(update={"source": source})
    assert stream.told(lifecycle=deleting).counts == UpdateCounts(received=4, applied=3, dead_lettered=1)
    assert {name: state for name, (state, _) in stream.states().items()} == {
        "m1": "COMPLETED",
        "m2": "PROCESSING",
        "m3": "PROCESSING",
    }
    # A run puts away what an earlier one has committed.
    stream.run(lifecycle=deleting)
    assert [path.name for path in stream.update_landing.iterdir()] == ["2"]
