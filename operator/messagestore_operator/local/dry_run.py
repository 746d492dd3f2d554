"""The dry run: what a local run would store, set aside, remove and send, and why, without doing it.

An ingest is carried out, by the code of any run, on a copy of its store; then its report and the copy's tables tell
what would become of the source's records. Policies and replays select from the copies, and stop there: they see what
the streams before them would store. Nothing is removed: they also list what policies before them would remove.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from typing_extensions import override

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestOutcome, IngestTask
from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import RunReport, counts_of
from messagestore_core.progress import ProgressListener
from messagestore_core.store.delta_log import committed_batch, next_global_position
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.folder import exists
from messagestore_core.store.handle import Store
from messagestore_core.store.scan import scan
from messagestore_jobs.driver.failures import error_of
from messagestore_jobs.driver.listing import Wanted, list_messages
from messagestore_operator.api import MessageStream, Resource, RetentionPolicy
from messagestore_operator.local.run import LocalRun, absent_sources
from messagestore_operator.local.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
_SHOWN = ["global_position", "message_id", "stream_name", "position", "type", "time", "status"]
_DEAD_LETTER = ["reason", "detail", "source", "message_id", "stream_name"]


@dataclass
class Tried:
    """What a resource would do to a stream: counts by their names, and samples.

    ``dead_letters`` has the first of each reason, with ``records``, how many it stands for. ``note`` says what else to
    know, ``error`` why the run would fail.
    """

    kind: str
    name: str
    stream: str
    counts: dict[str, int] = field(default_factory=dict)
    dead_letters: list[Row] = field(default_factory=list)
    messages: list[Row] = field(default_factory=list)
    note: str | None = None
    error: RunError | None = None


@dataclass
class DryRun(LocalRun):
    """A local run that only tells what one would do."""

    scratch: Scratch = field(kw_only=True)
    wanted: Wanted = field(kw_only=True)
    tried: list[Tried] = field(default_factory=list, init=False)
    _removed: dict[str, list[str]] = field(default_factory=dict, init=False)
    """The policies that would have removed messages by now, by the URI of the copy that still has these."""

    def try_out(self) -> list[Tried]:
        """Try all resources, in order."""
        with self.with_secrets():
            for resource in self.result.resources:
                self.run_one(resource)
                self.tried += self._not_run(resource)
                for folder in absent_sources(resource):
                    words = f"there is no folder {folder} yet, so nothing arrives there"
                    self.console.say(f"{resource.metadata.name}: {words}")
        return self.tried

    @override
    def _execute(self, document: RunDocument) -> RunReport:
        resource = document.resource
        one = Tried(resource.kind, resource.name, document.table.owner.name)
        self.tried.append(one)
        try:
            report = self._try(self.scratch.document(document), one)
        except (OSError, RunFailedError) as failure:
            report = self._ended_with(document, error_of(failure, document))
        if report.error is not None:
            words = self.scratch.in_words(report.error.message)
            report = report.model_copy(update={"error": report.error.model_copy(update={"message": words})})
        one.error = report.error
        return report

    def _try(self, document: RunDocument, one: Tried) -> RunReport:
        if not isinstance(document.task, IngestTask):
            return super()._execute(document)
        store = Store(document.table.uri, owner=document.table.owner)
        before = _mark(store, document.task)
        report = super()._execute(document)
        if isinstance(report.outcome, IngestOutcome):
            one.counts = {name: count for name, count in counts_of(report.outcome).items() if name != "batches"}
            one.messages = _stored(store, before, self.wanted)
            one.dead_letters = _set_aside(store, before, self.wanted)
        return report

    @override
    def _carry_out(self, document: RunDocument, session: SparkSession, progress: ProgressListener) -> RunReport:
        if isinstance(document.task, IngestTask):
            return super()._carry_out(document, session, progress)
        one, wanted = self.tried[-1], self.wanted
        if (each := wanted.each) is not None:
            named = {"kind": one.kind, "name": one.name, "stream": one.stream}
            wanted = replace(wanted, each=lambda row: each({**named, **row}))
        listed = list_messages(document, session, progress, wanted, self.scratch.new_folder())
        one.counts, one.messages = listed.counts, listed.messages
        removed = self._removed.setdefault(document.table.uri, [])
        if removed and getattr(document.task, "origin", "Messages") == "Messages":
            one.note = f"with what {' and '.join(removed)} would remove first"
        if isinstance(document.task, PurgeTask) and removes(document.task) and listed.counts.get("selected"):
            removed.append(f"{one.kind.lower()}/{one.name}")
        return self._ended_with(document, listed.error)

    def _ended_with(self, document: RunDocument, error: RunError | None) -> RunReport:
        state: Literal["Failed", "Succeeded"] = "Failed" if error else "Succeeded"
        return RunReport(run=document.run, sequence=1, state=state, started_at=self.now(), error=error)

    @override
    def _erase(self, policy: RetentionPolicy, stream: MessageStream, purged: RunReport) -> None:
        """Nothing was purged."""

    def _not_run(self, resource: Resource) -> Iterator[Tried]:
        """What was not tried of a resource, and why."""
        kind, _, name = resource.identity
        if resource.spec.suspend:
            yield Tried(kind, name, "", note="it is suspended")
        if (error := self.errors.get(resource.identity)) is not None:
            yield Tried(kind, name, "", error=error)
        for result in self.purges.get(resource.identity, []):
            if result.error is not None:
                yield Tried(kind, name, result.stream, error=result.error)


def removes(task: PurgeTask) -> bool:
    """Whether a run of it takes what it selects out of the store, and at once."""
    return task.mode == "Enforce" and task.action == "Delete" and not task.approval_required


class _Mark(NamedTuple):
    """Where a store's messages and batches end: the next position, and the last batch of each source."""

    position: int
    batches: Mapping[str, int]


