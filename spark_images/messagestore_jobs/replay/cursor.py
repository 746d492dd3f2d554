"""The cursor of a subscription: where it begins, where requests move it, and what is behind it."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.clock import in_utc, now
from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.replay import CursorState, Interval, ReplayOrder, StartPoint, WaitingOfRound
from messagestore_core.store.audit import note
from messagestore_core.store.cursors import (
    Cursor,
    CursorObject,
    Round,
    Sequences,
    Waiting,
    beyond,
    cursor_folder,
    cursor_in,
    of_another_kind,
    own_name,
    read_cursors,
)
from messagestore_core.store.delta_log import first_global_position, has_any, next_global_position
from messagestore_core.store.folder import store_id
from messagestore_core.store.layout import REPLAYS
from messagestore_core.store.refused import RefusedMessages
from messagestore_core.store.tombstones import erased_positions
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import source_of, task_of, with_task
from messagestore_jobs.replay.chunks import Delivery
from messagestore_jobs.replay.rounds import reached_by, round_delivery
from messagestore_jobs.replay.selection import check_subscription, decided_by, is_undecided, matches_anywhere
from messagestore_jobs.replay.waiting import as_kept, falls_due, is_complete_only, who_waits, without_erased
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import read_table


@dataclass
class SubscriptionCursor:
    """The cursor of one subscription, of one destination if there are several, as a run finds and writes it."""

    run: Run

    def __post_init__(self) -> None:
        resource = self.run.document.resource
        self._task, self._store = task_of(self.run), self.run.store
        assert self._task.subscription is not None
        self._subscription = self._task.subscription
        self._name, self._destination = f"{resource.namespace}/{resource.name}", self._subscription.destination
        self._id = store_id(self._store)
        self._object = CursorObject(self._store, resource.namespace, resource.name, self._id, self._destination)

    def open(self) -> tuple[Cursor, bool] | None:
        """The cursor, and whether another resource of the name left it; None if its start has no position yet."""
        check_subscription(self._task.select)
        stored = self._object.read()
        if stored is None and not self._destination:
            # They would hold back what waits for a subscription of this name.
            forget_removed(self.run, self._id, {""})
        cursor = stored if stored is not None and not stored.removed else self._new(stored)
        if cursor is None:
            return None
        taken_up = stored is not None and not stored.removed and stored.job != self._task.job_id
        cursor = self._reset(cursor).model_copy(update={"job": self._task.job_id, "beside": self._subscription.beside})
        if (cursor.sequences.order if cursor.sequences else None) != self._waits_in():
            raise of_another_kind(cursor)
        if cursor != stored:
            self.write(cursor)
        return cursor, taken_up

    def upcoming(self) -> Run | None:
        """The round of all that a run would send now, which is not begun; None if nothing is behind the cursor."""
        opened = self.open()
        if opened is None:
            return None
        # What is left of a round that broke off is behind the cursor too.
        cursor = opened[0].model_copy(update={"round": None})
        until, _ = self._end_of_round(cursor, self.head())
        if until <= cursor.global_position and not self._falls_due(cursor):
            return None
        following = Round(number=0, until=until, waiting=self._waiting(cursor, until))
        return self.round_run(cursor.model_copy(update={"round": following}), following.number)

    def state(self) -> CursorState | None:
        """How far the cursor is, and what is behind it, as far as the store tells; None if there is none."""
        cursor = self._object.read()
        if cursor is None or cursor.removed:
            return None
        return state_of(cursor, self.lag(cursor), taken_up=False)

    def head(self) -> int:
        """The last global position that the store has given."""
        return next_global_position(self._store) - 1

    def write(self, cursor: Cursor) -> None:
        """Write the cursor, as this run's."""
        self._object.write(cursor.model_copy(update={"run": self.run.run}))

    def has_more(self, cursor: Cursor, head: int) -> bool:
        """Whether something is behind the cursor, up to the store's last position, or may be overdue that waits."""
        return head != cursor.global_position or self._falls_due(cursor)

    def _falls_due(self, cursor: Cursor) -> bool:
        return falls_due(cursor.waiting, self._task.select, self.run.as_of)

    def _waits_in(self) -> ReplayOrder | None:
        """The order of a subscription of complete sequences; None of another."""
        return self._task.order if is_complete_only(self._task.select) else None

    def _sequences_from(self, position: int) -> Sequences | None:
        """What a cursor at a new position keeps of sequences."""
        order = self._waits_in()
        return Sequences(run=self.run.run, after=position, order=order) if order is not None else None

    def _waiting(self, cursor: Cursor, until: int) -> Waiting | None:
        """What waits after a round up to a position; None if the subscription sends single messages."""
        if cursor.sequences is None:
            return None
        if not has_any(self._store, "sequence_id"):
            return Waiting()
        select = self._task.select
        messages = read_table(self.run.spark, self._store, "messages")
        messages = without_erased(messages, erased_positions(self._store))
        return as_kept(who_waits(messages, matches_anywhere(select), select, cursor, until, self.run.as_of))

    def _new(self, removed: Cursor | None) -> Cursor | None:
        """A new cursor before the first message to send, instead of a removed one; None if that has no position yet."""
        head, start = self.head(), self._subscription.start
        position = self._before(start, head)
        if position is None or position > head:
            return None
        cursor = self._cursor_at(position)
        if removed is not None:
            return self._behind(removed, cursor)
        # Transactions may know more, if the object was lost.
        known = reached_by(round_delivery(self.round_run(cursor, 1), cursor))
        if known.resets < 0:
            return cursor
        return cursor.model_copy(update={"global_position": known.position, "resets": known.resets})

    def _cursor_at(self, position: int) -> Cursor:
        reset = self._subscription.reset.value if self._subscription.reset and self._destination else None
        return Cursor(
            store=self._id,
            subscription=self._name,
            destination=self._destination,
            global_position=position,
            # One of several destinations begins at its start, though the others were moved before.
            reset=reset,
            sequences=self._sequences_from(position),
            run=self.run.run,
            job=self._task.job_id,
        )

    def _behind(self, earlier: Cursor, cursor: Cursor) -> Cursor:
        """A cursor that is to count, instead of an earlier one and of what the destination knows of that."""
        number = earlier.round.number if earlier.round else earlier.rounds
        known = reached_by(round_delivery(self.round_run(earlier, number), earlier))
        return cursor.model_copy(
            update={
                "resets": max(earlier.resets, known.resets) + 1,
                "rounds": max(number, known.rounds),
                "parts": max(earlier.parts, known.parts),
                "round": None,
            }
        )

    def _before(self, start: StartPoint, head: int) -> int | None:
        """The position before the first message to send; None if it is not known yet."""
        if start.global_position is not None:
            return max(0, start.global_position - 1)
        if start.at == "Now":
            return head
        if (first := self._first_since(start.inserted_at)) is not None:
            return first - 1
        return None if start.inserted_at is not None and start.inserted_at > now(self.run.document) else head

    def _first_since(self, inserted_at: datetime | None) -> int | None:
        """The first position, of messages that were stored at a time or later; None without any."""
        if inserted_at is None:
            return first_global_position(self._store)
        rows = read_table(self.run.spark, self._store, "messages")
        return _first_position(rows.where(F.col("inserted_at") >= instant(inserted_at)))

    def _reset(self, cursor: Cursor) -> Cursor:
        """The cursor after a new request for a reset; a round under way is given up.

        Raises:
            RunFailedError: it asks for a position or time that the store has not reached.
        """
        request = self._subscription.reset
        if request is None or request.value == cursor.reset:
            # The same value may be asked for again once it was taken away.
            return cursor if request is not None else cursor.model_copy(update={"reset": None})
        head = self.head()
        position = self._before(request.to, head)
        if position is None or position > head:
            raise beyond(request.value, head)
        news = {"global_position": position, "reset": request.value, "sequences": self._sequences_from(position)}
        moved = self._behind(cursor, cursor.model_copy(update=news))
        own = own_name(self._task.job_id, self._destination)
        detail = {"job": own, "resetTo": request.value, "resets": moved.resets}
        counts = {"globalPositionBefore": cursor.global_position, "globalPositionAfter": position}
        note(self._store, self.run.document, "Reset", detail, counts=counts, once=True)
        if (number := cursor.round.number if cursor.round else None) is not None:
            self._forget(round_delivery(self.round_run(cursor, number), cursor), number)
        return moved

    def _end_of_round(self, cursor: Cursor, head: int) -> tuple[int, int | None]:
        """Up to where a round goes, ``head`` at most; and the first position that can't be decided, if there is one."""
        undecided = self._undecided(cursor, head)
        return self.decided(cursor, head if undecided is None else undecided - 1), undecided

    def _undecided(self, cursor: Cursor, head: int) -> int | None:
        """The position of the first message behind the cursor and up to ``head`` whose condition can't be computed.

        None if there is none, or such messages go to another destination.
        """
        routing = self._task.select.routing
        if routing is None or routing.where is None or self._subscription.otherwise or head < cursor.global_position:
            return None
        behind = self.round_run(until_position(cursor, head), 0)
        rows = source_of(behind, None).current().where(is_undecided(task_of(behind)))
        return _first_position(rows)

    def decided(self, cursor: Cursor, until: int) -> int:
        """Up to where other destinations have decided what they leave to this one; ``until`` at most."""
        routing = self._task.select.routing
        for decider in routing.deciders if routing is not None else ():
            other = cursor_in(self._store, decider.folder, self._id)
            at = max(cursor.global_position, other.global_position if other is not None else 0)
            if at < until:
                behind = self.round_run(until_position(cursor.model_copy(update={"global_position": at}), until), 0)
                rows = decided_by(source_of(behind, None).current(), task_of(behind).select, decider)
                first = _first_position(rows)
                until = until if first is None else first - 1
        return until

    def _forget(self, delivery: Delivery, number: int) -> None:
        """Remove what is left of a round, once the cursor doesn't need it: its state, and what the store has of it."""
        delivery.state.remove()
        to = self._task.to
        held = self.run.store_of(to.table) if isinstance(to, StreamDestination) else self._store
        folder = held.objects(REPLAYS, self._round_job(number))
        if folder.names():
            with held.step("replay-forgotten"):
                folder.delete_folder("")

    def _round_job(self, number: int) -> str:
        """The id of a round; names of resources have no underscore."""
        return f"{own_name(self._name.replace('/', '.'), self._destination)}_{number}"

    def round_run(self, cursor: Cursor, number: int) -> Run:
        """A round, which is a replay of the positions behind the cursor."""
        behind = Interval.model_validate({"from": cursor.global_position + 1, "to": cursor.until})
        waiting = None
        if cursor.sequences is not None:
            after = after_round(cursor.sequences, cursor.round) or cursor.sequences
            waiting = WaitingOfRound(before=cursor.waiting.positions, after=after.waiting.positions)
        select = self._task.select.model_copy(update={"global_positions": behind, "waiting": waiting})
        return with_task(self.run, {"job_id": self._round_job(number), "request_digest": None, "select": select})

    def lag(self, cursor: Cursor) -> Lag:
        """The selected messages behind the cursor."""
        as_of, head = now(self.run.document), self.head()
        if head <= cursor.global_position:
            return Lag(as_of=as_of, records=0)
        rows = source_of(self.round_run(until_position(cursor, head), 0), None).rows()
        totals = rows.agg(F.count("*").alias("records"), F.min("inserted_at").alias("oldest")).toArrow()
        oldest = totals["oldest"][0].as_py()
        return Lag(
            as_of=as_of, records=totals["records"][0].as_py(), oldest_pending_time=in_utc(oldest) if oldest else None
        )


