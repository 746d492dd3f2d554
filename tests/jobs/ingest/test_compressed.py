"""Compressed files, whatever their names: cut or not, killed, repeated, put away, and of status updates."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts, Memory, UpdateCounts
from messagestore_core.store.handle import Store
from messagestore_jobs.source import records
from support.ingests import START, Stream, adds_up, lines, positions_have_no_gap, received_in, record, write_file
from support.lifecycles import Updated, update
from support.packing import PACKERS
from support.purges import break_off
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


def test_an_ingest_of_compressed_files_that_is_killed_at_any_write_stores_the_same(stream: Stream) -> None:
    for name, pack in PACKERS.items():
        some = [[record(f"{name}-{n}") for n in range(first, first + 20)] for first in (0, 20, 40)]
        stream.arrive(f"{name}-1", pack(lines(*some[0], b"garbage")) + pack(lines(*some[1]))[:-9])
        stream.arrive(f"{name}-2", pack(lines(*some[2])))
    for write, moment in [("plan", "after"), ("dead-letters", "after"), ("messages", "before"), ("messages", "after")]:
        break_off(stream.run, write, moment)
    totals = stream.run().totals
    assert adds_up(totals)
    assert totals.received == received_in(stream.landing)
    assert (totals.stored, totals.duplicates, totals.dead_lettered) == (len(stream.ids()), 0, 6)
    assert [(row["reason"], row["cut"]) for row in stream.dead_letters()] == [
        ("Unparseable", cut) for cut in (False, True) * 3
    ]
    for name in PACKERS:
        ids = [one for one in stream.ids() if one.startswith(name)]
        assert ids[:20] == [f"{name}-{n}" for n in range(20)]
        assert ids[-20:] == [f"{name}-{n}" for n in range(40, 60)]
    assert positions_have_no_gap(stream.messages())


def test_what_an_earlier_release_planned_is_read_by_its_content(stream: Stream) -> None:
    stream.arrive("1.gz", lines(*RECORDS[:30]))
    stream.arrive("2.jsonl", PACKERS["zstd"](lines(*RECORDS[30:])))
    break_off(stream.run, "messages", "before")
    change_rows(stream.table.uri, "files", {"compression": "null", "judged_by": "null"}, "true")
    assert stream.run().totals == IngestCounts(received=60, stored=60)
    assert stream.ids() == IDS


def test_a_damaged_file_stays_if_only_it_has_the_rest_of_a_record(stream: Stream) -> None:
    for name, pack in PACKERS.items():
        stream.arrive(f"{name}-torn", pack(lines(record(name))) + pack(lines(record(f"{name}-2")))[:-9])
        stream.arrive(f"{name}-whole", pack(lines(record(f"{name}-3"), b"garbage")))
    archive = stream.folder / "archive"
    torn = {f"{name}-torn" for name in PACKERS}
    stream.run(after_ingest="Delete")
    assert {path.name for path in stream.landing.iterdir()} == torn
    stream.run(after_ingest="Archive", archive_uri=f"file://{archive}")
    assert {path.name for path in archive.iterdir()} == torn


def test_documents_are_read_too(stream: Stream) -> None:
    for name, pack in PACKERS.items():
        a, b, c, d, e = (record(f"{name}-{n}") for n in range(5))
        stream.arrive(f"{name}-1", pack(b"[" + a + b"," + b + b"]"))
        stream.arrive(f"{name}-2", pack(b"[" + c + b",") + pack(d + b"]")[:-20])
        stream.arrive(f"{name}-3", e)
    assert stream.run(format="JSON").counts == IngestCounts(received=15, stored=12, dead_lettered=3)
    assert stream.ids() == [f"{name}-{n}" for name in PACKERS for n in (0, 1, 2, 4)]


def test_status_updates_are_read_too(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path)
    stream.arrive("a.jsonl", lines(*(record(f"{name}-{n}") for name in PACKERS for n in range(3))))
    at = START - timedelta(days=1)
    for name, pack in PACKERS.items():
        updates = [update(f"{name}-0", "COMPLETED"), update(f"{name}-1", "PROCESSING")]
        write_file(stream.update_landing / f"{name}-1", pack(lines(*updates)), at)
        last = pack(lines(update(f"{name}-2", "PROCESSING"))) + b"garbage"
        write_file(stream.update_landing / f"{name}-2", last, at)
    source = stream.lifecycle().source.model_copy(update={"after_ingest": "Delete"})
    deleting = stream.lifecycle().model_copy(update={"source": source})
    assert stream.told(lifecycle=deleting).counts == UpdateCounts(received=12, applied=9, dead_lettered=3)
    assert {name: state for name, (state, _) in stream.states().items()} == {
        f"{name}-{n}": state for name in PACKERS for n, state in enumerate(["COMPLETED", "PROCESSING", "PROCESSING"])
    }
    # A run puts away what an earlier one has committed.
    stream.run(lifecycle=deleting)
    assert {path.name for path in stream.update_landing.iterdir()} == {f"{name}-2" for name in PACKERS}
