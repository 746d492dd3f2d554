"""A store, its steps, and the model that it is compared with after each step."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from messagestore.verifying import verify
from messagestore_core.contract.ingest import IngestOutcome, IngestTask
from messagestore_core.contract.purge import EraseOutcome, EraseTask, PurgeOutcome
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.contract.run_document import MaintainTask, RunDocument
from messagestore_core.progress import Silent
from messagestore_core.store import handle
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder, store_id
from messagestore_core.store.repair import repair, steps
from messagestore_core.store.schemas import TABLES
from messagestore_core.store.storage import Storage
from messagestore_jobs import context
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.frozen.replays import request_digest_of
from messagestore_jobs.purge.erase import run_erase
from messagestore_jobs.purge.job import run_purge
from messagestore_jobs.replay import chunks
from messagestore_jobs.replay.job import run_replay
from support.crash import forget_tables
from support.external_writes import UnheardError, observing
from support.histories import found
from support.histories.documents import JUDGES, purge_of, redelivery_of, redrive_of, replay_of
from support.histories.ingest import ingest, redrive, to_be_redriven
from support.histories.job import Records, ReplayJob, to_be_sent
from support.histories.lifecycle import RETRY
from support.histories.others import damaged, maintained_by_others, restore_all
from support.histories.purge import erase, purge
from support.histories.replay import redeliver, replay
from support.histories.state import File, Letter, Message, Place, RedriveJob, Store, Writes
from support.histories.steps import (
    HOUR,
    Damaged,
    Erasure,
    Foreign,
    GoOn,
    Growth,
    Ingest,
    Maintain,
    MakeAgain,
    Purge,
    Record,
    Redeliver,
    Redrive,
    Replay,
    RestoreAll,
    Step,
)
from support.ingests import START, lines
from support.lifecycles import Updated
from support.local_runs import tree
from support.maintenance import RESOURCE, maintain
from support.purges import POLICY, archived_positions, erase_document
from support.replays import Crash, files_replay

_OF_INGEST = {
    "plan", "take-out", "dead-letters-withdrawn", "plan-anew", "dead-letters", "messages", "pending-taken", "lifecycle",
    "expire",
}  # fmt: skip
FOLLOWED = {
    Ingest: _OF_INGEST,
    Purge: {
        "freeze-plan", "tombstones", "tombstones-withdrawn", "erase-dead-letters", "purged-ids", "delete-days",
        "delete-rows", "scrub-rows", "forget-plan",
    },
    Erasure: {"erase-dead-letters"},
    Replay: {"replay-frozen"},
    Redrive: _OF_INGEST | {"replay-frozen"},
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
    replays: ReplayJob | None = None
    """The job of a replay's run."""


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
    run: Run | None = None
    """The one under way."""
    sending: ReplayJob | None = None
    """The replay that is under way during an erasure."""
    erases: Erasure | None = None
    """What is to be erased while a replay runs."""
    before: dict[str, int] = field(default_factory=dict)
    """The versions of the tables before the last step; empty if there is no such step of this store."""
    over: bool = False
    """Whether the history has ended, whatever steps are left."""
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
        open_folder(HeldStore.of(self.stream.table, Storage()))
        self.stream.landing.mkdir()
        self.stream.update_landing.mkdir()

    def happen(self, step: Step) -> None:
        """Do one step; the store is compared with the model after each try of it."""
        if self.over:
            return
        if not isinstance(step.does, Damaged):
            self._copy()
        self.now += step.hours * HOUR
        self.steps += 1
        self.erases = step.erases
        before = found.versions(self.store)
        for run in self._runs(step.does):
            self._carry_on(run, step)
        self.before = {} if isinstance(step.does, MakeAgain) else before

    def _copy(self) -> None:
        if self.keeps_copies:
            shutil.rmtree(self.copy, ignore_errors=True)
            shutil.copytree(self.store, self.copy)

    def end(self) -> None:
        """Continue all interrupted runs; a check of the whole store then finds nothing wrong."""
        for does in (Ingest(), Purge(status="NONE"), GoOn(), Redeliver()):
            if isinstance(does, GoOn) or type(does) in self.cut_off:
                self.happen(Step(does, hours=0))
        assert not [problem for check in verify(f"file://{self.store}") for problem in check.problems]

    def _carry_on(self, run: Run, step: Step) -> None:
        # A store that is half made has nothing to compare with.
        for moment in () if run.kind is MakeAgain else step.cuts:
            if self._try(run, moment, unheard=step.unheard):
                return
            if step.gone and run.kind is Ingest and (name := self.model.lose_next_file()):
                (self.stream.landing / name).unlink()
        if not step.left or run.kind is Redrive:
            self._try(run, None)

    def _try(self, run: Run, moment: int | None, *, unheard: bool = False) -> bool:
        """Run to the end, or to a moment; returns whether it reached the end."""
        writes: list[str] = []
        self._may_be_missed()
        left, model = [-1 if moment is None else moment], run.model()

        def observer(name: str, when: str) -> None:
            if self.run is not run:
                return
            if when == "after" and name in FOLLOWED[run.kind]:
                writes.append(name)
            if run.replays and self._is_to_erase(run.replays, writes):
                follow(model, writes, ended=False)
                writes.clear()
                self._erase_meanwhile(run.replays, name)
                self.run = run
            if unheard and when == "before":
                return
            left[0] -= 1
            if left[0] == -1:
                self.model.seen[f"{run.kind.__name__} {'unheard' if unheard else 'cut off'}"] += 1
                raise UnheardError("connection reset by peer") if unheard else Crash

        ended, outcome = False, None
        self.run = run
        # Whatever else a run raises fails the history, an error of ours as well.
        with observing(observer), suppress(Crash, UnheardError):
            outcome = run.product()
            ended = True
        follow(model, writes, ended)
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
                return self._replays_of(does)
            case Redrive():
                # It would send what an interrupted batch has set aside, too.
                return [] if Ingest in self.cut_off else [self._redrive(does)]
            case Redeliver():
                return [self._redeliver()]
            case Maintain():
                return [self._maintain()]
            case Foreign():
                return [self._foreign(does)]
            case RestoreAll() | MakeAgain() | Damaged():
                return self._by_hand(does)
        left = [one for one in self.replays if not one.job.ended]
        self.model.seen["replay went on"] += sum(one.job.sends is not None for one in left)
        return [self._replay(one) for one in left]

    def _by_hand(self, does: RestoreAll | MakeAgain | Damaged) -> list[Run]:
        """What somebody does to the store's folder and tables."""
        match does:
            case MakeAgain():
                return [Run(MakeAgain, self._make_again, lambda: iter(()))]
            case Damaged():
                return [Run(Damaged, lambda: self._is_refused(does), lambda: iter(()))]
        self._restore_all()
        return []

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
        assert found.without_zeros(outcome.lifecycle.totals) == +self.model.updates
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

    def _is_to_erase(self, one: ReplayJob, writes: list[str]) -> bool:
        """Whether this moment of a replay's run is that of an erasure; rounds that were cut off would lose messages."""
        begun = one.job.sends is not None or "replay-frozen" in writes
        if self.erases is None or not begun or Redeliver in self.cut_off:
            return False
        self.erases = self.erases._replace(moment=self.erases.moment - 1)
        return self.erases.moment < 0

    def _erase_meanwhile(self, running: ReplayJob, write: str) -> None:
        """Erase a message, by a purge and the run after it; then nothing in the store names an erased message.

        Only what the destination's stream is taking in at this moment is sent in spite of that.
        """
        assert self.erases
        number, self.erases, self.sending = self.erases.number, None, running
        there = self.model.plan is None and self.model.find(f"m{number}") is not None
        self._try(self._purge(Purge(erased=number), timedelta(0)), None)
        erasing: list[EraseOutcome] = []
        run = Run(
            Erasure,
            lambda: run_erase(context.Run.of(erase_document(self.stream.table, self.now), self.spark, Silent())),
            lambda: erase(self.model),
            erasing.append,
        )
        self._try(run, None)
        self.sending = None
        (outcome,) = erasing
        assert outcome.erased_at or not there
        if outcome.erased_at is None:
            return
        assert found.naming(self.store, self.model.erased) == []
        for one in self.replays:
            if one.is_under_way():
                looks = one is not running or write.startswith("replay-")
                one.lose_the_past(self.model.by_position(), self.model.erased, looks)
        self.model.seen["erased under a replay"] += there
        self.model.seen["erased before it was sent"] += f"m{number}" in running.never

    def _purge(self, what: Purge, erase_within: timedelta = 10_000 * HOUR) -> Run:
        document = purge_of(self.stream.table, f"purge-{self.steps}", what, self.now, self.archive, erase_within)
        return Run(
            Purge,
            lambda: run_purge(context.Run.of(document, self.spark, Silent())),
            lambda: purge(self.model, document.run, what, self.now),
            lambda outcome: self._has_purged(what, outcome),
        )

    def _has_purged(self, what: Purge, outcome: PurgeOutcome) -> None:
        """The run has removed at least what it selected, and could judge all messages."""
        done = outcome.purge.scrubbed if what.scrubs else outcome.purge.purged
        assert done >= outcome.preview.messages
        assert outcome.preview.undecided == 0

    def _replays_of(self, what: Replay) -> list[Run]:
        """The run of a replay; one that is made again is refused where the other has sent files."""
        before = self.replays[-1] if what.remade and self.replays else None
        if before is None or before.job.sends is None:
            name = f"job-{self.steps}"
            one = self._new_replay(what, name, name)
        elif before.what.to == "files":
            self._is_refused_after(before, what)
            return []
        else:
            one = self._remade_replay(before, what._replace(to="stream"))
        self.replays.append(one)
        return [self._replay(one)]

    def _new_replay(self, what: Replay, name: str, job_id: str) -> ReplayJob:
        folder = self.folder / "replays" / name
        document = replay_of(self.stream.table, name, f"asked {self.steps}", what, self.now, folder)
        return ReplayJob(what, document, folder, job_id)

    def _remade_replay(self, before: ReplayJob, what: Replay) -> ReplayJob:
        """A replay under the name of one before, which never goes on; it leaves what that one has sent."""
        self.replays.remove(before)
        one = self._new_replay(what, before.folder.name, "")
        assert isinstance(one.document.task, ReplayTask)
        request_digest = request_digest_of(one.document.task, store_id(handle.Store(self.stream.table.uri)))
        one.job_id, one.found = f"{before.folder.name}.{(request_digest or '')[:8]}", before.sent()
        self.model.seen["asked for something else"] += bool(one.found)
        return one

    def _is_refused_after(self, before: ReplayJob, what: Replay) -> None:
        """A folder is that of one replay."""
        content = tree(before.folder)
        other = self._new_replay(what._replace(to="files"), before.folder.name, "")
        assert self._error(other.document) == "DestinationNotEmpty"
        assert tree(before.folder) == content
        self.model.seen["refused in another's folder"] += 1

    def _replay(self, one: ReplayJob) -> Run:
        return Run(
            Replay,
            lambda: self._replayed(one.document),
            lambda: replay(self.model, one.job, one.what),
            lambda outcome: self._has_replayed(one, outcome),
            one,
        )

    def _replayed(self, document: RunDocument) -> ReplayOutcome:
        """The outcome of a replay's run, also if it fails at its end as messages are lost."""
        try:
            return run_replay(context.Run.of(document, self.spark, Silent()))
        except RunFailedError as error:
            if error.reason != "MessagesLost" or not isinstance(error.outcome, ReplayOutcome):
                raise
            return error.outcome

    def _has_replayed(self, one: ReplayJob, outcome: ReplayOutcome) -> None:
        one.has_ended(outcome)
        self.model.seen["lost by an erasure"] += outcome.progress.lost
        self.model.seen["sent as it was later"] += one.sent_later()

    def _redrive(self, what: Redrive) -> Run:
        job, table = RedriveJob(f"redrive-{self.steps}"), self.stream.table
        task = self.stream.document(self.now, retry=RETRY, **JUDGES[what.spec]).task
        assert isinstance(task, IngestTask)
        document = redrive_of(table, job.name, task, self.now)

        def redriven() -> ReplayOutcome:
            with patch.multiple(chunks, _CHUNK_ROWS=100, _OBJECT_ROWS=100):
                return run_replay(context.Run.of(document, self.spark, Silent()))

        return Run(
            Redrive,
            redriven,
            lambda: redrive(self.model, job, self.now, what.spec, self._record_at),
            lambda outcome: self._has_redriven(job, outcome),
        )

    def _record_at(self, place: Place) -> Record:
        (record,) = (one for at, one in self.arrived[place.file].places("files") if at == place)
        assert isinstance(record, Record)
        return record

    def _has_redriven(self, job: RedriveJob, outcome: ReplayOutcome) -> None:
        """What it sent either failed again or is taken out, and the run tells how many; see ``RedriveJob``."""
        sent, letters, told = to_be_redriven(self.model, job), self.model.letters, outcome.progress
        failed = [place for place in sent if letters[place].batch == job.own]
        for place in set(sent) - set(failed):
            letters[place] = letters[place]._replace(redriven=(self.now, job.by))
        self.model.seen["redriven"] += len(sent) - len(failed)
        self.model.seen["failed again"] += len(failed)
        assert (outcome.complete, outcome.selection.messages) == (True, len(job.letters or []))
        assert (told.replayed, told.erased + told.lost) == (len(sent), len(job.letters or []) - len(sent))
        assert told.dead_lettered == len(failed)
        assert (told.stored or 0) + (told.duplicates or 0) == len(sent) - len(failed)

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
        open_folder(HeldStore.of(self.stream.table, Storage()))
        left = [file for file in self.arrived.values() if (self.stream.landing / file.name).exists()]
        seen, self.replays = self.model.seen, []
        self.model = Store(remember_purged=self.remember_purged, unread=left, unread_updates=[*self.told], seen=seen)
        self.cut_off, self.missed = set(), set()
        self.life += 1
        seen["made again"] += 1
        self._copy()

    def _restore_all(self) -> None:
        """Runs refuse the store until a repair; then they go on, and only the laws are left to hold."""
        under_way = self.cut_off or self.model.plan or any(one.is_under_way() for one in self.replays)
        store = handle.Store(self.stream.table.uri)
        if under_way or not self.before or not restore_all(self.spark, store, self.before):
            return
        self.model.seen["all restored"] += 1
        assert {self._error(document) for document in self._one_of_each()} == {"TableRefused"}
        repair(HeldStore(store.uri), self.now, "somebody")
        assert steps(handle.Store(store.uri)) == []
        left = {message.global_position for message in found.messages(store.uri)}
        for document in self._one_of_each():
            assert self._error(document) is None
            self._laws_hold(found.messages(store.uri), left)
        assert steps(handle.Store(store.uri)) == []
        self.over = True

    def _laws_hold(self, messages: list[Message], left: set[int]) -> None:
        """No id and no position is there twice, and none that was ever given is given again."""
        places = [(message.stream_name, message.position) for message in messages]
        assert len({message.message_id for message in messages}) == len(set(places)) == len(messages)
        new = {message.global_position for message in messages} - left
        assert all(position >= self.model.next_global for position in new)
        self.model.seen["stored after a repair"] += len(new)

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
        table, at, elsewhere = self.stream.table, self.now, self.folder / "elsewhere"
        return [
            self.stream.document(at),
            purge_of(table, "refused", Purge(older=0), at, self.archive),
            files_replay(table, elsewhere, job_id="refused"),
            redelivery_of(table, at, elsewhere / "again"),
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
        assert self._letters() == model.letters
        assert found.exhausted(uri) == {
            (one.batch, one.message.global_position): one.message.as_sent() for one in model.exhausted
        }
        assert found.heads(uri, model.heads) == (model.heads, model.next_global)
        assert found.totals(uri) == (+model.totals, +model.updates)
        # A batch that was cut off has set aside what it counts at its commit.
        if not self.cut_off & {Ingest, Redrive}:
            self._all_is_counted()
            assert found.waiting(uri) == [(one.place, one.since) for one in model.waiting]
        if model.plan is None:
            assert archived_positions(f"file://{self.archive}") == sorted(model.archived)
        for one in self.replays:
            one.note_states(model.by_position())
            if one is self.sending:
                # Its objects move at the same time, in any order.
                continue
            sent, expected = one.sent(), one.expected(one.missed if one.job.ended else one.missed | model.erased)
            # A replay in progress has sent the beginning of it.
            assert sent == (expected if one.job.ended else expected[: len(sent)])
        self._compare_rounds()

    def _letters(self) -> dict[Place, Letter]:
        """The dead letters; an interrupted redrive has marked some of those that it marks in the end."""
        letters = found.letters(self.stream.table.uri)
        if Redrive not in self.cut_off:
            return letters
        before = self.model.letters
        return {p: one._replace(redriven=before[p].redriven if p in before else None) for p, one in letters.items()}

    def _all_is_counted(self) -> None:
        """Law 1: each record is counted once, and all counted dead letters exist."""
        counted = dict(self.model.totals)
        assert counted.pop("received", 0) == sum(counted.values())
        set_aside = self.model.totals["dead_lettered"] + self.model.updates["dead_lettered"]
        tries = sum(letter.tries for letter in self.model.letters.values())
        assert set_aside == tries + self.model.erased_letters

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
