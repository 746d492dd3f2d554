"""Payloads in objects of their own: ``python -m tests.perf.claim_checks [MESSAGES]`` prints seconds for each step.

An S3 server on this machine holds store, source and copies. To measure earlier code, set PYTHONPATH to its ``core`` and
``spark_images``.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.perf import data

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Archive, Match, PurgeTask, Rule, Scrub
from messagestore_core.contract.records import Envelope, FilesSource
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.progress import Silent
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.job import run_ingest
from messagestore_jobs.purge.job import run_purge
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.session import local_session, using

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.objectstore import ENVIRONMENT, ObjectStore, running_object_store

MESSAGES = 4000
PAYLOAD_BYTES = 64 << 10
BUCKET = "perf"
_AT = datetime(2026, 1, 5, tzinfo=UTC)
_STREAMS = 100
_ALL = (Rule(name="all", match=Match(categories=("order",))),)


def steps(messages: int, server: ObjectStore) -> dict[str, float]:
    """Seconds of each step, each one run in a session that ingested some messages before."""
    spark = local_session(cores=2, memory="2g")
    root = server.make_bucket(BUCKET)
    _land(server, "warm-up", _STREAMS)
    _land(server, "landing", messages)
    with using([server.entry(BUCKET)], spark) as storage:

        def run(
            number: int,
            carry_out: Callable[[Run], object],
            task: IngestTask | PurgeTask | ReplayTask,
            to: str = "store",
        ) -> float:
            document = data.document(f"{root}/{to}", task, _AT + timedelta(days=number))
            open_folder(HeldStore.of(document.table, storage))
            begun = time.perf_counter()
            carry_out(Run.of(document, spark, Silent(), storage))
            return time.perf_counter() - begun

        run(0, run_ingest, _ingest(f"{root}/warm-up"), "warm")
        scrub = Scrub(payload_paths=("$.n",))
        return {
            "ingest": run(0, run_ingest, _ingest(f"{root}/landing")),
            "replay to files": run(
                1, run_replay, ReplayTask(job_id="perf", destination=FilesDestination(uri=f"{root}/out"))
            ),
            "scrub": run(2, run_purge, PurgeTask(mode="Enforce", rules=_ALL, action="Scrub", scrub=scrub)),
            "purge to an archive": run(
                3, run_purge, PurgeTask(mode="Enforce", rules=_ALL, archive=Archive(uri=f"{root}/archive"))
            ),
        }


def _land(server: ObjectStore, folder: str, messages: int) -> None:
    """Files of 500 records each."""
    for first in range(0, messages, 500):
        lines = (_record(n) for n in range(first, min(first + 500, messages)))
        with server.files().open_output_stream(f"{BUCKET}/{folder}/{first:08}.jsonl") as file:
            file.write("".join(lines).encode())


def _record(number: int) -> str:
    text = (hashlib.sha256(str(number).encode()).hexdigest() * (PAYLOAD_BYTES // 64))[:PAYLOAD_BYTES]
    record = {"messageId": f"m-{number}", "streamName": f"order-{number % _STREAMS}", "type": "Placed"}
    return json.dumps({**record, "payload": {"n": number, "text": text}}) + "\n"


def _ingest(landing: str) -> IngestTask:
    return IngestTask(
        source_id="perf",
        source=FilesSource(uri=landing),
        envelope=Envelope(format="Native"),
        claim_check_bytes=1024,
    )


def main(messages: int) -> None:
    """Print the table."""
    os.environ.update(ENVIRONMENT)
    with running_object_store() as server:
        found = steps(messages, server)
    table = Table("step", "seconds", "messages a second")
    for name, seconds in found.items():
        table.add_row(name, f"{seconds:.1f}", f"{messages / seconds:,.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES)
