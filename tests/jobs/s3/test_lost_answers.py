"""The object store's answers are lost, one at each kind of write of each kind of run.

The store ends like one that received every answer: a store that grows old like one without maintenance, and a store
with cut-off runs like one that was cut off at the same writes.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.base import RunError
from messagestore_core.contract.destinations import FilesDestination, StreamDestination
from messagestore_core.contract.ingest import IngestTask, Lifecycle, Retry
from messagestore_core.contract.purge import Archive, EraseTask, Hold, Match, PurgeTask, Rule, Scrub
from messagestore_core.contract.records import FilesSource, Translator
from messagestore_core.contract.replay import ReplayTask, Selection
from messagestore_core.contract.run_document import DeleteTask, MaintainTask, RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import MARKER
from messagestore_core.store.objects import Objects
from messagestore_core.store.schemas import HISTORY, TABLES
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.driver.folders import granted_tables
from messagestore_jobs.replay import freeze
from messagestore_jobs.session import using
from support.external_writes import observing, patterns_in_code
from support.ingests import OWNER, RESOURCE, START, lines, record, write_file
from support.lifecycles import update
from support.lost_answers import losing
from support.objectstore import ObjectStore
from support.replays import Crash, Suspending

pytestmark = pytest.mark.usefixtures("index_merged_often")

HOUR = timedelta(hours=1)
HALF_A_YEAR = 183 * 24
LARGE = b'"' + b"x" * 50 + b'"'
OF_WHAT_WAS_CUT_OFF = {
    *("forget-notes", "tombstones-withdrawn"),
    *("take-out", "sweep", "archive-withdrawn", "archive-sweep", "sweep-plan", "replay-erased", "replay-forgotten"),
}
"""Writes of a run that continues a cut-off one, or that misses what is gone since."""
ELSEWHERE = {
    # From and to Kafka: tests/jobs/kafka.
    *("plan-anew", "replay-anchor", "replay-transaction", "replay-staged-removed", "erase-staged"),
    # To topics that messages name, and of topics that are put back: tests/jobs/kafka.
    *("refused", "refused-forgotten", "topic-noted", "groups-noted", "topic-restored"),
    # To an endpoint: tests/jobs/http.
    *("replay-sent", "replay-set-aside"),
    # Of subscriptions: test_cursors.py.
    "cursor",
    # Of many rows, and after an interruption: tests/jobs/index.
    *("index-parts", "erase-index"),
    # Of ingested files: tests/unit/source, and tests/jobs/ingest/test_after_ingest.py.
    *("archive-file", "delete-file", "cut-noted", "cut-asked"),
    # After a change of the spec: tests/jobs/ingest/test_changed_spec.py.
    *("dead-letters-withdrawn", "claim-withdrawn", "plan-forgotten"),
    # Of files that are read again: tests/jobs/ingest/test_read_again.py.
    *("dead-letters-closed", "dead-letters-reopened"),
    # On a store of an earlier release: tests/jobs/upgrade.
    *("upgrade-.+", "properties-.+"),
    # On a store of an earlier release that no operator runs: tests/unit/store.
    "note-.+",
    # Of many runs: tests/jobs/s3/test_requests.py.
    "plan-compact",
    # Of `messagestore repair`: tests/unit/cli.
    *("repair-.+", "repair-index", "repair-protocol-.+"),
}
"""Writes that no story here has, each with its own test; composed names as patterns."""
OWN_COLUMNS = {
    *("inserted_at", "inserted_date", "failed_at", "at", "updated_at", "modified_at"),
    *("run", "rules", "key", "message_key", "table_version"),
}
OWN_WORDS = re.compile(
    r"run-\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(-[0-9a-f]{16,})+|[0-9a-f]{32,}"
    r"|(PerSecond|[vV]ersion|bytes)(_before|_after|Before|After)?['\"]: ?([0-9.]+|null)"
)
"""Times, keys, digests, sizes, run names and speeds; and versions, as a repeated run claims the store again."""
FILES = re.compile(r'"files": \[\n    \{.*?\n  \]', re.DOTALL)
"""Files of an archive: a compacted table gives fewer."""
Task = IngestTask | PurgeTask | EraseTask | ReplayTask | MaintainTask | DeleteTask


@dataclass
class Site:
    """A bucket with a store, and the runs on it."""

    spark: SparkSession
    objects: ObjectStore
    bucket: str
    writes: set[str] = field(default_factory=set)
    runs: int = 0
    noted: dict[str, int] = field(default_factory=dict)
    """For each table the version up to which all commits have notes."""

    def run(self, event: "Event") -> RunError | None:
        """Do one run, under its own epoch, to its end or to where it is cut off."""
        self.runs += 1
        at = START + event.hour * HOUR
        document = RunDocument(
            run=f"run-{self.runs}",
            resource=RESOURCE,
            table=Table(
                uri=f"s3a://{self.bucket}/orders", owner=OWNER, remember_purged=timedelta(days=1), keeps_history=True
            ),
            at=at,
            storage=(self.objects.entry(self.bucket),),
            task=self._task(event.task),
        )
        if document.table in granted_tables(document):
            document = document.model_copy(update={"table": self._granted(document.table)})
        control = Suspending(0) if event.suspended else None
        with observing(self._observer(event.cut)), suppress(Crash):
            error = execute(document, lambda: self.spark, Silent(), 0, lambda: at, control).error
            return None if event.suspended and error is not None and error.reason == "RunStopped" else error
        return None

    def _observer(self, cut: str) -> Callable[[str, str], None]:
        def observer(name: str, moment: str) -> None:
            self.writes.add(name)
            if (name, moment) == (cut, "after"):
                raise Crash

        return observer

    def _granted(self, table: Table) -> Table:
        return table.model_copy(update={"epoch": self.runs})

    def _task(self, task: Task) -> Task:
        """The task; a replay into a stream has the run's epoch there, too."""
        if not isinstance(task, ReplayTask) or not isinstance(task.destination, StreamDestination):
            return task
        into = task.destination.model_copy(update={"table": self._granted(task.destination.table)})
        return task.model_copy(update={"destination": into})

    def contents(self) -> dict[str, str]:
        """Rows of all tables, and the objects beside them."""
        found: dict[str, str] = {}
        with using([self.objects.entry(self.bucket)], self.spark) as storage:
            for uri in (f"s3a://{self.bucket}/orders", f"s3a://{self.bucket}/copy"):
                store = Store(uri, storage)
                if store.objects().exists(MARKER):
                    self._refuse_commits_without_notes(store)
                    tables = (*TABLES, HISTORY) if HISTORY in store.existing_tables() else TABLES
                    found |= {f"{uri} {name}": self._rows(store, name) for name in tables}
                    found[f"{uri} totals"] = repr(last_note(store).totals)
            objects = Objects(f"s3a://{self.bucket}", storage)
            for name in objects.names(recursive=True):
                # What the last run said names versions, and times of the machine.
                if not re.search(r"/_delta_log/|/_index/|\.parquet$|/$|key|_ended\.json$", name):
                    found[name] = FILES.sub("", (objects.read(name) or b"").decode())
        return {self._common(name): self._common(content) for name, content in found.items()}

    def _refuse_commits_without_notes(self, store: Store) -> None:
        for name in TABLES:
            place, newest = store.path(name), store.table(name).version()
            for version in range(self.noted.get(place, -1) + 1, newest + 1):
                entry = store.entry(name, version)
                assert entry is None or entry.tables is not None, (place, version, entry)
            self.noted[place] = newest

    def _rows(self, store: Store, name: str) -> str:
        rows = store.table(name).to_pyarrow_table().to_pylist()
        kept = ({column: v for column, v in row.items() if column not in OWN_COLUMNS} for row in rows)
        return "\n".join(sorted(self._common(repr(row)) for row in kept))

    def _common(self, text: str) -> str:
        return OWN_WORDS.sub("", text.replace(self.bucket, ""))


