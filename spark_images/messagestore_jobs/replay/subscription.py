"""A subscription: a replay that goes on behind a cursor, round by round.

A round is a replay of the messages behind the cursor, up to the store's last position at its start. The cursor's object
names the round before it begins, and moves once it has ended, so that the next run knows which round to go on with.
What a round has staged and sealed is kept as that of any replay, until the cursor has moved.
"""

from dataclasses import dataclass, field

from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.replay import ReplayOutcome, ReplayProgress
from messagestore_core.store.cursors import Cursor, Round, undecidable
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import digest
from messagestore_jobs.replay.begin import begin, note_replay, source_of, task_of, with_missed, with_unnoted
from messagestore_jobs.replay.chunks import Delivery
from messagestore_jobs.replay.control import ReplayControl
from messagestore_jobs.replay.cursor import SubscriptionCursor, after_round, state_of, until_position
from messagestore_jobs.replay.erased import Tombstones
from messagestore_jobs.replay.freeze import nothing
from messagestore_jobs.replay.rounds import FilesRound, reached_by, refuse_ahead, round_delivery
from messagestore_jobs.replay.sending import ErasedSinceError, Sending


@dataclass
class SubscriptionRun(SubscriptionCursor):
    """One run of a subscription, which sends."""

    control: ReplayControl
    _judged_by: str | None = field(default=None, init=False)
    """By which tombstones this run has decided what waits after the round under way."""

    def send(self) -> ReplayOutcome:
        """End the round that an earlier run began, then send what is behind the cursor.

        Raises:
            RunFailedError: all is sent up to a message of which its condition doesn't say whether it goes here; the
                cursor is ahead of its store; or it is one of complete sequences, and the task asks for single messages,
                or the other way round.
        """
        opened = self.open()
        if opened is None:
            return nothing()
        cursor, taken_up = opened
        return self.send_behind(cursor, taken_up=taken_up)[0]

    def send_behind(self, cursor: Cursor, *, taken_up: bool) -> tuple[ReplayOutcome, Cursor]:
        """Like ``send``, with the cursor as it is; return it as it is then, too."""
        outcome, cursor = self.finish(cursor)
        undecided, head = None, self.head()
        if outcome.complete and not outcome.progress.failed and self.has_more(cursor, head):
            until, undecided = self._end_of_round(cursor, head)
            cursor = self._begin(cursor, until)
            if cursor.round is not None:
                try:
                    outcome, cursor = self._go_on(cursor)
                except ErasedSinceError:
                    return self.send_behind(cursor, taken_up=taken_up)
        outcome = with_state(outcome, cursor, self.lag(cursor), taken_up=taken_up)
        if undecided is not None and outcome.complete:
            raise undecidable(undecided, outcome)
        return outcome, cursor

    def finish(self, cursor: Cursor) -> tuple[ReplayOutcome, Cursor]:
        """Send the rest of a round that an earlier run began."""
        if cursor.round is None:
            return nothing(), cursor
        self._judged_by = None
        delivery = round_delivery(self.round_run(cursor, cursor.round.number), cursor)
        refuse_ahead(cursor, self.head(), reached_by(delivery))
        if cursor.sequences is not None and delivery.ended() is None and not self._has_sent(delivery):
            # What waits was decided by the spec and the tombstones of then.
            delivery.state.remove()
            return nothing(), cursor.model_copy(update={"round": None})
        return self._go_on(cursor)

    @staticmethod
    def _has_sent(delivery: Delivery) -> bool:
        """Whether anything of a round that an earlier run began was sent."""
        try:
            return delivery.state.begun() is not None and delivery.has_sent()
        finally:
            delivery.close()

    def _begin(self, cursor: Cursor, until: int) -> Cursor:
        """The cursor with a new round under way; without one if nothing is left to send."""
        number = cursor.rounds + 1
        known = reached_by(round_delivery(self.round_run(cursor, number), cursor))
        refuse_ahead(cursor, self.head(), known)
        if until == cursor.global_position and not self._falls_due(cursor):
            return cursor
        self._judged_by = Tombstones(self._store).digest() if cursor.sequences is not None else None
        waiting = self._waiting(cursor, until)
        following = Round(number=number, until=until, first_part=max(cursor.parts, known.parts), waiting=waiting)
        begun = cursor.model_copy(update={"round": following})
        self.write(begun)
        return begun

    def _go_on(self, cursor: Cursor) -> tuple[ReplayOutcome, Cursor]:
        """Send the round under way; the cursor has moved if it was sent to its end."""
        assert cursor.round is not None
        this = self.round_run(cursor, cursor.round.number)
        delivery = round_delivery(this, cursor)
        outcome = self._sent(cursor, delivery)
        if not outcome.complete:
            return outcome, cursor
        moved = self._moved(cursor, outcome, delivery)
        self.write(moved)
        self._forget(delivery, cursor.round.number)
        sent = outcome.progress
        return outcome.model_copy(
            update={"progress": sent.model_copy(update={"missed": sent.missed + sent.lost, "lost": 0})}
        ), moved

    def _sent(self, cursor: Cursor, delivery: Delivery) -> ReplayOutcome:
        """Send what is left of a round. What a changed spec asks for begins behind the chunks that are sealed."""
        assert cursor.round is not None
        this = self.round_run(cursor, cursor.round.number)
        ended = delivery.ended()
        if ended is not None:
            return self._noted(this, ended)
        task, begun = task_of(this), delivery.state.begun()
        if begun is not None and begun.task != (task_digest := digest(task, self._store.uri)):
            if cursor.sequences is not None:
                # What goes is listed, and no position parts what went from the rest.
                delivery.state.freeze(begun.model_copy(update={"task": task_digest}))
            elif (chunks := delivery.state.chunks()) and (last := chunks[-1].last_global_position) is not None:
                source = source_of(self.round_run(until_position(cursor, last), cursor.round.number), begun)
                sending = Sending(source, with_missed(source, begun), delivery, self.run.progress, self.control)
                return note_replay(this, sending.cut_short())
            else:
                delivery.state.remove()
        source, frozen = begin(this, delivery)
        if not frozen.splits:
            delivery.state.remove()
            passed = ReplayProgress(percent=100, missed=frozen.missed, erased=frozen.erased)
            return nothing().model_copy(update={"selection": frozen.selection, "progress": passed})
        sending = Sending(source, frozen, delivery, self.run.progress, self.control, self._judged_by)
        return self._noted(this, sending.go_on())

    def _noted(self, this: Run, outcome: ReplayOutcome) -> ReplayOutcome:
        return outcome if self._notes_later() else note_replay(this, outcome)

    def _notes_later(self) -> bool:
        """Whether the run goes on, and notes many rounds at once."""
        return self._subscription.continuous and self._waits_in() is not None

    def _unnoted(self, cursor: Cursor, outcome: ReplayOutcome) -> Cursor:
        sent, selected = outcome.progress, outcome.selection
        counts = sent.model_dump(include={"replayed", "failed", "erased", "expired", "set_aside"})
        counts |= {"selected": selected.messages, "bytes": selected.bytes, "missed": sent.missed + sent.lost}
        return with_unnoted(self.run, cursor, counts) if any(counts.values()) else cursor

    def _moved(self, cursor: Cursor, outcome: ReplayOutcome, delivery: Delivery) -> Cursor:
        """The cursor after a round; it ends earlier than it was to if the spec changed meanwhile."""
        assert cursor.round is not None
        sent = outcome.progress
        cut = sent.percent < 100 and sent.last_global_position is not None
        moved = self._unnoted(cursor, outcome) if self._notes_later() else cursor
        return moved.model_copy(
            update={
                "global_position": sent.last_global_position if cut else cursor.round.until,
                "rounds": cursor.round.number if outcome.selection.messages else cursor.rounds,
                "sent": cursor.sent + sent.replayed,
                "erased": cursor.erased + sent.erased,
                "missed": cursor.missed + sent.missed + sent.lost,
                "set_aside": cursor.set_aside + sent.set_aside,
                "expired": cursor.expired + sent.expired,
                "parts": delivery.next_part() if isinstance(delivery, FilesRound) else cursor.parts,
                "sequences": after_round(cursor.sequences, cursor.round),
                "round": None,
            }
        )


def with_state(outcome: ReplayOutcome, cursor: Cursor, lag: Lag, *, taken_up: bool) -> ReplayOutcome:
    """The outcome with the cursor."""
    state = state_of(cursor, lag, taken_up=taken_up)
    return outcome.model_copy(update={"cursor": state, "round": cursor.rounds, "redelivered": cursor.sent})
