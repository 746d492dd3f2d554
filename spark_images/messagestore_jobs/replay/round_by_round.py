"""A continuous replay of complete sequences: one run that does round after round, as runs that end do one each.

Positions don't tell how far a destination is, as members that waited come behind others; so each round stages what it
sends. Between two chunks nothing is staged: an erasure waits until this run has told of one since the purge. While
nothing comes and nothing falls due, it asks once a second for the next entry of the table's log.
"""

from dataclasses import replace

from messagestore_core.clock import now
from messagestore_core.contract.replay import ReplayOutcome
from messagestore_core.store.cursors import Cursor
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import is_due, note_unnoted, task_of
from messagestore_jobs.replay.control import ReplayControl, WithinLimits
from messagestore_jobs.replay.freeze import nothing
from messagestore_jobs.replay.leaves import together
from messagestore_jobs.replay.newest import LOOK_AGAIN, Newest
from messagestore_jobs.replay.sending import is_stopped_by
from messagestore_jobs.replay.subscription import SubscriptionRun, with_state


class RoundByRound(WithinLimits):
    """One run, of an opened subscription; of each round it is the control, as the whole run is controlled."""

    def __init__(
        self, run: Run, control: ReplayControl, subscription: SubscriptionRun, cursor: Cursor, *, taken_up: bool
    ) -> None:
        super().__init__(control)
        self._run, self._taken_up = run, taken_up
        self._subscription, self._cursor = subscription, cursor
        subscription.control = self
        self._newest = Newest(run.store)
        self._ended = self._outcome = nothing()
        self._tombstones_version: int | None = None
        self._told = False

    def send(self) -> ReplayOutcome:
        """Send until told to stop, or until a message can't be sent.

        Raises:
            RunFailedError: as a subscription does.
        """
        complete = True
        self._look_at_tombstones()
        lag = self._subscription.lag(self._cursor)
        self._outcome = with_state(nothing(), self._cursor, lag, taken_up=self._taken_up)
        while complete and not self.suspended() and not is_stopped_by(self._ended.progress.failed, task_of(self._run)):
            at = replace(self._run, as_of=now(self._run.document))
            self._subscription.run = at
            if is_due(at, self._cursor):
                self._note()
            if self._cursor.round is not None or self._subscription.has_more(self._cursor, self._newest.head):
                complete = self._send_round()
            else:
                if not self._told:
                    # Not before: what is told says that the destination takes what is sent.
                    self._tell()
                if self.stopped(LOOK_AGAIN):
                    break
            if self._newest.look() and self._look_at_tombstones():
                self._tell()
        self._note()
        return self._outcome.model_copy(update={"complete": complete})

    def _look_at_tombstones(self) -> bool:
        """Note by which tombstones all is judged from now on, if no round was begun; return whether they are new."""
        return self._cursor.round is None and self._judge_anew()

    def _judge_anew(self) -> bool:
        known, self._tombstones_version = self._tombstones_version, self._run.store.table("tombstones").version()
        return self._tombstones_version != known

    def _send_round(self) -> bool:
        """Send a round, or find that it is to be read anew; false if the run is to end."""
        try:
            outcome, self._cursor = self._subscription.send_behind(self._cursor, taken_up=self._taken_up)
        except Exception as error:
            opened = self._subscription.open() if self._newest.is_to_be_read_anew(error) else None
            if opened is None:
                raise
            self._cursor = opened[0]
            self._run.progress.say("what is read was removed meanwhile; the newest version is read")
            return True
        self.reached(outcome)
        self._ended = self._outcome
        return outcome.complete

    def _note(self) -> None:
        if self._cursor.unnoted is not None:
            self._cursor = note_unnoted(self._run, self._cursor)
            self._subscription.write(self._cursor)

    def reached(self, outcome: ReplayOutcome) -> None:
        """Tell the outcome of all rounds, the one under way included, whenever nothing staged is left to send."""
        self._judge_anew()
        known = outcome if outcome.cursor is not None else self._outcome
        both = together([self._ended, outcome], [], complete=outcome.complete)
        place = {"cursor": known.cursor, "round": known.round, "redelivered": known.redelivered}
        self._outcome = both.model_copy(update=place)
        self._tell()

    def _tell(self) -> None:
        self._outcome = self._outcome.model_copy(update={"tombstones": self._tombstones_version})
        self._whole.reached(self._outcome)
        self._told = True
