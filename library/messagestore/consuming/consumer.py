"""Handle the messages of a store as they come, each stream in order, shared among the consumers of one name."""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Literal, Self, TypeAlias

from messagestore.arguments import length_of_time
from messagestore.consuming.batches import Batch, TransactionalCursors
from messagestore.consuming.cursors import CursorStore, check_consumer, cursors_in
from messagestore.consuming.leases import Leases
from messagestore.consuming.source import Source, Start
from messagestore.consuming.state import State
from messagestore.consuming.work import Work
from messagestore.errors import ArgumentError, ConsumerStateError, MessageStoreError
from messagestore.integrity import OnBroken
from messagestore.message import Message
from messagestore.writer import Writer
from messagestore_core.bounds import MOST_ATTEMPTS
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.consumers import Group
from messagestore_core.store.layout import SLOTS_AT_MOST

Handler: TypeAlias = Callable[[Message], None]

SLOTS, LEASE = 64, timedelta(minutes=1)
_LONGEST_LEASE = timedelta(days=366)
_MOVED_AFTER, _IN_A_TRANSACTION = 10_000, 1000
"""The default of ``batch_size``: moving the cursors is a write for each slot. A transaction is better small."""
_LOOKED_EACH = 0.5
"""Seconds between two looks for the next commit."""
_ERROR_LENGTH = 1000
_ATTEMPT = "x-attempt"

_log = logging.getLogger(__name__)


