"""A driver's process that gets SIGTERM stops at its next commit, was stopped, and leaves the rest to the next run."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestOutcome
from messagestore_core.contract.purge import Archive, Match, PurgeOutcome, Rule, Scrub
from messagestore_core.contract.run_document import DeleteTask, MaintainTask, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.handle import Store
from messagestore_jobs.driver.execute import execute
from support.crash import PATH, leave_at
from support.ingests import Stream, lines, record
from support.long import few
from support.maintenance import RESOURCE
from support.purges import erase_document, files_below, purge, purge_document
from support.replays import files_replay, sent
from support.stores import START, make_store, message, positions
from support.waiting import scaled

NOW = START + timedelta(days=3)
NUMBERS = list(range(1, 7))


class Kind(NamedTuple):
    """Two runs of one kind, the write before which the first gets SIGTERM, and how far the work is."""

    first: RunDocument
    next: RunDocument
    write: str
    reached: Callable[[], Any]
    after_first: Any
    after_next: Any


def ingest(spark: SparkSession, folder: Path) -> Kind:
    stream = Stream(spark, folder, {"max_files_per_batch": 1})
    for number in NUMBERS[:3]:
        stream.arrive(f"{number}.jsonl", lines(record(f"m{number}")))
    return Kind(stream.document(), stream.document(), "messages", stream.ids, ["m1"], ["m1", "m2", "m3"])


def replay(spark: SparkSession, folder: Path) -> Kind:
    make_store(folder / "store", map(message, NUMBERS))
    stream = Stream(spark, folder)
    first = files_replay(stream.table, folder / "out")
    again = first.model_copy(update={"run": "replay-2"})
    return Kind(first, again, "replay-frozen", lambda: sent(folder / "out"), [], NUMBERS)


def a_purge(write: str, left: list[int], **task: Any) -> Callable[[SparkSession, Path], Kind]:
    def make(spark: SparkSession, folder: Path) -> Kind:
        old = [message(n, inserted_at=START - timedelta(days=n // 4)) for n in NUMBERS]
        table = make_store(folder / "store", old)
        rules = (Rule(name="most", match=Match(message_ids=tuple(f"m{n}" for n in NUMBERS[:5]))),)
        asked = {"rules": rules, "archive": Archive(uri=f"file://{folder}/archive"), **task}

        def reached() -> tuple[list[int], int]:
            return positions(table.uri), sum(
                row["action"] in ("Purge", "Scrub") for row in read_audit(Store(table.uri))
            )

        kept = NUMBERS if task else [6]
        first, again = (purge_document(table, NOW, run=f"purge-{n}", **asked) for n in (1, 2))
        return Kind(first, again, write, reached, (left, 0), (kept, 1))

    return make


def erasure(spark: SparkSession, folder: Path) -> Kind:
    table = make_store(folder / "store", map(message, NUMBERS))
    rules = (Rule(name="one", match=Match(message_ids=("m1",)), erase=True),)
    purge(spark, table, NOW, rules=rules, erase_within=timedelta(0))

    def reached() -> tuple[int, int]:
        """How many erasures are noted, and how many files there are; one of two has the erased bytes."""
        noted = sum(row["action"] == "Erase" for row in read_audit(Store(table.uri)))
        return noted, len(list((folder / "store" / "messages").glob("inserted_date=*/*.parquet")))

    first, again = (erase_document(table, NOW, run=f"erase-{n}") for n in (1, 2))
    return Kind(first, again, "erase-vacuum", reached, (0, 1), (1, 1))


def maintenance(spark: SparkSession, folder: Path) -> Kind:
    days = [START + timedelta(days=n % 2) for n in NUMBERS]
    table = make_store(folder / "store", *([message(n, inserted_at=at)] for n, at in zip(NUMBERS, days, strict=True)))
    first, again = (
        RunDocument(run=f"maintain-{n}", resource=RESOURCE, table=table, at=NOW, task=MaintainTask()) for n in (1, 2)
    )
    files = Store(table.uri)
    return Kind(first, again, "cluster-messages", lambda: len(files.table("messages").file_uris()), 4, 2)


def deletion(spark: SparkSession, folder: Path) -> Kind:
    table = make_store(folder / "store", map(message, NUMBERS))
    first, again = (
        RunDocument(run=f"delete-{n}", resource=RESOURCE, table=table, at=NOW, task=DeleteTask()) for n in (1, 2)
    )

    def reached() -> tuple[bool, bool]:
        files = files_below(table.uri)
        return any(name.startswith("audit/") for name in files), "_messagestore.json" in files

    return Kind(first, again, "delete-audit", reached, (False, True), (False, False))


KINDS = {
    "ingest": ingest,
    "replay": replay,
    "purge that archives": a_purge("archive-files", NUMBERS),
    "purge that removes days": a_purge("delete-days", [4, 5, 6]),
    "scrub": a_purge("archive-seal", NUMBERS, action="Scrub", scrub=Scrub(payload_paths=("$.n",))),
    "erasure": erasure,
    "maintenance": maintenance,
    "deletion": deletion,
}


@pytest.mark.parametrize("kind", few(KINDS, "replay", "deletion"))
def test_a_run_that_gets_sigterm_stops_at_its_next_commit_and_the_next_does_the_rest(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    run = KINDS[kind](spark, tmp_path)
    report = leave_at(spark, run.first, run.write, tmp_path)
    assert (report.state, report.error.reason) == ("Failed", "RunStopped")
    assert report.error.message.startswith("told to stop; ")
    assert run.reached() == run.after_first
    after = execute(run.next, lambda: spark, Silent(), 0, lambda: NOW)
    assert (after.state, after.error) == ("Succeeded", None)
    assert run.reached() == run.after_next
    check_counts(report, after)


def check_counts(stopped: RunReport, after: RunReport) -> None:
    """What the first run did is counted, by it or by the next."""
    if isinstance(after.outcome, IngestOutcome):
        assert (stopped.outcome.counts.stored, after.outcome.counts.stored) == (1, 2)
    if isinstance(after.outcome, PurgeOutcome):
        done = after.outcome.purge
        assert (done.purged + done.scrubbed, done.archived) == (5, 5)


STUCK = """
import ctypes
from messagestore_jobs.driver import main

def execute(*_, **__):
    print("stuck", flush=True)
    mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    while True:
        libc.pthread_mutex_lock(mutex)

main.execute = execute
main.main()
"""
"""A driver whose main thread is for ever within a library, where Python runs no handler of signals."""


def test_a_run_that_cannot_stop_in_time_reports_that_even_from_within_a_library_call(tmp_path: Path) -> None:
    document = erase_document(make_store(tmp_path / "store", [message(1)]), NOW)
    (tmp_path / "run.json").write_text(document.model_dump_json(by_alias=True))
    (tmp_path / "message").touch()
    environment = {
        "MESSAGESTORE_RUN_DOCUMENT": f"{tmp_path}/run.json",
        "MESSAGESTORE_TERMINATION_LOG": f"{tmp_path}/message",
        "MESSAGESTORE_GRACE_SECONDS": "9",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK],
        env={**os.environ, "PYTHONPATH": PATH, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "stuck\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(scaled(60)) == 143
    report = RunReport.model_validate_json((tmp_path / "message").read_text())
    assert report.error.reason == "RunStopped"
    assert "did not end in time" in report.error.message