def state_of(cursor: Cursor, lag: Lag, *, taken_up: bool) -> CursorState:
    """The cursor in a report."""
    same = cursor.model_dump(include=CursorState.model_fields.keys() - {"waiting"})
    waiting = cursor.waiting.positions
    first = waiting[0] if waiting else None
    return CursorState(**same, waiting=len(waiting), first_waiting=first, lag=lag, taken_up=taken_up)


def until_position(cursor: Cursor, position: int) -> Cursor:
    """The cursor with a round up to a position."""
    return cursor.model_copy(update={"round": Round(number=0, until=position)})


def after_round(sequences: Sequences | None, ended: Round | None) -> Sequences | None:
    """What a cursor keeps of sequences after a round."""
    if sequences is None or ended is None or ended.waiting is None:
        return sequences
    return sequences.model_copy(update={"waiting": ended.waiting})


def _first_position(rows: DataFrame) -> int | None:
    """The lowest global position of rows; None without any."""
    first = rows.agg(F.min("global_position")).first()
    return None if first is None or first[0] is None else int(first[0])


def forget_removed(run: Run, store_id: str, kept: Collection[str]) -> None:
    """Mark the cursors of a subscription's destinations that are none of those ``kept`` as removed.

    What a round of one has staged in the store is removed too, and what it has left to another one; in another stream's
    store, or beside files, a round's stays.
    """
    resource, store = run.document.resource, run.store
    cursors = read_cursors(store).get((resource.namespace, resource.name), {})
    for destination in sorted(cursors.keys() - set(kept)):
        cursor = cursors[destination]
        if cursor.round is not None:
            own = f"{resource.namespace}.{own_name(resource.name, destination)}_{cursor.round.number}"
            with store.step("replay-forgotten"):
                store.objects(REPLAYS, own).delete_folder("")
        folder = cursor_folder(resource.namespace, resource.name, destination)
        RefusedMessages(store, folder, store_id).forget(store)
        written = CursorObject(store, resource.namespace, resource.name, store_id, destination)
        if written.read() == cursor:
            written.write(cursor.model_copy(update={"removed": True, "run": run.run}))
