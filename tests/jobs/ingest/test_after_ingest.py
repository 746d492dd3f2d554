"""Files leave their landing folder once all their records are committed, whenever a run is killed."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.run_document import Memory
from support.external_writes import observing
from support.ingests import Stream, lines, record
from support.purges import CrashError

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


def crash(stream: Stream, name: str, moment: str, nth: int = 1) -> None:
    seen = 0

    def observer(at: str, when: str) -> None:
        nonlocal seen
        seen += (at, when) == (name, moment)
        if seen == nth:
            raise CrashError(name)

    with pytest.raises(CrashError), observing(observer):
        stream.run()


def test_what_was_taken_in_is_archived_by_the_end_of_its_run(stream: Stream) -> None:
    assert stream.run().counts.stored == 6
    assert (landed(stream), archived(stream)) == ([], CONTENT)
    again = stream.run()
    assert (again.batches, again.lag.files) == (0, 0)


@pytest.mark.parametrize(
    ("name", "moment", "nth", "left"),
    [
        ("plan", "after", 1, 3),
        ("messages", "before", 2, 3),
        ("archive-file", "after", 1, 3),
        ("delete-file", "after", 1, 2),
    ],
)
def test_killed_anywhere_only_what_is_committed_goes_and_the_next_runs_end_it(
    stream: Stream, name: str, moment: str, nth: int, left: int
) -> None:
    crash(stream, name, moment, nth)
    assert len(landed(stream)) == left
    # Files that were planned but not committed stay; all committed ones go.
    if name == "messages":
        crash(stream, name, moment)
        assert landed(stream) == ["c.jsonl"]
    stream.run()
    assert sorted(stream.ids()) == [f"{file}-{n}" for file in CONTENT for n in range(2)]
    assert (landed(stream), archived(stream)) == ([], CONTENT)


def test_a_file_of_which_a_part_is_committed_stays(stream: Stream) -> None:
    half = Memory(batch_bytes=len(CONTENT["a.jsonl"]) // 2)
    stream.settings["memory"] = half
    crash(stream, "plan", "before", 2)
    stream.settings["after_ingest"] = "Delete"
    crash(stream, "plan", "before", 1)
    assert landed(stream) == list(CONTENT)
    stream.run()
    assert (landed(stream), len(stream.ids())) == ([], 6)


def test_a_file_that_comes_again_under_its_name_is_read_again(stream: Stream) -> None:
    stream.run()
    stream.arrive("a.jsonl", lines(record("new")))
    assert stream.run().counts.stored == 1
    assert (landed(stream), archived(stream)["a.jsonl"]) == ([], lines(record("new")))
