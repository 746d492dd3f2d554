"""A continuous replay: one run that sends messages as they come, until it is stopped.

It stages nothing, unless it sends complete sequences. The cursor's object names a round before the first of its
transactions and moves after the last; what transactions have committed counts, so that the next run goes on right
behind them. While nothing comes it asks once a second for the next entry of the table's log, and does no work in Spark.
"""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

from messagestore_core.clock import now
from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress
from messagestore_core.store.cursors import Cursor, Round, undecidable
from messagestore_core.store.folder import exists
from messagestore_core.store.tombstones import Erased, open_erased
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import is_due, note_unnoted, source_of, task_of, with_unnoted
from messagestore_jobs.replay.behind import Behind, Counted, Records, look_behind
from messagestore_jobs.replay.chunks import PACED_SECONDS, SHOWN
from messagestore_jobs.replay.control import Pace, ReplayControl
from messagestore_jobs.replay.erased import Tombstones
from messagestore_jobs.replay.freeze import nothing
from messagestore_jobs.replay.newest import LOOK_AGAIN, Newest
from messagestore_jobs.replay.outlets import Outlet, outlet_of
from messagestore_jobs.replay.round_by_round import RoundByRound
from messagestore_jobs.replay.rounds import Reached, refuse_ahead
from messagestore_jobs.replay.sending import is_stopped_by
from messagestore_jobs.replay.subscription import SubscriptionRun, with_state

ROUND_POSITIONS = 10_000
"""How many positions a round looks at."""
_PORTION_BYTES = 32 << 20
"""Of payloads that are held in memory and sent at once, unless one alone is larger."""
_LOOK_FOR_START = timedelta(seconds=5)
ROUND_SECONDS = 20.0
"""For how long a round goes on."""
_ANCHORED_SECONDS = 3600.0
"""A cluster forgets a group that has committed nothing for a week."""
_TELL_SECONDS, _TELL_IDLE_SECONDS, _COUNT_SECONDS = 4.0, 30.0, 60.0


def send_on(run: Run, control: ReplayControl, begins: Callable[[], None] = lambda: None) -> ReplayOutcome:
    """Send what is behind the cursor, and what comes, until told to stop; or until a message can't be sent.

    ``begins`` is called once there is something to send from.

    Raises:
        RunFailedError: as a subscription does.
    """
    subscription = SubscriptionRun(run, control)
    opened = None
    while not exists(run.store) or (opened := subscription.open()) is None:
        # There is no store yet, or no message where it is to begin.
        if control.stopped(_LOOK_FOR_START):
            return nothing()
    begins()
    cursor, taken_up = opened
    if cursor.sequences is not None:
        return RoundByRound(run, control, subscription, cursor, taken_up=taken_up).send()
    if cursor.round is not None and not cursor.round.anchored:
        # A round of runs that end, which stage what they send.
        outcome, cursor = subscription.finish(cursor)
        if not outcome.complete or is_stopped_by(outcome.progress.failed, task_of(run)):
            return with_state(outcome, cursor, subscription.lag(cursor), taken_up=taken_up)
    with closing(outlet_of(run, cursor)) as outlet:
        return Continuous(run, control, subscription, outlet, cursor, taken_up=taken_up).send()


