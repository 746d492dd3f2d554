"""Two local runs on one table at once: the second waits or says so, and never writes."""

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.store.errors import TableBusyError
from messagestore_jobs.lock import LOCK_SUFFIX, writing
from support.external_writes import observing
from support.ingests import Stream, lines, record
from support.locks import another_process


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    stream = Stream(spark, tmp_path)
    stream.arrive("a.jsonl", lines(record("m1")))
    return stream


def run(stream: Stream, wait: float) -> None:
    with writing(stream.table.uri, stream.spark, wait, stream.heard.say):
        stream.run()


def test_the_second_run_says_that_it_waits_and_gives_up_without_a_write(stream: Stream) -> None:
    writes: list[str] = []
    with (
        another_process(f"{stream.folder}/store{LOCK_SUFFIX}", "LOCK_EX"),
        observing(lambda name, _: writes.append(name)),
        pytest.raises(TableBusyError, match="another run is writing"),
    ):
        run(stream, wait=0.5)
    assert writes == []
    assert not (stream.folder / "store").exists()
    assert stream.heard.said == [f"another run is writing {stream.table.uri}; waiting for it to end"]


def test_the_second_run_goes_on_when_the_first_has_ended(stream: Stream) -> None:
    with another_process(f"{stream.folder}/store{LOCK_SUFFIX}", "LOCK_EX") as first:
        threading.Timer(0.5, first.kill).start()
        run(stream, wait=60)
    assert stream.ids() == ["m1"]


def test_a_run_that_was_killed_holds_nothing(stream: Stream) -> None:
    with another_process(f"{stream.folder}/store{LOCK_SUFFIX}", "LOCK_EX") as first:
        first.kill()
        first.wait()
        run(stream, wait=0)
    assert stream.ids() == ["m1"]


def test_a_second_run_in_one_process_is_refused_too(stream: Stream) -> None:
    with writing(stream.table.uri, stream.spark, 0, stream.heard.say), pytest.raises(TableBusyError):
        run(stream, wait=0)
    run(stream, wait=0)
    assert stream.ids() == ["m1"]
