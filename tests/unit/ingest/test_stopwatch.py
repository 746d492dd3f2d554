"""How long the stages of a batch take, and how long its oldest file has waited."""

from datetime import UTC, datetime, timedelta

from messagestore_core.contract.run_report import BatchTimes
from messagestore_core.store.files import Batch, Range, SourceFile
from messagestore_core.store.offsets import OffsetBatch
from messagestore_jobs.ingest.stopwatch import Stopwatch

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)


def timed() -> Stopwatch:
    """After a batch of which each stage took a second longer than the one before."""
    clock = iter([0.0, 10.0, 11.0, 13.0, 16.0, 20.0])
    stopwatch = Stopwatch(lambda: next(clock))
    stopwatch.begin()
    for stage in ("read", "decide", "set_aside", "commit"):
        stopwatch.lap(stage)
    return stopwatch


def read_of(age: float) -> Range:
    return Range(SourceFile("s3a://landing/a", 9, NOW - timedelta(seconds=age)), 0, 9)


def test_each_stage_has_its_seconds_and_the_oldest_file_its_wait() -> None:
    batch = Batch(1, NOW, (read_of(30), read_of(61.5)))
    assert timed().times(batch, NOW) == BatchTimes(
        read_seconds=1, decide_seconds=2, set_aside_seconds=3, commit_seconds=4, waited_seconds=61.5
    )


def test_a_file_from_the_future_has_not_waited_and_offsets_have_no_time() -> None:
    assert timed().times(Batch(1, NOW, (read_of(-5),)), NOW).waited_seconds == 0
    assert timed().times(OffsetBatch(1, NOW, ()), NOW).waited_seconds is None
