"""Answers of the object store are lost, one at each kind of write of each kind of run: a store ends as if none was."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from messagestore_jobs.contract.run_document import (
    Archive,
    DeleteTask,
    EraseTask,
    FilesDestination,
    FilesSource,
    IngestTask,
    Lifecycle,
    MaintainTask,
    Match,
    Owner,
    PurgeTask,
    ReplayTask,
    Retry,
    Rule,
    RunDocument,
    Scrub,
    Selection,
    StreamDestination,
    Table,
)
from messagestore_jobs.contract.run_report import RunError
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.progress import Silent
from messagestore_jobs.store.folder import MARKER
from messagestore_jobs.store.history import last_note, open_table
from messagestore_jobs.store.objects import Objects
from messagestore_jobs.store.schemas import TABLES
from messagestore_jobs.store.storage import using
from support.external_writes import observing, patterns_in_code
from support.ingests import OWNER, RESOURCE, START, lines, record, write_file
from support.lifecycles import update
from support.lost_answers import losing
from support.objectstore import ObjectStore

HOUR = timedelta(hours=1)
LARGE = b'"' + b"x" * 50 + b'"'
ELSEWHERE = {
    # To Kafka.
    *("replay-transaction", "replay-staged-removed"),
    # After a run was cut off, or input was gone.
    *("archive-sweep", "archive-withdrawn", "plan-anew", "sweep-plan", "take-out", "sweep"),
    *("replay-erased", "replay-forgotten", "replay-placed"),
    # By a run that has an epoch, or on a store of an earlier release.
    *("claim", "upgrade-.+", "properties-.+"),
    # Of whole days, of updates that waited, of translators, and of what names an erased message elsewhere.
    *("delete-days", "pending-dropped", "translators", "erase-dead-letters", "erase-staged", "audit-hidden"),
}
"""Writes that this story has not, each of which has its own test; a name that is made up has its pattern."""
OWN_COLUMNS = {
    *("inserted_at", "inserted_date", "failed_at", "at", "updated_at", "modified_at"),
    *("run", "rules", "key", "message_key"),
}
OWN_WORDS = re.compile(
    r"run-\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(-[0-9a-f]{16,})+|[0-9a-f]{32,}"
    r"|(PerSecond|[vV]ersion|bytes)(_before|_after)?['\"]: ?([0-9.]+|null)"
)
"""Times, keys, digests, sizes, names of runs and speeds; and versions, as a run that is tried again claims anew."""
Task = IngestTask | PurgeTask | EraseTask | ReplayTask | MaintainTask | DeleteTask


@dataclass
class Site:
    """A bucket with a store, and the runs on it."""

    spark: SparkSession
    objects: ObjectStore
    bucket: str
    writes: set[str] = field(default_factory=set)
    runs: int = 0

    def run(self, task: Task, hour: int) -> RunError | None:
        self.runs += 1
        document = RunDocument(
            run=f"run-{self.runs}",
            resource=RESOURCE,
            table=Table(uri=f"s3a://{self.bucket}/orders", owner=OWNER),
            at=START + hour * HOUR,
            storage=(self.objects.entry(self.bucket),),
            task=task,
        )
        with observing(lambda name, moment: self.writes.add(name)):
            return execute(document, lambda: self.spark, Silent(), 0, lambda: START + hour * HOUR).error

    def contents(self) -> dict[str, Any]:
        """Rows of all tables, and the objects beside them."""
        found: dict[str, Any] = {}
        with using([self.objects.entry(self.bucket)], self.spark):
            for uri in (f"s3a://{self.bucket}/orders", f"s3a://{self.bucket}/copy"):
                if Objects(uri).exists(MARKER):
                    found |= {f"{uri} {name}": _rows(uri, name) for name in TABLES}
                    found[f"{uri} totals"] = repr(last_note(uri).totals)
            objects = Objects(f"s3a://{self.bucket}")
            for name in objects.names(recursive=True):
                if not re.search(r"/_delta_log/|\.parquet$|/$|key", name):
                    found[name] = (objects.read(name) or b"").decode()
        return {self._common(name): self._common(str(content)) for name, content in found.items()}

    def _common(self, text: str) -> str:
        return OWN_WORDS.sub("", text.replace(self.bucket, ""))


def _rows(uri: str, name: str) -> list[str]:
    rows = open_table(uri, name).to_pyarrow_table().to_pylist()
    return sorted(repr({column: v for column, v in row.items() if column not in OWN_COLUMNS}) for row in rows)


def message(message_id: str, **fields: Any) -> bytes:
    return record(message_id, time="2026-01-05T11:00:00Z", **fields)


def land(folder: Path) -> IngestTask:
    """Messages in two batches, with large payloads, duplicates and garbage; updates that match, wait and are none."""
    arrived = [
        [message("m1"), b"garbage a", message("m2", payload=LARGE)],
        [message("m3", streamName="other-1")],
        [message("m2", payload=LARGE), message("m4", payload=LARGE), b"garbage c"],
        [message("m5", payload=LARGE), message("m6", streamName="other-1"), message("m1")],
    ]
    for number, records in enumerate(arrived):
        write_file(folder / "messages" / f"{number}.jsonl", lines(*records), START - 2 * HOUR)
    updates = [update("m3", "FAILED"), update("m4", "COMPLETED"), update("m9", "FAILED"), b"garbage u"]
    write_file(folder / "updates" / "0.jsonl", lines(*updates), START - HOUR)
    return IngestTask(
        source_id="messages",
        source=FilesSource(uri=f"file://{folder}/messages", max_files_per_batch=2),
        lifecycle=Lifecycle(source_id="updates", source=FilesSource(uri=f"file://{folder}/updates")),
        retry=Retry(max_retries=2),
        claim_check_bytes=40,
    )


def story(bucket: str, taken: IngestTask) -> Iterator[tuple[int, Task]]:
    """A store's life: the hour of each run, and what it does."""
    root = f"s3a://{bucket}"
    yield 0, taken
    due = Selection(due_for_retry=True, limit=10, held_back="Retrying")
    yield 4, ReplayTask(job_id="again", rounds=True, select=due, destination=FilesDestination(uri=f"{root}/again"))
    yield 5, ReplayTask(job_id="files", destination=FilesDestination(uri=f"{root}/files"))
    copy = Table(uri=f"{root}/copy", owner=Owner(namespace="default", name="copy"))
    into = StreamDestination(table=copy, ingest=taken.model_copy(update={"lifecycle": None}))
    yield 6, ReplayTask(job_id="copy", destination=into)
    yield 7, ReplayTask(job_id="redriven", origin="DeadLetters", destination=into)
    scrubbed = Rule(name="scrubbed", match=Match(message_ids=("m4", "m6")))
    yield 8, PurgeTask(mode="Enforce", rules=(scrubbed,), action="Scrub", scrub=Scrub(payload_paths=("$",)))
    yield (
        9,
        PurgeTask(
            mode="Enforce",
            rules=(
                Rule(name="erased", match=Match(message_ids=("m1", "m2")), erase=True),
                Rule(name="other", match=Match(stream_names=("other-1",))),
            ),
            archive=Archive(uri=f"{root}/archive"),
            erase_within=HOUR,
            dead_letters_max_age=HOUR,
        ),
    )
    yield 12, EraseTask()
    yield 13, MaintainTask(log_retention=timedelta(0), deleted_file_retention=timedelta(0))
    yield 14, DeleteTask()


