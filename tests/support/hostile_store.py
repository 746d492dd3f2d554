"""A small store with all kinds of files that runs write, and runs that read it."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from messagestore.consuming import Consumer
from messagestore.errors import MessageStoreError
from messagestore.reader import Reader
from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Archive, ConsumedBy, PurgeTask, Rule
from messagestore_core.contract.records import FieldSource, FilesSource, Translator
from messagestore_core.contract.replay import Decider, ReplayTask, Routing, Selection, StartPoint, Subscription
from messagestore_core.contract.run_document import MaintainTask, Resource, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import AuditEntry, add_audit
from messagestore_core.store.cursors import Cursor, CursorObject, cursor_folder
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import store_id
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import raise_heads
from messagestore_core.store.refused import RefusedMessages
from messagestore_core.store.schemas import OFFSETS, PENDING_UPDATES
from messagestore_core.store.tombstones import add_tombstones
from messagestore_core.store.topics import GroupsNote, RestoredNote, TopicNote, note_groups, note_restored, note_topic
from messagestore_jobs.driver.execute import execute
from support.external_writes import observing
from support.forgeries import forget_logs
from support.ingests import OWNER, Stream, lines, record
from support.purges import CrashError
from support.replays import files_replay
from support.stores import add_history, add_rows, make_store, message, stored

NOW = datetime(2026, 1, 20, tzinfo=UTC)
CANARY = os.urandom(48).hex()
"""A text that only files outside the store contain."""
RESOURCE = Resource(kind="MessageStream", namespace="default", name="orders")
LARGE = "x" * 100
_BY_NAME = cursor_folder("default", "routes", "named")
SETTINGS: dict[str, Any] = {
    "claim_check_bytes": 50,
    "translators": (Translator(from_version=0, fields={"type": FieldSource(default="made")}),),
}

Runs = dict[str, Callable[[], str | None]]


def _stopping_before(name: str) -> Callable[[str, str], None]:
    def observer(write: str, moment: str) -> None:
        if (write, moment) == (name, "before"):
            raise CrashError(name)

    return observer


@dataclass
class Site:
    """A store in a folder, files around it, and a copy to restore it from.

    Claim checks have the URIs of their payloads, so the store always has the same path.
    """

    spark: SparkSession
    folder: Path
    stream: Stream = field(init=False)

    def __post_init__(self) -> None:
        self.stream = Stream(self.spark, self.folder / "site", dict(SETTINGS))

    @property
    def site(self) -> Path:
        return self.folder / "site"

    @property
    def store(self) -> Path:
        return self.site / "store"

    @property
    def table(self) -> Table:
        return self.stream.table

    @property
    def canary(self) -> Path:
        """A file beside the store."""
        return self.folder / "canary"

    def build(self) -> None:
        self._ingest()
        self._maintained()
        self._ingest()
        self._told_by_hand()
        assert self._failure(self._subscription()) is None
        assert self._consume() is None
        self._cut_off_purge()
        self._cut_off_replay()
        self.canary.write_text(CANARY)
        shutil.copytree(self.site, self.folder / "copy")

    def restore(self) -> None:
        """Restore it as it was built."""
        shutil.rmtree(self.site)
        shutil.copytree(self.folder / "copy", self.site)
        self.canary.write_text(CANARY)
        forget_logs(self.spark)

    def files(self) -> Iterator[str]:
        """All files of the store, by name."""
        for path in sorted(self.store.rglob("*")):
            if path.is_file():
                yield str(path.relative_to(self.store))

    def runs(self) -> Runs:
        """Each run by name; it returns its error, None if it succeeded."""
        self.stream.arrive("more.jsonl", lines(record("new", payload=LARGE), b"garbage"))
        out = f"{self.site}/out"
        documents = {
            "replay": files_replay(self.table, Path(out)),
            "ingest": self.stream.document(NOW),
            "subscription": self._subscription(),
            "replay into": self._replay_into(),
            "purge": self._purge(),
            "maintain": self._document(MaintainTask()),
        }
        runs: Runs = {"read": self._read, "consume": self._consume}
        return runs | {name: lambda document=document: self._failure(document) for name, document in documents.items()}

    def canary_is_told(self) -> list[str]:
        """The files with the canary's text, except its own."""
        needles = [CANARY.encode(), bytes.fromhex(CANARY)]
        return [
            str(path)
            for path in self.site.rglob("*")
            if path.is_file() and not path.is_symlink() and any(needle in path.read_bytes() for needle in needles)
        ]

    def _failure(self, document: RunDocument) -> str | None:
        report: RunReport = execute(document, lambda: self.spark, Silent(), 1, lambda: datetime.now(UTC))
        return None if report.error is None else f"{report.error.reason}: {report.error.message}"

    def _read(self) -> str | None:
        """Read the store as an application does."""
        try:
            with Reader(self.table.uri, on_broken=lambda _: None) as store:
                read = [*store.get_messages(batch_size=-1), *store.dead_letters(batch_size=-1), store.statistics()]
                store.stream_version("order-1")
                read += [row for number in range(3) for row in store.history(f"m0-{number}")]
        except MessageStoreError as error:
            return f"{type(error).__name__}: {error}"
        assert CANARY not in repr(read)
        return None

    def _consume(self) -> str | None:
        """Consume the store as an application that dies, and doesn't give its slots back."""
        try:
            consumer = Consumer(self.table.uri, "billing", slots=2, on_broken=lambda _: None, clock=lambda: NOW)
            read = [consumer.receive_nowait() for _ in range(3)]
        except MessageStoreError as error:
            return f"{type(error).__name__}: {error}"
        assert CANARY not in repr(read)
        return None

    def _ingest(self) -> None:
        number = self.stream.runs
        small = [record(f"m{number}-{i}") for i in range(3)]
        self.stream.arrive(f"{number}.jsonl", lines(*small, record(f"large-{number}", payload=LARGE), b"garbage"))
        # A run that may have more batches writes checksum files.
        self.stream.run(NOW - timedelta(days=2) + timedelta(hours=number), batch_interval=timedelta(seconds=1))

    def _maintained(self) -> None:
        assert self._failure(self._document(MaintainTask())) is None

    def _told_by_hand(self) -> None:
        uri = self.table.uri
        raise_heads(HeldStore(uri), pa.table({"stream_name": ["order-1"], "next_position": [20]}), 30)
        add_tombstones(HeldStore(uri), [("erased", 1)], NOW, "run")
        add_audit(HeldStore(uri), AuditEntry(NOW, "Purge", "run", RESOURCE, {"preview": "p"}, 1, 2))
        waiting = {
            "message_id": "later",
            "status": "FAILED",
            "received_at": NOW,
            "source_id": "u",
            "batch": 1,
            "row": 0,
        }
        add_rows(HeldStore(uri), "pending_updates", pa.Table.from_pylist([waiting], schema=PENDING_UPDATES))
        read = {"source_id": "k", "batch": 1, "at": NOW, "topic": "t", "topic_id": "i", "partition": 0}
        read |= {"start": 0, "end": 1, "latest": 1}
        add_rows(HeldStore(uri), "offsets", pa.Table.from_pylist([read], schema=OFFSETS))
        changed = [row for row in stored(uri) if row["global_position"] < 3]
        add_history(uri, changed, error="why")
        noted = TopicNote(topic="t", topic_id="i", partitions=1, replicas=1, configuration={}, noted_at=NOW)
        note_topic(HeldStore(uri), noted)
        note_restored(HeldStore(uri), RestoredNote(topic="t", topic_id="i", job="job", noted_at=NOW, ends={0: 1}))
        note_groups(HeldStore(uri), GroupsNote(topic="t", topic_id="i", offsets={"g": {0: 1}}, noted_at=NOW))
        own = store_id(Store(uri))
        by_name = Cursor(store=own, subscription="default/routes", global_position=30, run="run", job="job")
        CursorObject(HeldStore(uri), "default", "routes", own, "named").write(by_name)
        RefusedMessages(Store(uri), _BY_NAME, own).note(HeldStore(uri), 0, [1, 2])

    def _purge(self) -> RunDocument:
        archive = Archive(uri=f"file://{self.site}/archive", format="JSONLines")
        rules = (
            Rule(name="first", max_messages_per_stream=6),
            Rule(name="handled", consumed_by=ConsumedBy(consumers=("billing",))),
        )
        return self._document(PurgeTask(mode="Enforce", rules=rules, archive=archive))

    def _cut_off_purge(self) -> None:
        report = self._cut_off(self._purge(), "archive-files")
        assert "archive-files" in report

    def _replay_into(self) -> RunDocument:
        other = Table(uri=f"file://{self.site}/other", owner=OWNER)
        target = StreamDestination(
            table=self.table, ingest=IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere"))
        )
        # Messages that may not stay selected are listed in a file.
        task = ReplayTask(job_id="job-2", destination=target, select=Selection(statuses=("RECEIVED",)))
        return RunDocument(run="replay-2", resource=RESOURCE, table=other, at=NOW, task=task)

    def _subscription(self) -> RunDocument:
        begun = Subscription(start=StartPoint(at="Beginning"))
        # It gets what another destination leaves to it.
        others = Selection(routing=Routing(unless=("position > 0",), deciders=(Decider(folder=_BY_NAME),)))
        return files_replay(self.table, self.site / "sent", subscription=begun, select=others)

    def _cut_off_replay(self) -> None:
        make_store(self.site / "other", [message(1), message(2)])
        report = self._cut_off(self._replay_into(), "replay-records")
        assert "replay-records" in report, report

    def _cut_off(self, document: RunDocument, write: str) -> str:
        with observing(_stopping_before(write)):
            return self._failure(document) or ""

    def _document(self, task: Any) -> RunDocument:
        return RunDocument(run=f"run-{time.monotonic_ns()}", resource=RESOURCE, table=self.table, at=NOW, task=task)