def message(message_id: str, **fields: Any) -> bytes:
    return record(message_id, time="2026-01-05T11:00:00Z", **fields)


def land(folder: Path) -> IngestTask:
    """Land two batches of messages, with large payloads, duplicates and garbage; updates match, wait or are garbage."""
    arrived = [
        [message("m1"), b"garbage about m1", message("m2", payload=LARGE)],
        [message("m3", streamName="other-1")],
        [message("m2", payload=LARGE), message("m4", payload=LARGE), b"garbage c"],
        [message("m5", streamName="other-1"), message("m6", payload=LARGE), message("m1")],
    ]
    for number, records in enumerate(arrived):
        write_file(folder / "messages" / f"{number}.jsonl", lines(*records), START - 2 * HOUR)
    updates = [update("m3", "FAILED"), update("m4", "COMPLETED"), update("m9", "FAILED"), b"garbage u"]
    write_file(folder / "updates" / "0.jsonl", lines(*updates), START - HOUR)
    return IngestTask(
        source_id="messages",
        source=FilesSource(uri=f"file://{folder}/messages", max_files_per_batch=2),
        lifecycle=Lifecycle(
            source_id="updates",
            source=FilesSource(uri=f"file://{folder}/updates"),
            pending_for=timedelta(days=1000),
        ),
        retry=Retry(max_retries=2),
        claim_check_bytes=40,
        translators=(Translator(from_version=0),),
    )


