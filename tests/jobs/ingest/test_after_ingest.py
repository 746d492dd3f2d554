"""Files leave their landing folder once all their records are settled, whenever a run is killed."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestCounts, Memory
from messagestore_core.contract.records import Envelope, FieldMapping, Filter
from messagestore_core.contract.replay import ReplayTask
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.source import records
from support.ingests import Stream, lines, packed, record
from support.lifecycles import Updated, update
from support.long import few
from support.purges import break_off
from support.replays import replay_document
from support.stores import change_rows, remove_rows

CONTENT = {name: lines(*(record(f"{name}-{n}") for n in range(2))) for name in ("a.jsonl", "b.jsonl", "c.jsonl")}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    archive = f"file://{tmp_path}/archive"
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 2, "after_ingest": "Archive", "archive_uri": archive})
    for name, content in CONTENT.items():
        stream.arrive(name, content)
    return stream


def landed(stream: Stream) -> list[str]:
    return sorted(path.name for path in stream.landing.iterdir())


def archived(stream: Stream) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((stream.folder / "archive").glob("*"))}


def test_what_was_taken_in_is_archived_by_the_end_of_its_run(stream: Stream) -> None:
    assert stream.run().counts.stored == 6
    assert (landed(stream), archived(stream)) == ([], CONTENT)
    again = stream.run()
    assert (again.batches, again.lag.files) == (0, 0)


KILLED_AT = [
    ("plan", "after", 1, 3),
    ("messages", "before", 2, 3),
    ("archive-file", "after", 1, 3),
    ("delete-file", "after", 1, 2),
]
"""A write, how often it has happened, and how many files are left."""


@pytest.mark.parametrize(("name", "moment", "nth", "left"), few(KILLED_AT, KILLED_AT[3]))
def test_killed_anywhere_only_what_is_committed_goes_and_the_next_runs_end_it(
    stream: Stream, name: str, moment: str, nth: int, left: int
) -> None:
    break_off(stream.run, name, moment, nth)
    assert len(landed(stream)) == left
    # Files that were planned but not committed stay; all committed ones go.
    if name == "messages":
        break_off(stream.run, name, moment)
        assert landed(stream) == ["c.jsonl"]
    stream.run()
    assert sorted(stream.ids()) == [f"{file}-{n}" for file in CONTENT for n in range(2)]
    assert (landed(stream), archived(stream)) == ([], CONTENT)


def test_a_file_of_which_a_part_is_committed_stays(stream: Stream) -> None:
    half = Memory(batch_bytes=len(CONTENT["a.jsonl"]) // 2)
    stream.settings["memory"] = half
    break_off(stream.run, "plan", "before", 2)
    stream.settings["after_ingest"] = "Delete"
    break_off(stream.run, "plan", "before", 1)
    assert landed(stream) == list(CONTENT)
    stream.run()
    assert (landed(stream), len(stream.ids())) == ([], 6)


def test_a_file_that_comes_again_under_its_name_is_read_again(stream: Stream) -> None:
    stream.run()
    stream.arrive("a.jsonl", lines(record("new")))
    assert stream.run().counts.stored == 1
    assert (landed(stream), archived(stream)["a.jsonl"]) == ([], lines(record("new")))


LONG = record("long", payload=b'"' + b"x" * 2_000 + b'"')
"""Too long for the runs below."""


@pytest.fixture
def deleting(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    too_many(monkeypatch, 1_000)
    return Stream(spark, tmp_path, {"after_ingest": "Delete"})


def too_many(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(records, "too_many_bytes", lambda spark: size)


def kept(stream: Stream) -> list[str]:
    """The files that the runs said they keep."""
    return [text.partition(" was ingested and is not deleted")[0].rpartition("/")[2] for text in stream.heard.said]


def forget_dead_letters(stream: Stream) -> None:
    remove_rows(stream.table.uri, "dead_letters")


def forget_marks(stream: Stream) -> None:
    """Make the rows of ``files`` those of an earlier release."""
    change_rows(stream.table.uri, "files", {"cut": "null"}, "true")


def test_a_file_with_a_record_that_was_cut_stays_while_the_others_leave(deleting: Stream) -> None:
    deleting.arrive("long.jsonl", lines(record("m1"), LONG, record("m2")))
    deleting.arrive("settled.jsonl", lines(b"garbage", record("m1"), record("m3", type="unwanted"), record("m4")))
    deleting.arrive("cut.jsonl.gz", packed(record("m5"), record("m6"))[:-12])
    chosen: dict[str, Any] = {"filter": Filter(where="type is null"), "max_files_per_batch": 2}
    assert deleting.run(**chosen).counts == IngestCounts(
        received=9, stored=4, duplicates=1, dead_lettered=3, filtered=1
    )
    assert landed(deleting) == ["cut.jsonl.gz", "long.jsonl"]
    assert kept(deleting) == ["cut.jsonl.gz"]
    assert "(1 more like it)" in deleting.heard.said[0]
    assert {row["raw"][:9]: row["cut"] for row in deleting.dead_letters()} == {
        b"garbage": False,
        LONG[:9]: True,
        record("m5")[:9]: True,
    }
    forget_dead_letters(deleting)
    deleting.run(**chosen)
    assert landed(deleting) == ["cut.jsonl.gz", "long.jsonl"]


def test_a_document_stays_if_its_dead_letter_has_only_a_part_of_it(deleting: Stream) -> None:
    deleting.arrive("garbage.json.gz", gzip.compress(b'{"a": [1, 2', mtime=0))
    deleting.arrive("good.json", b"[" + record("m1") + b"]")
    deleting.arrive("long.json", b"[" + LONG + b"]")
    deleting.arrive("torn.json.gz", gzip.compress(b"[" + record("m2") + b"]", mtime=0)[:-12])
    assert deleting.run(format="JSON").counts.dead_lettered == 3
    assert landed(deleting) == ["long.json", "torn.json.gz"]


def test_a_file_with_a_record_that_was_cut_is_archived(deleting: Stream) -> None:
    deleting.arrive("long.jsonl", lines(LONG))
    deleting.run(after_ingest="Archive", archive_uri=f"file://{deleting.folder}/archive")
    assert (landed(deleting), archived(deleting), kept(deleting)) == ([], {"long.jsonl": lines(LONG)}, [])


def test_a_file_read_in_parts_stays_if_any_part_has_such_a_record(deleting: Stream) -> None:
    deleting.arrive("long.jsonl", lines(LONG, *(record(f"m{n}") for n in range(30))))
    assert deleting.run(memory=Memory(batch_bytes=1_000)).batches > 2
    assert landed(deleting) == ["long.jsonl"]


CUT = {"before": [("dead-letters", "after"), ("cut-noted", "before")], "after": [("cut-noted", "after")]}


@pytest.mark.parametrize("noted", few(CUT, "before"))
def test_killed_anywhere_a_file_with_a_record_that_was_cut_stays(deleting: Stream, noted: str) -> None:
    deleting.arrive("long.jsonl", lines(record("m1"), LONG))
    for name, moment in [*CUT[noted], ("messages", "before"), ("messages", "after")]:
        break_off(deleting.run, name, moment)
        assert landed(deleting) == ["long.jsonl"]
    forget_dead_letters(deleting)
    deleting.run()
    assert (landed(deleting), deleting.ids()) == (["long.jsonl"], ["m1"])


def test_a_batch_that_reads_the_record_whole_when_it_is_repeated_lets_its_file_leave(
    deleting: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleting.arrive("long.jsonl", lines(LONG))
    break_off(deleting.run, "messages", "before")
    too_many(monkeypatch, 100_000)
    deleting.run()
    assert (landed(deleting), deleting.ids()) == ([], ["long"])


def test_a_file_that_an_earlier_release_read_stays_if_its_dead_letter_is_cut(deleting: Stream) -> None:
    deleting.arrive("good.jsonl", lines(record("m1"), b"garbage"))
    deleting.arrive("long.jsonl", lines(LONG))
    deleting.run(after_ingest="Keep")
    forget_marks(deleting)
    break_off(deleting.run, "cut-asked", "after")
    forget_dead_letters(deleting)
    deleting.run()
    deleting.run()
    assert landed(deleting) == ["long.jsonl"]


def test_a_file_of_status_updates_stays_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_many(monkeypatch, 1_000)
    stream = Updated(spark, tmp_path)
    stream.tell(update("m1", "COMPLETED", result="x" * 2_000), name="long.jsonl")
    stream.tell(b"garbage", name="garbage.jsonl")
    source = stream.lifecycle().source.model_copy(update={"after_ingest": "Delete"})
    for _ in range(2):
        stream.run(lifecycle=stream.lifecycle().model_copy(update={"source": source}))
    assert [path.name for path in stream.update_landing.iterdir()] == ["long.jsonl"]


@pytest.mark.long
def test_a_redrive_of_a_line_behind_damage_sets_it_aside_again(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, {"format": "Text"})
    stream.settings["envelope"] = Envelope(format="Custom", fields={"streamName": FieldMapping(value="lines-1")})
    stream.arrive("torn.txt.gz", packed(b"whole", b"only a part of this line")[:-12])
    stream.run()
    task = ReplayTask(
        job_id="again",
        origin="DeadLetters",
        destination=StreamDestination(table=stream.table, ingest=stream.document().task),
    )
    outcome = run_replay(Run.of(replay_document(stream.table, task), spark, stream.heard))
    assert (outcome.progress.stored, outcome.progress.dead_lettered) == (0, 1)
    assert [(row["reason"], row["cut"], row["tries"]) for row in stream.dead_letters()] == [("Unparseable", True, 2)]
