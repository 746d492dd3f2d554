"""How long the stages of a batch take, and how long its records have waited."""

from datetime import UTC, datetime, timedelta

from messagestore_core.contract.ingest import BatchTimes
from messagestore_jobs.ingest.batch import Stopwatch
from messagestore_jobs.ingest.job import waited

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)


def timed() -> Stopwatch:
    """After a batch of which each stage took a second longer than the one before."""
    clock = iter([0.0, 10.0, 11.0, 13.0, 16.0, 20.0])
    stopwatch = Stopwatch(lambda: next(clock))
    stopwatch.begin()
    for stage in ("read", "decide", "set_aside", "commit"):
        stopwatch.lap(stage)
    return stopwatch


def test_each_stage_has_its_seconds() -> None:
    assert timed().times() == BatchTimes(read_seconds=1, decide_seconds=2, set_aside_seconds=3, commit_seconds=4)


def test_a_record_with_a_time_in_the_future_has_not_waited() -> None:
    assert waited(NOW - timedelta(seconds=61.5), NOW) == 61.5
    assert waited(NOW + timedelta(seconds=5), NOW) == 0
    assert waited(None, NOW) is None