def _mark(store: Store, task: IngestTask) -> _Mark:
    sources = [task.source_id, *([task.lifecycle.source_id] if task.lifecycle else [])]
    # The run itself says what is wrong with a store.
    with suppress(OSError, DeltaError, ValueError, RunFailedError):
        if exists(store):
            return _Mark(next_global_position(store), {source: committed_batch(store, source) for source in sources})
    return _Mark(0, dict.fromkeys(sources, 0))


def _stored(store: Store, before: _Mark, wanted: Wanted) -> list[Row]:
    """The first messages since a mark."""
    place, table = pc.field("global_position"), store.table("messages")
    firsts = scan(table, ["global_position"], place >= before.position).read_all()["global_position"]
    firsts = firsts.take(pc.sort_indices(firsts)[: wanted.limit])
    if not len(firsts):
        return []
    columns = [*_SHOWN, *(["payload"] if wanted.content else [])]
    within = (place >= firsts[0]) & (place <= firsts[-1])
    rows = scan(table, columns, within).read_all().sort_by("global_position")
    return cast(list[Row], rows.to_pylist())


def _set_aside(store: Store, before: _Mark, wanted: Wanted) -> list[Row]:
    """The first dead letter of each reason since a mark, and how many there are, the most frequent reason first."""
    table = store.table("dead_letters")
    batches = {one for batch in scan(table, ["batch"]) for one in batch["batch"].unique().to_pylist() if one}
    new = pa.array([one for one in sorted(batches) if is_new(one, before.batches)], pa.string())
    firsts: dict[str, Row] = {}
    counts = Counter[str]()
    for batch in scan(table, [*_DEAD_LETTER, *(["raw"] if wanted.content else [])], pc.field("batch").isin(new)):
        for row in batch.to_pylist():
            firsts[row["reason"]] = min(firsts.get(row["reason"], row), row, key=_place)
            counts[row["reason"]] += 1
    return [{"records": number, **firsts[reason]} for reason, number in counts.most_common()]


def _place(dead_letter: Row) -> tuple[str, int, int]:
    source = dead_letter["source"]
    return source["uri"], source["partition"] or 0, source["offset"] or 0


def is_new(batch: str, before: Mapping[str, int]) -> bool:
    """Whether a batch, by its id, comes after the last one of its source."""
    source, _, number = batch.rpartition("/")
    return source in before and int(number) > before[source]