def land_more(folder: Path) -> None:
    """Land the message that an update waits for, and two that came before, one of which has been erased."""
    write_file(folder / "messages" / "4.jsonl", lines(message("m9"), message("m1"), message("m4")), START + HOUR)


class Event(NamedTuple):
    """An event in a store's life: hours from its beginning, and the task that runs then."""

    hour: int
    task: Task
    suspended: bool = False
    """Whether the user suspends the replay before it has sent anything."""
    ages: bool = False
    """Whether only the store that grows old does it."""
    cut: str = ""
    """The run is cut off after its first write with this name."""


Story = Callable[[str, Path], Iterator[Event]]


def grows_old(bucket: str, folder: Path) -> Iterator[Event]:
    """A year and a half, with two replays suspended in the middle."""
    root, year = f"s3a://{bucket}", 2 * HALF_A_YEAR
    taken = land(folder)
    yield Event(0, taken)
    yield Event(HALF_A_YEAR, forgotten(), ages=True)

    due = Selection(due_for_retry=True, limit=10, held_back="Retrying")
    again = ReplayTask(job_id="again", rounds=True, select=due, destination=FilesDestination(uri=f"{root}/again"))
    yield Event(HALF_A_YEAR + 1, again)
    paused = ReplayTask(job_id="paused", destination=FilesDestination(uri=f"{root}/paused"))
    of_orders = Selection(categories=("order",))
    orders = ReplayTask(job_id="orders", select=of_orders, destination=FilesDestination(uri=f"{root}/orders-again"))
    yield Event(HALF_A_YEAR + 2, paused, suspended=True)
    yield Event(HALF_A_YEAR + 2, orders, suspended=True)
    yield Event(HALF_A_YEAR + 3, ReplayTask(job_id="files", destination=FilesDestination(uri=f"{root}/files")))
    copy = Table(uri=f"{root}/copy", owner=Owner(namespace="default", name="copy"))
    into = StreamDestination(table=copy, ingest=taken.model_copy(update={"lifecycle": None}))
    yield Event(HALF_A_YEAR + 4, ReplayTask(job_id="copy", destination=into))
    yield Event(HALF_A_YEAR + 5, ReplayTask(job_id="redriven", origin="DeadLetters", destination=into))
    yield Event(year, forgotten(oldest_replay=START + (HALF_A_YEAR + 2) * HOUR), ages=True)

    other = Rule(name="other", match=Match(stream_names=("other-1",), message_ids=("m1", "m3", "m5")))
    yield Event(year + 1, PurgeTask(mode="Enforce", rules=(other,), archive=Archive(uri=f"{root}/archive")))
    yield Event(year + 2, paused)
    erased = Rule(name="erased", match=Match(message_ids=("m1", "m2")), erase=True)
    erasure = PurgeTask(mode="Enforce", rules=(erased,), erase_within=HOUR, dead_letters_max_age=HOUR)
    yield Event(year + 3, erasure)
    yield Event(year + 4, orders)
    scrubbed = Rule(name="scrubbed", match=Match(message_ids=("m4",)))
    what = Scrub(payload_paths=("$",), error=True)
    scrub = PurgeTask(mode="Enforce", rules=(scrubbed,), action="Scrub", scrub=what)
    yield Event(year + 5, scrub)
    land_more(folder)
    yield Event(year + 6, taken)
    yield Event(year + HALF_A_YEAR, forgotten(), ages=True)

    yield Event(year + HALF_A_YEAR + 1, EraseTask())
    yield Event(year + HALF_A_YEAR + 2, forgotten())
    whole_days = Rule(name="all", max_age=HOUR)
    yield Event(year + HALF_A_YEAR + 3, PurgeTask(mode="Enforce", rules=(whole_days,)))
    yield Event(year + HALF_A_YEAR + 4, DeleteTask())