class Continuous:
    """One run of a continuous replay, whose cursor has no round that was begun by another kind of run."""

    def __init__(
        self,
        run: Run,
        control: ReplayControl,
        subscription: SubscriptionRun,
        outlet: Outlet,
        cursor: Cursor,
        *,
        taken_up: bool,
    ) -> None:
        self._run, self._control, self._subscription, self._outlet = run, control, subscription, outlet
        self._cursor, self._taken_up = cursor, taken_up
        self._task, self._store = task_of(run), run.store
        self._pace, self._tombstones = Pace(control), Tombstones(run.store)
        assert self._task.subscription is not None
        # Others hold as much at the same time.
        self._portion_bytes = _PORTION_BYTES // (1 + len(self._task.subscription.beside))
        self._erased: tuple[str, Erased] | None = None
        self._newest = Newest(self._store)
        self._first = 0
        self._sent, self._first_failed = Counted(), tuple[int, ...]()
        self._anchored_at = self._reported_at = self._counted_at = -_ANCHORED_SECONDS
        self._reported_cursor: Cursor | None = None
        self._lag: Lag | None = None
        self._tombstones_version: int | None = None

    def send(self) -> ReplayOutcome:
        """Send until told to stop."""
        self._outlet.check()
        known = self._outlet.reached()
        refuse_ahead(self._cursor, self._newest.head, known)
        self._take_up(known)
        self._first = self._cursor.global_position
        self._look_at_tombstones()
        self._run.progress.step("replay")
        while not self._control.suspended() and not is_stopped_by(self._sent.failed, self._task):
            if is_due(self._run, self._cursor):
                self._note()
            until = self._subscription.decided(self._cursor, self._newest.head)
            if until > self._cursor.global_position:
                self._send_round(until)
                self._tell(_TELL_SECONDS)
            else:
                self._tell(_TELL_SECONDS if self._cursor != self._reported_cursor else _TELL_IDLE_SECONDS)
                if self._control.stopped(LOOK_AGAIN):
                    break
            self._look()
        self._note()
        return self._outcome()

    def _take_up(self, known: Reached) -> None:
        """Go on behind the last transaction, and note what an earlier run has done."""
        cursor = self._cursor
        if known.resets == cursor.resets and known.position > cursor.global_position:
            after, until = cursor.global_position, known.position
            behind = self._look_behind(until)
            for portion in behind.portions(self._portion_bytes, ROUND_POSITIONS):
                records = behind.records(portion, self._run.run, self._outlet.line_breaks)
                counted = self._counted(behind, records, portion.after, portion.until)
                cursor = _moved(self._run, cursor, portion.until, counted)
            self._run.progress.say(f"an earlier run has sent what is behind {after}, up to global position {until}")
        if cursor.round is not None:
            cursor = cursor.model_copy(update={"round": None})
        if cursor != self._cursor:
            self._write(cursor)
        self._note()
        self._anchor()

    def _anchor(self) -> bool:
        """Have the destination know the cursor, before a round is named; false if it can't yet."""
        if time.monotonic() - self._anchored_at >= _ANCHORED_SECONDS:
            if not self._outlet.start_from(self._cursor.resets, self._cursor.global_position):
                return False
            self._anchored_at = time.monotonic()
        return True

    def _look(self) -> None:
        """Look for commits that came since; of the store's own runs each tells the last position."""
        if self._newest.look():
            self._look_at_tombstones()
        refuse_ahead(self._cursor, self._newest.head, Reached(self._cursor.resets))

    def _look_at_tombstones(self) -> None:
        """Note by which tombstones all is judged from now on, as no round is under way; an erasure waits for that."""
        version = self._store.table("tombstones").version()
        if version != self._tombstones_version:
            self._tombstones_version, self._reported_at = version, -_ANCHORED_SECONDS

    def _send_round(self, until: int) -> None:
        """Send what is behind the cursor, up to a position, or a part of it; all anew once something of it was erased.

        Raises:
            RunFailedError: a message can't be sent, or its condition doesn't say whether it goes here.
        """
        try:
            behind = self._look_behind(min(until, self._cursor.global_position + ROUND_POSITIONS))
            if (undecided := behind.undecided) is not None:
                behind = behind.up_to(undecided - 1)
            self._send_behind(behind)
            if undecided == self._cursor.global_position + 1:
                raise undecidable(undecided, self._outcome())
        except Exception as error:
            if not self._newest.is_to_be_read_anew(error):
                raise
            self._run.progress.say("what is read was removed meanwhile; the newest version is read")

    def _look_behind(self, until: int) -> Behind:
        seen = self._tombstones.digest()
        if self._erased is None or self._erased[0] != seen:
            self._erased = seen, open_erased(self._store)
        run = replace(self._run, as_of=now(self._run.document))
        return look_behind(source_of(run, None), self._cursor.global_position, until, self._erased[1])

    def _send_behind(self, behind: Behind) -> None:
        """Send a range, or a part of it, and move the cursor behind what was sent.

        Raises:
            RunFailedError: a message can't be sent; the cursor is before it.
        """
        rate = self._control.messages_per_second()
        most = ROUND_POSITIONS if rate is None else max(1.0, rate * PACED_SECONDS)
        cursor, before, begun, rests = self._cursor, self._cursor, time.monotonic(), False
        for portion in behind.portions(self._portion_bytes, most):
            records, after = behind.records(portion, self._run.run, self._outlet.line_breaks), portion.after
            content = records.content
            if content:
                if not self._pace.wait(records.sent):
                    break
                self._begin_round(cursor, behind.until)
            for reached in self._outlet.send(content, self._unchanged) if content else [None]:
                until = portion.until if reached is None else max(reached, after)
                cursor, after = self._count(cursor, behind, records, after, until), until
                if not self._outlet.tells:
                    self._write(cursor)
                    self._tell(_TELL_SECONDS)
                if rests := self._control.suspended() or time.monotonic() - begun >= ROUND_SECONDS:
                    break
            if rests or after < portion.until:
                break
        rounds = before.rounds + (cursor.sent > before.sent)
        self._write(cursor.model_copy(update={"round": None, "rounds": rounds}))
        if self._outlet.failure is not None:
            raise self._outlet.failure

    def _unchanged(self) -> bool:
        """Whether nothing was erased since the round looked at the tombstones."""
        assert self._erased is not None
        return self._tombstones.digest() == self._erased[0]

    def _begin_round(self, cursor: Cursor, until: int) -> None:
        if self._cursor.round is None and self._outlet.tells:
            begun = Round(number=cursor.rounds + 1, until=until, anchored=self._anchor())
            self._write(self._cursor.model_copy(update={"round": begun}))

    def _count(self, cursor: Cursor, behind: Behind, records: Records, after: int, until: int) -> Cursor:
        counted = self._counted(behind, records, after, until)
        self._sent = Counted(*(a + b for a, b in zip(self._sent, counted, strict=True)))
        failed = behind.failed_in(records, after, until).tolist()
        self._first_failed = (*self._first_failed, *failed)[:SHOWN]
        self._run.progress.advance(counted.selected)
        if failed:
            self._run.progress.say(
                f"{len(failed)} messages are not as they were stored and are not sent, the first at global position "
                f"{failed[0]}"
            )
        return _moved(self._run, cursor, until, counted)

    def _counted(self, behind: Behind, records: Records, after: int, until: int) -> Counted:
        counted = behind.counted(records, after, until)
        # What was left to another before a crash may have expired since.
        left = min(self._outlet.left(after, until), counted.replayed)
        return counted._replace(replayed=counted.replayed - left, set_aside=left)

    def _write(self, cursor: Cursor) -> None:
        self._subscription.write(cursor)
        self._cursor = cursor

    def _note(self) -> None:
        if self._cursor.unnoted is not None:
            self._write(note_unnoted(self._run, self._cursor))

    def _tell(self, every_seconds: float) -> None:
        """Keep the outcome for reports, unless the last one is recent."""
        if time.monotonic() - self._reported_at >= every_seconds:
            self._control.reached(self._outcome())
            self._reported_at, self._reported_cursor = time.monotonic(), self._cursor

    def _outcome(self) -> ReplayOutcome:
        sent, at = self._sent, self._cursor.global_position
        head = self._newest.head
        to_go = max(head - self._first, 1)
        counts = {name: count for name, count in sent._asdict().items() if name not in ("selected", "bytes")}
        progress = ReplayProgress(
            **counts,
            first_failed_positions=self._first_failed,
            percent=100 if at >= head else min(99, 100 * (at - self._first) // to_go),
            last_global_position=at or None,
        )
        selection = FrozenSelection(table_version=self._newest.version, messages=sent.selected, bytes=sent.bytes)
        outcome = ReplayOutcome(
            selection=selection, progress=progress, complete=True, tombstones=self._tombstones_version
        )
        return with_state(outcome, self._cursor, self._known_lag(), taken_up=self._taken_up)

    def _known_lag(self) -> Lag:
        """What is behind the cursor; counted once a minute at most, as that reads the store."""
        if self._newest.head <= self._cursor.global_position:
            return Lag(as_of=now(self._run.document), records=0)
        if self._lag is None or time.monotonic() - self._counted_at >= _COUNT_SECONDS:
            self._lag, self._counted_at = self._subscription.lag(self._cursor), time.monotonic()
        return self._lag


def _moved(run: Run, cursor: Cursor, until: int, counted: Counted) -> Cursor:
    """The cursor at a position, with the counts of what it has passed."""
    return with_unnoted(run, cursor, counted._asdict()).model_copy(
        update={
            "global_position": until,
            "sent": cursor.sent + counted.replayed,
            "erased": cursor.erased + counted.erased,
            "missed": cursor.missed + counted.missed,
            "expired": cursor.expired + counted.expired,
            "set_aside": cursor.set_aside + counted.set_aside,
        }
    )