class Consumer:
    """Handles the messages of a store; several of one name share them by streams, and each stream keeps its order.

    A message counts as handled when its handler has returned, or when the next one is received. Cursors move after each
    batch, so after a crash at most a batch is handled again. Threads don't share a consumer, but for ``stop``.

    Args:
        uri: the store's folder: ``file:///…``, a path, or ``s3a://…``.
        name: of the consumers that share the messages: small letters, digits and ``-``.
        category: only messages of its streams; absent: all.
        where: only messages that meet this condition, in the language of docs/filters.md.
        start: where consumers of a new name begin: at the first message, behind the last one, or at a global position.
        state: the folder below which each name has a folder of cursors, or another place of them; absent:
            ``_consumers`` in the store.
        slots: into how many parts the streams are divided; at most so many consumers have messages.
        lease: how long a consumer keeps its slots if it says nothing. A handler that takes longer loses them.
        batch_size: after how many messages the cursors move, which they also do each sixth of a lease; and how many
            ``batch`` gives. Absent: 10,000, and 1,000 for ``batch``.
        on_error: what ``run`` does with a message whose handler raised an error: try it again, while its stream waits;
            or report it as FAILED, and go on.
        max_backoff: the longest time between two tries of a message; the first is one second.
        writer: reports failures, for ``on_error="Park"``; with the stream's ``lifecycle`` source.
        storage: how buckets are reached; absent: by AWS' environment variables.
        on_broken: as for a ``Reader``.
        clock: the time of leases.

    Raises:
        ArgumentError: an argument is none.
        StoreNotFoundError, StoreUnreadableError, StorageError: as for a ``Reader``.
        ConsumerStateError: the consumers of this name have another number of slots.
    """

    def __init__(
        self,
        uri: str,
        name: str,
        *,
        category: str | None = None,
        where: str | None = None,
        start: Start = "Beginning",
        state: CursorStore | str | None = None,
        slots: int = SLOTS,
        lease: timedelta = LEASE,
        batch_size: int | None = None,
        on_error: Literal["Block", "Park"] = "Block",
        max_backoff: timedelta = timedelta(minutes=1),
        writer: Writer | None = None,
        storage: Sequence[StorageEntry] | None = None,
        on_broken: OnBroken | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        check_consumer(name)
        length_of_time("max_backoff", max_backoff)
        _check(slots, lease, batch_size, on_error, writer)
        self._parks, self._writer, self._has_parked = on_error == "Park", writer, False
        self._handlers: dict[str | None, Handler] = {}
        self._is_stopped = False
        # Unlike an event it has no lock: a handler of signals may run while its own thread would hold that.
        self._woken = SimpleQueue[None]()
        self._batch_size = batch_size or _IN_A_TRANSACTION
        with ExitStack() as held:
            self._source = held.enter_context(closing(Source(uri, category, where, storage, on_broken)))
            first = self._source.before(start)
            self._cursors = cursors_in(self._source.location.uri, name, state, storage)
            self._state = held.enter_context(closing(State(self._cursors, name, self._source.store_id)))
            self._leases = Leases(self._state, self._begun(name, slots, first), lease, clock)
            self._work = Work(self._source, self._leases, batch_size or _MOVED_AFTER, max_backoff, clock, self._report)
            held.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # The message in hand was not handled.
        self._work.drop()
        try:
            self.close()
        except MessageStoreError as another:
            _log.warning("the consumer's slots are free when their leases end: %s", another)

    def close(self) -> None:
        """Move the cursors, give the slots back, and release the consumer's resources.

        Raises:
            StorageError: the cursors can't be moved; then what was handled since they moved last is handled again.
        """
        try:
            self._work.finish()
            self._work.give_back()
        finally:
            self._state.close()
            self._source.close()

    def on(self, type: str | None = None) -> Callable[[Handler], Handler]:
        """Declare the handler of a type of messages, or of all types that have no other one.

        Messages that have no handler are passed over.
        """

        def declare(handler: Handler) -> Handler:
            self._handlers[type] = handler
            return handler

        return declare

    def stop(self) -> None:
        """Have ``run`` and ``receive`` return after the message in hand; from a signal handler or any thread."""
        self._is_stopped = True
        self._woken.put(None)

    def run(self) -> None:
        """Handle messages until ``stop`` is called.

        Raises:
            ArgumentError: no handler was declared.
            CursorAheadError: the store was put back from a copy.
            StorageError, ConsumerStateError: the store or the state can't be reached; or the state was deleted.
            BrokenMessageError: a message is not what was stored; without ``on_broken``.
        """
        if not self._handlers:
            raise ArgumentError("declare a handler first: @consumer.on(TYPE), or @consumer.on() for all types")
        while (message := self.receive()) is not None:
            handler = self._handlers.get(message.type) or self._handlers.get(None)
            if handler is None:
                continue
            try:
                handler(message)
            except Exception as error:
                self._failed(message, error)

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; the one before counts as handled.

        Args:
            timeout: for how many seconds to wait for one; absent: until ``stop`` is called.

        Returns:
            None if there was none in time, or ``stop`` was called.

        Raises:
            CursorAheadError, StorageError, ConsumerStateError, BrokenMessageError: as for ``run``.
        """
        until: float | None = None
        while not self._is_stopped:
            placed = self._work.next()
            if placed is not None:
                return placed.message
            if self._work.look_for_more():
                continue
            if timeout is not None and until is None:
                until = monotonic() + timeout
            left = _LOOKED_EACH if until is None else until - monotonic()
            if left <= 0:
                return None
            self._wait(left)
        self._work.finish()
        return None

    def receive_nowait(self) -> Message | None:
        """The next message if there is one now; the one before counts as handled."""
        return self.receive(timeout=0)

    def batch(self, timeout: float | None = None) -> Batch:
        """The next messages, for a transaction of the caller's database, which also moves the cursor.

        It begins behind what was committed: if the transaction before was rolled back, with the same messages.

        Args:
            timeout: for how many seconds to wait for one; absent: until ``stop`` is called.

        Returns:
            At most ``batch_size`` messages; without any if there was none in time, or ``stop`` was called.

        Raises:
            ArgumentError: the consumer's state is in no database.
            CursorAheadError, StorageError, ConsumerStateError, BrokenMessageError: as for ``run``.
        """
        cursors = self._cursors
        if not isinstance(cursors, TransactionalCursors):
            raise ArgumentError(
                "batch() needs state=PostgresCursors(…): the cursor has to be in the database of the transaction"
            )
        until = None if timeout is None else monotonic() + timeout
        while not self._is_stopped:
            messages = self._work.take(self._batch_size)
            if messages:
                return Batch(messages, cursors, self._work.behind_taken)
            while not self._work.may_have_more():
                left = _LOOKED_EACH if until is None else until - monotonic()
                if left <= 0 or self._wait(left):
                    return Batch([], cursors, list)
            if until is not None and monotonic() >= until:
                break
        return Batch([], cursors, list)

    def _wait(self, seconds: float) -> bool:
        """Wait, but not longer than until the next look; returns whether ``stop`` was called."""
        with suppress(Empty):
            self._woken.get(timeout=min(seconds, _LOOKED_EACH))
        return self._is_stopped

    def _begun(self, name: str, slots: int, first: int) -> Group:
        group = self._state.group() or self._state.begin(slots, first)
        if group.slots != slots:
            raise ConsumerStateError(
                f"consumer {name} has {group.slots} slots, not {slots}: give slots={group.slots}, or delete its state "
                "and begin anew"
            )
        return group

    def _failed(self, message: Message, error: Exception) -> None:
        said = f"{type(error).__name__}: {error}"[:_ERROR_LENGTH]
        if not self._parks:
            _log.warning("message %s is tried again: %s", message.message_id, said)
            self._work.hold()
            return
        assert self._writer is not None
        # Also if it can't be written now: the writer has it then.
        self._has_parked = True
        self._writer.mark_failed(message.message_id, said, attempt=_attempt(message))

    def _report(self) -> None:
        """Write the reports of failures, before the cursors move past them."""
        if self._has_parked:
            assert self._writer is not None
            self._writer.flush()
            self._has_parked = False


def _check(slots: int, lease: timedelta, batch_size: int | None, on_error: str, writer: Writer | None) -> None:
    if not 1 <= slots <= SLOTS_AT_MOST:
        raise ArgumentError(f"slots must be from 1 to {SLOTS_AT_MOST}")
    if not timedelta(seconds=1) <= length_of_time("lease", lease) <= _LONGEST_LEASE:
        raise ArgumentError("lease must be at least a second, and at most a year")
    if batch_size is not None and batch_size < 1:
        raise ArgumentError("batch_size must be at least 1")
    if on_error not in ("Block", "Park"):
        raise ArgumentError(f"on_error={on_error!r} is neither Block nor Park")
    if on_error == "Park" and (writer is None or not writer.writes_updates):
        raise ArgumentError('on_error="Park" needs a writer with lifecycle=, where the stream reads status updates')


def _attempt(message: Message) -> int:
    """Which delivery of a message this is; one that is sent again says it in a header, which anybody may have set."""
    given = message.headers.get(_ATTEMPT) or ""
    attempt = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 1
    return attempt if 1 <= attempt <= MOST_ATTEMPTS else 1
