"""A replay under way: chunk after chunk is staged, sealed and delivered.

The seal is the commit point: after a crash, a chunk without a seal is staged again, and a sealed one is delivered as it
is.

Selected messages that the store no longer has are erased or lost. A frozen version can be read as long as its files
exist. An erasure removes the files of all earlier versions, also those of messages that a purge removed meanwhile.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame

from messagestore_core.contract.replay import ReplayOutcome, ReplayProgress, ReplayTask
from messagestore_core.progress import ProgressListener
from messagestore_core.store.errors import RunFailedError, TableRefusedError
from messagestore_core.store.tombstones import erased_positions
from messagestore_jobs.frozen.replays import Chunk, Frozen, Part, ReplayState
from messagestore_jobs.replay.chunks import SHOWN, ChunkRange, Delivery, Staged, chunk_size, next_range, smaller, stage
from messagestore_jobs.replay.control import Pace, ReplayControl
from messagestore_jobs.replay.erased import Tombstones, without_erased_since, without_expired
from messagestore_jobs.replay.records import dead_letter_records, message_records, raw_records
from messagestore_jobs.replay.source import Source, is_gone
from messagestore_jobs.rows.messages import positions_in


class Missing(NamedTuple):
    """How many messages of a chunk were erased, how many are lost, and the first positions of lost ones."""

    erased: int = 0
    lost: int = 0
    first_lost: tuple[int, ...] = ()


def missing(
    source: Source, frozen: Frozen, first: int, chunk_range: ChunkRange, short: int, state: ReplayState
) -> Missing:
    """Why a chunk, from split ``first`` on, has so many messages less than were selected."""
    if not short:
        return Missing()
    if source.task.origin == "DeadLetters":
        return Missing(lost=short)
    positions = positions_in(source.between(chunk_range.cuts[0], chunk_range.end))
    expected = state.positions(frozen, first, chunk_range.next_split)
    if expected is None:
        gone = chunk_range.messages - len(positions)
        return Missing(short - gone, gone)
    lost = np.setdiff1d(np.setdiff1d(expected, positions), erased_positions(source.store))
    return Missing(short - len(lost), len(lost), tuple(lost[:SHOWN].tolist()))


@contextmanager
def _closing(delivery: Delivery) -> Iterator[None]:
    """Close a delivery at the end of the block, also if it fails."""
    try:
        yield
    except Exception:
        delivery.break_off()
        raise
    delivery.close()


class ErasedSinceError(Exception):
    """Something was erased since the selection was made by what there is of each sequence; nothing was sent."""


@dataclass
class Sending:
    """A replay under way.

    If its selection depends on sequences, it is ``judged_by`` the tombstones by which these were found complete.
    """

    source: Source
    frozen: Frozen
    delivery: Delivery
    progress: ProgressListener
    control: ReplayControl
    judged_by: str | None = None
    chunks: list[Chunk] = field(default_factory=list)
    sent_now: int = 0
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Look at the tombstones of the store that is replayed."""
        self._tombstones = Tombstones(self.source.store)

    def go_on(self) -> ReplayOutcome:
        """Send chunk after chunk to the end, or until the replay is suspended; return the outcome."""
        with _closing(self.delivery):
            self._take_up()
            complete = self._send_all()
        return self._ended() if complete else self._reached(complete=False)

    def cut_short(self) -> ReplayOutcome:
        """End the replay after the chunks that are sealed; ``percent`` tells that it is not the whole selection."""
        with _closing(self.delivery):
            self._take_up()
        return self._ended(percent=99)

    def _ended(self, percent: int = 100) -> ReplayOutcome:
        """End the replay; until then what was erased meanwhile is taken back, if the destination can do that."""
        while True:
            if self.delivery.takes_back:
                self._take_back_erased()
            reached = self._reached(complete=True)
            reached = reached.model_copy(update={"progress": reached.progress.model_copy(update={"percent": percent})})
            ended = self.delivery.end(self.frozen, self.chunks, reached, lambda: self._are_held(self.chunks))
            if ended is not None:
                return ended

    def _take_back_erased(self) -> None:
        """Take what was erased since out of all chunks; objects without such a position are not read."""
        if self._are_held(self.chunks):
            return
        seen, erased, sent_before = self._tombstones.digest(), erased_positions(self.source.store), 0
        for number, chunk in enumerate(self.chunks):
            if self._may_have(number, erased):
                self._hold_against_tombstones(number, sent_before)
            else:
                self.chunks[number] = chunk.model_copy(update={"tombstones": seen})
            sent_before += self.chunks[number].sent

    def _may_have(self, number: int, erased: npt.NDArray[np.int64]) -> bool:
        """Whether a chunk may have messages at some positions; dead letters may name any message."""
        first = self.chunks[number - 1].next_split if number else 0
        splits = self.frozen.splits[first : self.chunks[number].next_split]
        firsts = [split.first_global_position for split in splits if split.first_global_position is not None]
        lasts = [split.last_global_position for split in splits if split.last_global_position is not None]
        if self.source.task.origin == "DeadLetters" or not self.chunks[number].tombstones or not firsts or not lasts:
            return True
        return bool(((erased >= min(firsts)) & (erased <= max(lasts))).any())

    def _send_all(self) -> bool:
        """Send what is left; false if the replay was suspended before."""
        pace = Pace(self.control)
        while self._next_split() < len(self.frozen.splits):
            if self.control.suspended() or not self._send_next(pace):
                return False
            self.control.reached(self._reached(complete=False))
        return True

    def _take_up(self) -> None:
        """Go on after an earlier run, of whose chunks only the last may be incomplete."""
        self.chunks = self.delivery.state.chunks()
        self._check_names()
        self.progress.step("replay", self.frozen.selection.messages)
        if self.chunks:
            self._leave_out_expired()
            self._deliver_last()
            self.progress.advance(sum(map(_covered, self.chunks)))

    def _leave_out_expired(self) -> None:
        """Take out of the last chunk what has expired since it was sealed, as its destination may have been away."""
        if self.source.task.skip_expired:
            sent_before = sum(chunk.sent for chunk in self.chunks[:-1])
            left = without_expired(self.chunks[-1], sent_before, self.delivery, self.source.clock())
            if left.parts != self.chunks[-1].parts:
                self.delivery.state.seal(left)
                self.chunks[-1] = left

    def _deliver_last(self) -> None:
        """Deliver the last chunk, without what was erased since it was staged."""
        sent_before = sum(chunk.sent for chunk in self.chunks[:-1])
        while True:
            self._hold_against_tombstones(-1, sent_before)
            if self.judged_by not in (None, self.chunks[-1].tombstones) and not self.delivery.has_sent():
                raise ErasedSinceError
            if self.delivery.deliver(self.chunks[-1], sent_before, lambda: self._are_held(self.chunks[-1:])):
                return

    def _hold_against_tombstones(self, number: int, sent_before: int) -> None:
        """Take out of a sealed chunk what was erased since, and seal it again."""
        chunk = self.chunks[number]
        self.chunks[number] = left = self._without_erased(chunk, sent_before)
        if left.parts != chunk.parts:
            self.delivery.state.seal(left)

    def _without_erased(self, chunk: Chunk, sent_before: int) -> Chunk:
        if self._are_held([chunk]):
            return chunk
        return without_erased_since(chunk, sent_before, self.delivery, self._tombstones)

    def _are_held(self, chunks: Sequence[Chunk]) -> bool:
        """Whether nothing was erased since these chunks were held against the tombstones."""
        # Without a chunk there may be no store.
        seen = self._tombstones.digest() if chunks else ""
        return all(chunk.tombstones == seen for chunk in chunks)

    def _check_names(self) -> None:
        """Check that the state moves objects only from this replay's staging folder to its own names.

        Raises:
            TableRefusedError: the state has other names.
        """
        parts = [part for chunk in self.chunks for part in chunk.parts]
        for number, part in enumerate(parts):
            folder, _, name = part.staged.rpartition("/")
            if folder != self.delivery.staging or name == ".." or part.name != self.delivery.part_name(number):
                raise TableRefusedError(
                    f"{self.delivery.state.uri} says that {part.staged[:200]} becomes {part.name[:200]}, which no "
                    "replay writes there; find out who wrote it, and make a new replay"
                )

    def _send_next(self, pace: Pace) -> bool:
        """Stage a chunk, wait until it may go, seal and send it; false if the replay was suspended before."""
        chunk_range = self._next_range()
        chunk = self._staged_chunk(chunk_range)
        if not pace.wait(chunk.sent):
            return False
        sent_before = sum(earlier.sent for earlier in self.chunks)
        chunk = self._without_erased(chunk, sent_before)
        if chunk.failed:
            where = f", the first at global position {chunk.first_failed[0]}" if chunk.first_failed else ""
            self.progress.say(f"{chunk.failed} messages are not as they were stored and are not sent{where}")
        self.delivery.state.seal(chunk)
        self.chunks.append(chunk)
        self._deliver_last()
        self.sent_now += self.chunks[-1].sent
        self.progress.advance(_covered(chunk))
        return True

    def _next_range(self) -> ChunkRange:
        cores = self.source.spark.sparkContext.defaultParallelism
        size = smaller(chunk_size(self.control.messages_per_second(), cores), self.delivery.largest_chunk)
        return next_range(self.frozen, self._next_split(), size, cores)

    def _next_split(self) -> int:
        return self.chunks[-1].next_split if self.chunks else 0

    def _staged_chunk(self, chunk_range: ChunkRange) -> Chunk:
        # Records of dead letters are held against the tombstones once they are staged.
        tombstones = self._tombstones.digest() if self.source.task.origin == "Messages" else ""
        subscription = self.source.task.subscription
        if subscription and subscription.continuous and self.chunks and self.chunks[-1].tombstones != tombstones:
            # An erasure may be under way, and the frozen version have what it erases.
            self.source.use_what_is_left(self.frozen)
        staged, lacks = self._stage_what_is_left(chunk_range)
        return self._chunk(chunk_range, staged, lacks).model_copy(update={"tombstones": tombstones})

    def _stage_what_is_left(self, chunk_range: ChunkRange) -> tuple[Staged, Missing]:
        """Stage a chunk, again from the newest version as often as an erasure removes the one that is read."""
        again = False
        while True:
            try:
                staged, lacks = self._stage(chunk_range)
            except Exception as error:
                if not is_gone(error) or not self.source.use_what_is_left(self.frozen):
                    raise
                self.progress.say("the frozen version can't be read any more; what is left of the selection is sent")
                continue
            written = self.delivery.objects.staged(self.delivery.staging)
            if all(number in written for number, messages in staged.messages.items() if messages):
                return staged, lacks
            if again:
                raise RunFailedError("RunFailed", f"staged objects are missing in {self.delivery.state.staging_uri}")
            # An erasure deletes what runs that were killed have left half written.
            self.progress.say("what was being staged was removed; it is staged again")
            again = True

    def _stage(self, chunk_range: ChunkRange) -> tuple[Staged, Missing]:
        state, form = self.delivery.state, self.delivery.form
        # By what was sent last a subscription knows what is left.
        sort = self.source.task.order != "None" or self.source.task.subscription is not None
        staged = stage(self._records(chunk_range), self.source.order, chunk_range, form, state, sort=sort)
        short = chunk_range.messages - sum(staged.messages.values()) - staged.failed - staged.expired
        return staged, missing(self.source, self.frozen, self._next_split(), chunk_range, short, self.delivery.state)

    def _records(self, chunk_range: ChunkRange) -> DataFrame:
        if self.source.task.origin == "Messages":
            return message_records(self.source, self.frozen, chunk_range, self.delivery.line_breaks)
        if self.delivery.form == "Parquet":
            return raw_records(self.source, chunk_range)
        return dead_letter_records(self.source, chunk_range)

    def _chunk(self, chunk_range: ChunkRange, staged: Staged, missing: Missing) -> Chunk:
        """The staged chunk, with its objects' final names, which are numbered over all chunks."""
        number = sum(len(chunk.parts) for chunk in self.chunks)
        written = self.delivery.objects.staged(self.delivery.staging)
        sent = [(staged.messages[task], *written[task]) for task in sorted(written) if staged.messages[task]]
        parts = tuple(
            Part(staged=name, name=self.delivery.part_name(number + i), messages=messages, bytes=size)
            for i, (messages, name, size) in enumerate(sent)
        )
        return Chunk(
            number=len(self.chunks),
            next_split=chunk_range.next_split,
            sent=sum(part.messages for part in parts),
            failed=staged.failed,
            first_failed=staged.first_failed,
            expired=staged.expired,
            **missing._asdict(),
            bytes=sum(part.bytes for part in parts),
            last_global_position=chunk_range.last_global_position,
            parts=parts,
        )

    def _reached(self, *, complete: bool) -> ReplayOutcome:
        chunks, sent = self.chunks, sum(chunk.sent for chunk in self.chunks)
        # What was left to another before a crash may have expired since.
        set_aside = min(self.delivery.set_aside(), sent)
        positions = [chunk.last_global_position for chunk in chunks if chunk.last_global_position is not None]
        seconds = time.monotonic() - self.began
        total = self.frozen.selection.messages
        reached = ReplayProgress(
            replayed=sent - set_aside,
            set_aside=set_aside,
            failed=sum(chunk.failed for chunk in chunks),
            first_failed_positions=_lowest(position for chunk in chunks for position in chunk.first_failed),
            erased=self.frozen.erased + sum(chunk.erased for chunk in chunks),
            missed=self.frozen.missed,
            expired=sum(chunk.expired for chunk in chunks),
            withheld=self.frozen.withheld,
            lost=sum(chunk.lost for chunk in chunks),
            first_lost_positions=_lowest(position for chunk in chunks for position in chunk.first_lost),
            percent=100 if complete else min(99, 100 * sum(map(_covered, chunks)) // max(total, 1)),
            last_global_position=max(positions, default=None),
            messages_per_second=round(self.sent_now / seconds, 1) if self.sent_now and seconds > 0 else None,
        )
        return ReplayOutcome(selection=self.frozen.selection, progress=reached, complete=complete)


def _lowest(positions: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(positions)[:SHOWN])


def _covered(chunk: Chunk) -> int:
    """How many selected messages a chunk covers."""
    return chunk.sent + chunk.failed + chunk.erased + chunk.expired + chunk.lost


def refuse_unsent(outcome: ReplayOutcome, task: ReplayTask) -> ReplayOutcome:
    """Return the outcome if all was sent.

    Raises:
        RunFailedError: the replay ended, and some messages were lost, or were not as they were stored and the task says
            Fail; the message says how many, and which.
    """
    reached, what = outcome.progress, "dead letters" if task.origin == "DeadLetters" else "messages"
    if outcome.complete and reached.lost:
        raise RunFailedError(
            "MessagesLost",
            f"{reached.lost} of {outcome.selection.messages} selected {what} could not be sent, as they are neither in "
            f"the store any more nor erased{_which(reached.lost, reached.first_lost_positions)}. A purge removed them, "
            "and an erasure the table's versions from before it; all others were sent. Restore those from an archive "
            "if they are needed",
            outcome,
        )
    if outcome.complete and reached.failed and task.on_failed == "Fail":
        raise RunFailedError(
            "MessagesBroken",
            f"{reached.failed} of {outcome.selection.messages} selected {what} were not sent, as they are not as they "
            f"were stored: a digest or seal is broken, or a payload is gone"
            f"{_which(reached.failed, reached.first_failed_positions)}; all others were sent. Find out who changed the "
            "store, or have a new replay pass over them with spec.onFailed: Continue",
            outcome,
        )
    return outcome


def is_stopped_by(failed: int, task: ReplayTask) -> bool:
    """Whether messages that can't be sent end a run that goes on."""
    return bool(failed) and task.on_failed == "Fail"


def _which(count: int, shown: tuple[int, ...]) -> str:
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f": global positions {', '.join(map(str, shown))}{more}" if shown else ""
