"""Makes ``store.tar.gz``: a store of the current code, with unfinished work that a later release continues.

Run it with the release before: see README.md. A store is identified by its folder, so this one is always made and
unpacked in the same folder.
"""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from messagestore_core.contract.destinations import FilesDestination, StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Archive, Hold, Match, PurgeTask, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask, Selection
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.fence import observing
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.replay import chunks
from messagestore_jobs.session import local_session

FOLDER = Path("/tmp/messagestore-upgrade")
URI = f"file://{FOLDER}"
AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
MESSAGES = 20
_LARGE = "x" * 400


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    arrive()
    spark = local_session(cores=2, memory="1g")
    chunks._CHUNK_ROWS = 2

    def run(document: RunDocument, control: object = None) -> None:
        told = execute(document, lambda: spark, Silent(), 0, lambda: AT, control)
        sys.stderr.write(f"{document.run} {told.state} {told.error}\n")

    first = documents()
    run(first["ingest"])
    run(first["erasure"])
    run(first["replay"], Suspending())
    with observing(cut_off_before("heads")):
        run(first["purge"])
    spark.stop()
    (FOLDER / "documents").mkdir()
    for name, document in first.items():
        (FOLDER / "documents" / f"{name}.json").write_text(document.model_dump_json(by_alias=True, exclude_none=True))
    subprocess.run(["tar", "-C", FOLDER, "-czf", sys.argv[1], "."], check=True)


def arrive() -> None:
    """Land messages of three streams, odd ones completed, one with a claim check; two bad records, one too large."""
    records = [record(number) for number in range(1, MESSAGES + 1)]
    records[4]["payload"] = {"n": 5, "large": "x" * 100}
    lines = [json.dumps(one) for one in records]
    lines[7:7] = ["garbage", json.dumps({**record(99), "payload": _LARGE})]
    landing = FOLDER / "landing"
    landing.mkdir(parents=True)
    (landing / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    moment = (AT - timedelta(days=1)).timestamp()
    os.utime(landing / "a.jsonl", (moment, moment))


def record(number: int) -> dict[str, object]:
    """A Native record."""
    return {
        "messageId": f"m{number}",
        "streamName": f"order-{number % 3}",
        "status": "COMPLETED" if number % 2 else "RECEIVED",
        "time": "2026-01-04T00:00:00Z",
        "payload": {"n": number},
    }


def documents() -> dict[str, RunDocument]:
    """The run documents, by name; a later release continues the runs of the last two."""
    table = Table(uri=f"{URI}/store", owner=Owner(namespace="default", name="orders"), epoch=5)
    source = FilesSource(uri=f"{URI}/landing")
    ingest = IngestTask(source_id="landing", source=source, max_payload_bytes=300, claim_check_bytes=60)
    erasure = Rule(name="forget", match=Match(message_ids=("m3",)), erase=True)
    done = Rule(name="done", statuses=("COMPLETED",))
    hold = Hold(name="audit", match=Match(message_ids=("m7",)))
    archive = Archive(uri=f"{URI}/archive")
    to = FilesDestination(uri=f"{URI}/sent")
    redrive = ReplayTask(
        job_id="redrive",
        origin="DeadLetters",
        destination=StreamDestination(
            table=table, ingest=ingest.model_copy(update={"source_id": "redriven", "max_payload_bytes": 1000})
        ),
    )
    tasks = {
        "ingest": ("MessageStream", ingest),
        "erasure": ("RetentionPolicy", PurgeTask(mode="Enforce", rules=(erasure,), erase_within=timedelta(days=30))),
        "replay": ("ReplayJob", ReplayTask(job_id="again", select=Selection(statuses=("RECEIVED",)), destination=to)),
        "purge": ("RetentionPolicy", PurgeTask(mode="Enforce", rules=(done,), holds=(hold,), archive=archive)),
        "redrive": ("ReplayJob", redrive),
    }
    return {
        name: RunDocument(
            run=f"{name}-1",
            resource=Resource(kind=kind, namespace="default", name=name),
            table=table.model_copy(update={"epoch": None}) if name == "replay" else table,
            at=AT,
            task=task,
        )
        for name, (kind, task) in tasks.items()
    }


class Suspending:
    """Suspends a replay after its first chunk."""

    def __init__(self) -> None:
        self.chunks = 0

    def suspended(self) -> bool:
        return self.chunks > 0

    def messages_per_second(self) -> float | None:
        return None

    def reached(self, outcome: ReplayOutcome) -> None:
        self.chunks += 1


def cut_off_before(name: str):
    """An observer of external writes that ends a run before one of them."""

    def observer(at: str, moment: str) -> None:
        if (at, moment) == (name, "before"):
            raise RuntimeError(f"cut off before {name}")

    return observer


if __name__ == "__main__":
    main()