def is_cut_off(bucket: str, folder: Path) -> Iterator[Event]:
    """Runs that continue cut-off ones after a file was deleted, messages were erased and others held."""
    root = f"s3a://{bucket}"
    taken = land(folder)
    yield Event(0, taken, cut="plan")
    (folder / "messages" / "0.jsonl").unlink(missing_ok=True)
    yield Event(1, taken, cut="claim-check")
    yield Event(2, taken)

    copy = Table(uri=f"{root}/copy", owner=Owner(namespace="default", name="copy"))
    into = StreamDestination(table=copy, ingest=taken.model_copy(update={"lifecycle": None}))
    due = Selection(due_for_retry=True, limit=10, held_back="Retrying")
    again = ReplayTask(job_id="again", rounds=True, select=due, destination=into)
    yield Event(3, again)
    write_file(folder / "updates" / "1.jsonl", lines(update("m3", "FAILED")), START + 4 * HOUR)
    yield Event(5, taken)
    yield Event(6, again)

    files = ReplayTask(job_id="files", destination=FilesDestination(uri=f"{root}/files"))
    yield Event(7, files, cut="replay-seal")
    erased = Rule(name="erased", match=Match(message_ids=("m2", "m5")), erase=True)
    erasure = PurgeTask(mode="Enforce", rules=(erased,), erase_within=timedelta(days=1))
    yield Event(8, erasure, cut="tombstones")
    yield Event(8, held(erasure, "m5"))
    yield Event(9, files)

    old = Rule(name="old", match=Match(message_ids=("m1", "m3", "m4")))
    purge = PurgeTask(mode="Enforce", rules=(old,), archive=Archive(uri=f"{root}/archive"))
    yield Event(10, purge, cut="archive-seal")
    yield Event(11, held(purge, "m1", "m3", "m4"))
    yield Event(12, purge, cut="archive-seal")
    yield Event(13, held(purge, "m1"), cut="forget-plan")
    yield Event(14, held(purge, "m1"))

    # Only objects older than a day, by the object store's own clock, are swept.
    late = 20 * HALF_A_YEAR
    yield Event(late, forgotten())

    scrubbed = Rule(name="scrubbed", match=Match(message_ids=("m6",)))
    scrub = PurgeTask(mode="Enforce", rules=(scrubbed,), action="Scrub", scrub=Scrub(payload_paths=("$",)))
    yield Event(late + 1, scrub, cut="claim-check-rewrite")
    yield Event(late + 2, EraseTask())
    yield Event(late + 3, scrub)


def held(purge: PurgeTask, *message_ids: str) -> PurgeTask:
    """The same purge with a hold that was set meanwhile."""
    return purge.model_copy(update={"holds": (Hold(name="late", match=Match(message_ids=message_ids)),)})


def forgotten(**task: Any) -> MaintainTask:
    """A maintenance that keeps only the old versions that are still needed."""
    return MaintainTask(log_retention=timedelta(0), deleted_file_retention=timedelta(0), **task)


@pytest.mark.long
def test_each_run_of_a_store_that_grows_old_ends_as_if_no_answer_had_been_lost_and_nothing_removed(
    spark: SparkSession, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that a replay that leaves some messages out has to record which ones it has.
    monkeypatch.setattr(freeze, "SPLITS", 1)
    writes = lived(spark, object_store, tmp_path, grows_old)
    missed = {one for one in patterns_in_code() if not any(re.fullmatch(one, name) for name in writes)}
    assert {one.replace("\\", "") for one in missed} == ELSEWHERE | OF_WHAT_WAS_CUT_OFF


@pytest.mark.long
def test_each_run_that_goes_on_where_another_was_cut_off_ends_as_if_no_answer_had_been_lost(
    spark: SparkSession, object_store: ObjectStore, tmp_path: Path
) -> None:
    assert lived(spark, object_store, tmp_path, is_cut_off) >= OF_WHAT_WAS_CUT_OFF


def lived(spark: SparkSession, object_store: ObjectStore, folder: Path, story: Story) -> set[str]:
    """Play the story with two stores, one of which receives every answer; return the other's writes."""
    buckets = [f"{story.__name__.replace('_', '-')}-{name}" for name in ("heard", "unheard")]
    for bucket in buckets:
        object_store.make_bucket(bucket)
    wrong: dict[tuple[int, str], tuple[str | None, str | None]] = {}
    heard = Site(spark, object_store, buckets[0])
    with losing(object_store.endpoint, folder / "lost") as way:
        unheard = Site(spark, ObjectStore(way.endpoint), buckets[1])
        for event, same in zip(*(story(bucket, folder) for bucket in buckets), strict=True):
            if not event.ages:
                assert heard.run(event) is None
            if not event.cut:
                way.forget()
            lost = 0
            while (error := unheard.run(same)) is not None:
                assert len(way.lost()) > lost, error
                lost = len(way.lost())
            # A replay that is suspended before it has sent anything may not have written either.
            assert way.lost() or event.suspended
            found = different(unheard.contents(), heard.contents())
            wrong |= {(event.hour, name): both for name, both in found.items()}
    assert wrong == {}
    return unheard.writes


def different(found: dict[str, str], expected: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """The differences; pytest would compare everything by character."""
    names = found.keys() | expected.keys()
    return {name: (found.get(name), expected.get(name)) for name in names if found.get(name) != expected.get(name)}