def test_each_run_ends_as_if_no_answer_had_been_lost(
    spark: SparkSession, object_store: ObjectStore, tmp_path: Path
) -> None:
    for bucket in ("heard", "unheard"):
        object_store.make_bucket(bucket)
    taken = land(tmp_path)
    wrong: dict[tuple[int, str], tuple[str | None, str | None]] = {}
    heard = Site(spark, object_store, "heard")
    with losing(object_store.endpoint, tmp_path / "lost") as way:
        unheard = Site(spark, ObjectStore(way.endpoint), "unheard")
        for (hour, task), (_, same) in zip(story("heard", taken), story("unheard", taken), strict=True):
            assert heard.run(task, hour) is None
            way.forget()
            lost = 0
            while (error := unheard.run(same, hour)) is not None:
                assert len(way.lost()) > lost, error
                lost = len(way.lost())
            assert way.lost()
            wrong |= {(hour, name): both for name, both in different(unheard.contents(), heard.contents()).items()}
    assert wrong == {}
    missed = {one for one in patterns_in_code() if not any(re.fullmatch(one, name) for name in unheard.writes)}
    assert {one.replace("\\", "") for one in missed} == ELSEWHERE


def different(found: dict[str, str], expected: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """What is not the same; pytest would look at all of it, letter by letter."""
    names = found.keys() | expected.keys()
    return {name: (found.get(name), expected.get(name)) for name in names if found.get(name) != expected.get(name)}
