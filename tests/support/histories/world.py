"""A store, its steps, and the model that it is compared with after each step."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from messagestore_core.contract.run_document import EraseTask, FilesDestination, MaintainTask, ReplayTask, RunDocument
from messagestore_core.contract.run_report import IngestOutcome, PurgeOutcome
from messagestore_core.store import handle
from messagestore_core.store.folder import open_folder
from messagestore_core.store.repair import steps
from messagestore_core.store.schemas import TABLES
from messagestore_core.store.storage import Storage
from messagestore_jobs import context
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.progress import Silent
from messagestore_jobs.purge.job import run_purge
from messagestore_jobs.replay.job import run_replay
from support.crash import forget_tables
from support.external_writes import UnheardError, observing
from support.histories import found
from support.histories.documents import JUDGES, purge_of, redelivery_of, replay_of
from support.histories.ingest import ingest
from support.histories.job import Records, ReplayJob, to_be_sent
from support.histories.lifecycle import RETRY
from support.histories.others import damaged, maintained_by_others
from support.histories.purge import purge
from support.histories.replay import redeliver, replay
from support.histories.state import File, Store, Writes
from support.histories.steps import (
    HOUR,
    Damaged,
    Foreign,
    GoOn,
    Growth,
    Ingest,
    Maintain,
    MakeAgain,
    Purge,
    Redeliver,
    Replay,
    Step,
)
from support.ingests import START, lines
from support.lifecycles import Updated
from support.local_runs import tree
from support.maintenance import RESOURCE, maintain
from support.purges import POLICY, archived_positions
from support.replays import Crash, replay_document

NOWHERE = FilesDestination(uri="file:///nowhere")
FOLLOWED = {
    Ingest: {
        "plan", "take-out", "dead-letters-withdrawn", "plan-anew", "dead-letters", "messages", "pending-taken",
        "lifecycle", "expire",
    },
    Purge: {
        "freeze-plan", "tombstones", "tombstones-withdrawn", "erase-dead-letters", "purged-ids", "delete-days",
        "delete-rows", "scrub-rows", "forget-plan",
    },
    Replay: {"replay-frozen"},
    Redeliver: {"lifecycle"},
    Maintain: set(),
    Foreign: set(),
    Damaged: set(),
    MakeAgain: set(),
}  # fmt: skip
"""The writes that the model knows, by kind of run; others change nothing that is compared."""


@dataclass
class Run:
    """One run, of the product and of the model."""

    kind: type
    product: Callable[[], Any]
    """Returns its outcome."""
    model: Callable[[], Writes]
    ended: Callable[[Any], None] = lambda outcome: None
    """Called with that outcome, once the model has followed."""


@dataclass
class World:
    """One history of one store."""

    spark: SparkSession
    folder: Path
    model: Store = field(default_factory=Store)
    now: datetime = START
    steps: int = 0
    arrived: dict[str, File] = field(default_factory=dict)
    """In order of arrival, like the next one."""
    told: list[File] = field(default_factory=list)
    replays: list[ReplayJob] = field(default_factory=list)
    cut_off: set[type] = field(default_factory=set)
    """The kinds of runs of which the last one was interrupted."""
    missed: set[str] = field(default_factory=set)
    """The ids of messages that were erased at some time; like those of a replay, for rounds."""
    remember_purged: timedelta | None = None
    life: int = 1
    """How often the store was made."""
    keeps_copies: bool = False
    """Whether the store is copied before each step, for a rollback."""

    @property
    def store(self) -> Path:
        return self.folder / self.stream.store

    @property
    def archive(self) -> Path:
        return self.folder / f"archive-{self.life}"

    @property
    def again(self) -> Path:
        return self.folder / f"again-{self.life}"

    @property
    def copy(self) -> Path:
        return self.folder / "copy"

    def __post_init__(self) -> None:
        self.stream = Updated(self.spark, self.folder, retry=RETRY, remember_purged=self.remember_purged)
        self.model.remember_purged = self.remember_purged
        open_folder(handle.Store.of(self.stream.table, Storage()))
        self.stream.landing.mkdir()
        self.stream.update_landing.mkdir()

    def happen(self, step: Step) -> None:
        """Do one step; the store is compared with the model after each try of it."""
        if not isinstance(step.does, Damaged):
            self._copy()
        self.now += step.hours * HOUR
        self.steps += 1
        for run in self._runs(step.does):
            self._carry_on(run, step)

    def _copy(self) -> None:
        if self.keeps_copies:
            shutil.rmtree(self.copy, ignore_errors=True)
            shutil.copytree(self.store, self.copy)

    def end(self) -> None:
        """Continue all interrupted runs."""
        for does in (Ingest(), Purge(status="NONE"), GoOn(), Redeliver()):
            if isinstance(does, GoOn) or type(does) in self.cut_off:
                self.happen(Step(does, hours=0))

    def _carry_on(self, run: Run, step: Step) -> None:
        for moment in step.cuts:
            if self._try(run, moment, unheard=step.unheard):
                return
            if step.gone and run.kind is Ingest and (name := self.model.lose_next_file()):
                (self.stream.landing / name).unlink()
        if not step.left:
            self._try(run, None)

    def _try(self, run: Run, moment: int | None, *, unheard: bool = False) -> bool:
        """Run to the end, or to a moment; returns whether it reached the end."""
        writes: list[str] = []
        self._may_be_missed()
        left = [-1 if moment is None else moment]

        def observer(name: str, when: str) -> None:
            if when == "after" and name in FOLLOWED[run.kind]:
                writes.append(name)
            if unheard and when == "before":
                return
            left[0] -= 1
            if left[0] == -1:
                self.model.seen[f"{run.kind.__name__} {'unheard' if unheard else 'cut off'}"] += 1
                raise UnheardError("connection reset by peer") if unheard else Crash

        ended, outcome = False, None
        # Whatever else a run raises fails the history, an error of ours as well.
        with observing(observer), suppress(Crash, UnheardError):
            outcome = run.product()
            ended = True
        follow(run.model(), writes, ended)
        if ended:
            self.cut_off.discard(run.kind)
        else:
            self.cut_off.add(run.kind)
        if ended:
            run.ended(outcome)
        self._compare()
        return ended

    def _runs(self, does: Any) -> list[Run]:
        match does:
            case Ingest():
                return [self._ingest(does)]
            case Purge():
                return [self._purge(does)]
            case Replay():
                return [self._replay(self._new_replay(does))]
            case Redeliver():
                return [self._redeliver()]
            case Maintain():
                return [self._maintain()]
            case Foreign():
                return [self._foreign(does)]
            case MakeAgain():
                return [Run(MakeAgain, self._make_again, lambda: iter(()))]
            case Damaged():
                return [Run(Damaged, lambda: self._is_refused(does), lambda: iter(()))]
        left = [one for one in self.replays if not one.job.ended]
        self.model.seen["replay went on"] += sum(one.job.sends is not None for one in left)
        return [self._replay(one) for one in left]

    def _ingest(self, what: Ingest) -> Run:
        for content in what.files:
            self._arrive(File(f"{len(self.arrived)}.jsonl", content))
        for number in what.again:
            file = self.arrived.get(f"{number}.jsonl")
            if file and not self.model.is_to_read(file) and not self._lacks_a_file():
                self._arrive(file)
        if what.growth:
            self._grow(what.growth)
        for told in what.updates:
            path = self.stream.tell(*(one.line() for one in told))
            self.told.append(File(path.name, told))
            self.model.unread_updates.append(self.told[-1])
        files = what.files_in_a_batch
        return Run(
            Ingest,
            lambda: self.stream.run(self.now, max_files_per_batch=files, **JUDGES[what.spec]),
            lambda: ingest(self.model, self.now, files, what.spec),
            self._has_ingested,
        )

    def _has_ingested(self, outcome: IngestOutcome) -> None:
        """Nothing is left to read, and the run tells what it counted."""
        assert found.without_zeros(outcome.totals) == +self.model.totals
        assert outcome.lifecycle is not None
        assert found.without_zeros(outcome.lifecycle.totals) == +self.model.updates
        assert outcome.lifecycle.lag is not None
        assert (outcome.lag.files, outcome.lifecycle.lag.files, outcome.loss) == (0, 0, None)

    def _grow(self, growth: Growth) -> None:
        """Append to a file, which becomes another one; a planned batch reads it as far as it was planned."""
        file = self.arrived.get(f"{growth.file}.jsonl")
        if file and file not in self.model.unread and not self._lacks_a_file():
            self.model.seen["file grows"] += 1
            self.model.seen["file grows in its batch"] += self.model.is_to_read(file)
            self._arrive(File(file.name, (*file.content, *growth.by)))

    def _lacks_a_file(self) -> bool:
        """Whether a file of a planned batch is gone; until a run notes that, the batch reads one that comes back."""
        return self.model.batch is not None and self.model.batch.lacks

    def _arrive(self, file: File) -> None:
        self.stream.arrive(file.name, lines(*(one.line() for one in file.content)))
        self.arrived.pop(file.name, None)
        self.arrived[file.name] = file
        self.model.unread.append(file)

    def _purge(self, what: Purge) -> Run:
        document = purge_of(self.stream.table, f"purge-{self.steps}", what, self.now, self.archive)
        return Run(
            Purge,
            lambda: run_purge(context.Run.of(document, self.spark, Silent())),
            lambda: purge(self.model, document.run, what, self.now),
            lambda outcome: self._has_purged(what, outcome),
        )

    def _has_purged(self, what: Purge, outcome: PurgeOutcome) -> None:
        """The run has removed at least what it selected, and could judge all messages."""
        assert outcome.purge is not None
        done = outcome.purge.scrubbed if what.scrubs else outcome.purge.purged
        assert done >= outcome.preview.messages
        assert outcome.preview.undecided == 0

    def _new_replay(self, what: Replay) -> ReplayJob:
        name = f"job-{self.steps}"
        folder = self.folder / "replays" / name
        one = ReplayJob(what, replay_of(self.stream.table, name, what, self.now, folder), folder)
        self.replays.append(one)
        return one

    def _replay(self, one: ReplayJob) -> Run:
        return Run(
            Replay,
            lambda: run_replay(context.Run.of(one.document, self.spark, Silent())),
            lambda: replay(self.model, one.job, one.what),
            one.has_ended,
        )

    def _redeliver(self) -> Run:
        document = redelivery_of(self.stream.table, self.now, self.again)
        return Run(
            Redeliver,
            lambda: run_replay(context.Run.of(document, self.spark, Silent())),
            lambda: redeliver(self.model, self.now),
            lambda outcome: self._compare_rounds(ended=True),
        )

    def _maintain(self) -> Run:
        begun = [one.document.at for one in self.replays if not one.job.ended]
        none = timedelta(0)
        task = {
            "log_retention": none,
            "deleted_file_retention": none,
            "oldest_replay": min(filter(None, begun), default=None),
        }
        self.model.seen["maintained"] += 1
        self.model.seen["maintained under a replay"] += bool(begun)
        return Run(Maintain, lambda: maintain(self.spark, self.stream.table, self.now, **task), lambda: iter(()))

    def _foreign(self, what: Foreign) -> Run:
        names = (what.table,) if what.table else TABLES
        under_way = any(one.is_under_way() for one in self.replays) or Redeliver in self.cut_off
        if what.what == "vacuum" and under_way:
            # It would take away what a replay has yet to send; then the replay says what is lost.
            names = tuple(name for name in names if name != "messages")
        self.model.seen[what.what] += 1
        self.model.seen["others under a purge"] += self.model.plan is not None
        self.model.seen["others under a replay"] += under_way
        store = handle.Store(self.stream.table.uri)
        return Run(Foreign, lambda: maintained_by_others(self.spark, store, what.what, names), lambda: iter(()))

    def _make_again(self) -> None:
        """The new store knows nothing of the one before, and reads all files; replays of that one never end."""
        shutil.rmtree(self.store)
        forget_tables(self.spark)
        open_folder(handle.Store.of(self.stream.table, Storage()))
        left = [file for file in self.arrived.values() if (self.stream.landing / file.name).exists()]
        seen, self.replays = self.model.seen, []
        self.model = Store(remember_purged=self.remember_purged, unread=left, unread_updates=[*self.told], seen=seen)
        self.cut_off, self.missed = set(), set()
        self.life += 1
        seen["made again"] += 1
        self._copy()

    def _is_refused(self, what: Damaged) -> None:
        """Each kind of run refuses the store, and changes nothing, where the damage can be noticed."""
        store = handle.Store(self.stream.table.uri)
        with damaged(self.spark, store, what, self.copy) as noticed:
            assert bool(steps(store)) == noticed
            if noticed:
                self.model.seen[what.how] += 1
                before = tree(self.store)
                assert {self._error(document) for document in self._one_of_each()} == {"TableRefused"}
                assert tree(self.store) == before

    def _error(self, document: RunDocument) -> str | None:
        """The reason for which a run fails; None: it succeeds."""
        report = execute(document, lambda: self.spark, Silent(), 0, lambda: self.now)
        return report.error.reason if report.error else None

    def _one_of_each(self) -> list[RunDocument]:
        """A document of each kind of run."""
        table, at, task = self.stream.table, self.now, ReplayTask(job_id="refused", destination=NOWHERE)
        return [
            self.stream.document(at),
            purge_of(table, "refused", Purge(older=0), at, self.archive),
            replay_document(table, task),
            redelivery_of(table, at, self.again),
            RunDocument(run="refused", resource=POLICY, table=table, at=at, task=EraseTask()),
            RunDocument(run="refused", resource=RESOURCE, table=table, at=at, task=MaintainTask()),
        ]

    def _may_be_missed(self) -> None:
        """Replays under way may pass over what is erased now, also if it stays in the store after all."""
        self.missed |= self.model.erased
        for one in self.replays:
            if not one.job.ended:
                one.missed |= self.model.erased

    def _compare(self) -> None:
        """Compare the store and the replays' records with the model."""
        uri, model = self.stream.table.uri, self.model
        assert found.changed_without_note(self.store) == []
        assert found.messages(uri) == model.by_position()
        assert found.letters(uri) == model.letters
        assert found.exhausted(uri) == {
            (one.batch, one.message.global_position): one.message.as_sent() for one in model.exhausted
        }
        assert found.heads(uri, model.heads) == (model.heads, model.next_global)
        assert found.totals(uri) == (+model.totals, +model.updates)
        if Ingest not in self.cut_off:
            self._all_is_counted()
            assert found.waiting(uri) == [(one.place, one.since) for one in model.waiting]
        if model.plan is None:
            assert archived_positions(f"file://{self.archive}") == sorted(model.archived)
        for one in self.replays:
            sent, expected = one.sent(), one.expected(one.missed if one.job.ended else one.missed | model.erased)
            # A replay in progress has sent the beginning of it.
            assert sent == (expected if one.job.ended else expected[: len(sent)])
        self._compare_rounds()

    def _all_is_counted(self) -> None:
        """Law 1: each record is counted once, and all counted dead letters exist."""
        counted = dict(self.model.totals)
        assert counted.pop("received", 0) == sum(counted.values())
        set_aside = self.model.totals["dead_lettered"] + self.model.updates["dead_lettered"]
        assert set_aside == len(self.model.letters) + self.model.erased_letters

    def _compare_rounds(self, *, ended: bool = False) -> None:
        for number, rows in enumerate(self.model.rounds, 1):
            sent: Records = found.sent_to_files(self.again / f"round-{number:08d}")
            left = to_be_sent(rows, sent, self.missed | self.model.erased)
            expected = [row.as_sent(**{"x-attempt": str(row.retries + 1)}) for row in left]
            assert sent == (expected if ended else expected[: len(sent)])


def follow(model: Writes, writes: list[str], ended: bool) -> None:
    """Let the model do what the product did, write by write; once a run has ended, both have nothing left to do."""
    expected = next(model, None)
    for name in writes:
        assert name == expected, f"the product made write {name} of {writes}, and the model {expected}"
        expected = next(model, None)
    if ended:
        assert expected is None, f"the model goes on with {expected} after {writes}"
