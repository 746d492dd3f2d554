"""The cursor of a subscription: how far it has sent the messages of a store, as an object of the store's folder.

It belongs to the subscription's name, not to its resource, and stays when the resource goes. A replay out of a store
holds no right to write it, so each write of a cursor is conditional: of two runs of one subscription, the one that
wrote last goes on.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from messagestore_core.contract.base import ContractModel, Count
from messagestore_core.contract.replay import ReplayOrder, ReplayOutcome
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import FencedError, HeldStore
from messagestore_core.store.folder import store_id
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import CURSOR, CURSORS
from messagestore_core.store.objects import LARGEST_DOCUMENT, documents_in, join, parsed_document, read_document

_FORMAT_VERSION: Literal[1] = 1
MOST_WAITING = 1_000_000
"""Messages that may wait for others of their sequences, some 10 bytes each in the cursor's object."""


class Waiting(ContractModel):
    """Messages that wait for others of their sequences."""

    positions: Annotated[tuple[Count, ...], Field(max_length=MOST_WAITING)] = ()
    """In order."""
    oldest_time: datetime | None = None
    """The time of the earliest message of their sequences."""


class Sequences(ContractModel):
    """What a subscription of complete sequences keeps besides its position."""

    run: str
    """The run that wrote it first; a topic knows what it has been sent since by this name."""
    after: Count
    """The cursor's position then: what is before it was not sent by this cursor."""
    order: ReplayOrder
    waiting: Waiting = Waiting()


class Round(ContractModel):
    """A round under way: it sends what lies behind the cursor, up to a position."""

    number: Count
    until: Count
    first_part: Count = 0
    """The number of its first object of files."""
    anchored: bool = False
    """Of a continuous replay: the destination knew the cursor before the round began."""
    waiting: Waiting | None = Field(default=None, exclude_if=lambda waiting: waiting is None)
    """Of a subscription of complete sequences: what waits after the round."""


class Unnoted(ContractModel):
    """What a continuous replay has done since its last row in the audit."""

    after: Count
    """The cursor's position before."""
    since: datetime
    selected: Count = 0
    bytes: Count = 0
    replayed: Count = 0
    failed: Count = 0
    erased: Count = 0
    missed: Count = 0
    expired: Count = 0
    set_aside: Count = Field(default=0, exclude_if=lambda count: not count)


class Cursor(ContractModel):
    """How far a subscription has sent: positions, counts and names of resources, nothing of messages."""

    format_version: Literal[1] = _FORMAT_VERSION
    store: str
    """The store's id: a store that was made again has no cursor."""
    subscription: str
    """Namespace and name of the ReplayJob."""
    destination: str = ""
    """The name of one of several destinations; empty: the only one."""
    beside: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The names of the others: one without a cursor has sent nothing yet."""
    removed: bool = Field(default=False, exclude_if=lambda removed: not removed)
    """Whether the subscription has this destination no more. What is left tells a later one of its name what was sent
    under that name; it holds nothing back."""
    global_position: Count
    """The last position that was sent, or passed over; 0: none."""
    rounds: Count = 0
    resets: Count = 0
    reset: Annotated[str, Field(max_length=64)] | None = None
    """The last request for a reset that was carried out."""
    sent: Count = 0
    erased: Count = 0
    missed: Count = 0
    expired: Count = 0
    set_aside: Count = 0
    parts: Count = 0
    """How many objects of files have been numbered."""
    sequences: Sequences | None = Field(default=None, exclude_if=lambda sequences: sequences is None)
    """Of a subscription of complete sequences."""
    round: Round | None = None
    unnoted: Unnoted | None = None
    """Of a continuous replay."""
    run: str
    """The run that wrote last."""
    job: str
    """The id of the resource that had it last."""

    @field_validator("missed", mode="before")
    @classmethod
    def _not_negative(cls, missed: Any) -> Any:
        """An earlier release wrote less than 0 where a changed spec had cut a round short."""
        return max(missed, 0) if isinstance(missed, int) else missed

    @property
    def until(self) -> int:
        """The last position that may have been sent."""
        return self.round.until if self.round else self.global_position

    @property
    def waiting(self) -> Waiting:
        """What waits for others of its sequence."""
        return self.sequences.waiting if self.sequences else Waiting()

    @property
    def passed(self) -> int:
        """The last position up to which nothing is left to send: that before the first that waits."""
        waiting = self.waiting.positions
        return min(waiting[0] - 1, self.global_position) if waiting else self.global_position


class CursorObject:
    """The object of one subscription's cursor, as one run reads and writes it.

    Args:
        held: the store; a run that only reads it may write the cursor.
    """

    def __init__(self, held: HeldStore, namespace: str, name: str, store_id: str, destination: str = "") -> None:
        self._held, self._store_id = held, store_id
        self._objects = held.objects(CURSORS, cursor_folder(namespace, name, destination))
        self._etag: str | None = None

    def read(self) -> Cursor | None:
        """The cursor; None if there is none of this store.

        Raises:
            TableRefusedError: the object is no cursor.
        """
        now = self._objects.marked(CURSOR, LARGEST_DOCUMENT)
        if now is None:
            self._etag = None
            return None
        content, self._etag = now
        cursor = parsed_document(Cursor, content, join(self._objects.uri, CURSOR))
        return cursor if cursor.store == self._store_id else None

    def write(self, cursor: Cursor) -> None:
        """Write the cursor, if it is still what this run has read or written.

        Raises:
            FencedError: another run of the subscription has written it.
        """
        content = cursor.model_dump_json(by_alias=True).encode()
        with self._held.step("cursor"):
            written = self._objects.swap(CURSOR, content, self._etag)
        if written is None:
            raise FencedError(f"another run moved {join(self._objects.uri, CURSOR)}; this one ends")
        self._etag = written


def read_cursors(store: Store) -> dict[tuple[str, str], dict[str, Cursor]]:
    """The cursors of a store by namespace and name of their subscriptions, and by destination.

    Raises:
        TableRefusedError: an object is no cursor.
    """
    objects, own = store.objects(), store_id(store)
    cursors: dict[tuple[str, str], dict[str, Cursor]] = {}
    for folder, cursor in documents_in(objects, CURSORS, CURSOR, Cursor):
        if cursor.store == own and not cursor.removed:
            namespace, name, destination = _subscription(folder)
            cursors.setdefault((namespace, name), {})[destination] = cursor
    return cursors


def cursor_in(store: Store, folder: str, store_id: str) -> Cursor | None:
    """The cursor in a folder; None if there is none of this store, or its destination was removed.

    Raises:
        TableRefusedError: the object is no cursor.
    """
    cursor = read_document(store.objects(CURSORS, folder), CURSOR, Cursor)
    return cursor if cursor is not None and cursor.store == store_id and not cursor.removed else None


def passed_by_all(cursors: Mapping[str, Cursor], head: int) -> int | None:
    """The last position that all destinations of a subscription have passed; None if one has no cursor yet.

    Members of sequences that wait are not passed.

    A cursor ahead of the store, whose last position is ``head``, says nothing.
    """
    named = {*cursors, *(name for cursor in cursors.values() for name in cursor.beside)}
    known = [cursor.passed for cursor in cursors.values() if cursor.global_position <= head]
    return min(known) if known and len(known) == len(named) else None


def _subscription(folder: str) -> tuple[str, str, str]:
    """The namespace and name of the subscription whose cursor is in a folder, and the destination."""
    namespace, _, rest = folder.rstrip("/").rpartition("/")[2].partition(".")
    name, _, destination = rest.partition("_")
    return namespace, name, destination


def cursor_folder(namespace: str, name: str, destination: str = "") -> str:
    """The folder of a subscription's cursor; no namespace has a dot in its name, and no resource an underscore."""
    return f"{namespace}.{own_name(name, destination)}"


def own_name(name: str, destination: str) -> str:
    """The name of what one of several destinations has of its own; that of the resource for the only one."""
    return f"{name}_{destination}" if destination else name


def unknown(cursor: Cursor) -> RunFailedError:
    """The error of a cursor whose round broke off, where the destination has forgotten how far it is."""
    return RunFailedError(
        "CursorUnknown",
        f"a run broke off while it sent what is behind global position {cursor.global_position}, and the cluster has "
        "forgotten how much of it arrived (offsets.retention.minutes); look which message the topic has last, and set "
        "annotation messagestore.dev/reset-to to the first position that is to be sent",
    )


def undecidable(position: int, outcome: ReplayOutcome) -> RunFailedError:
    """The error of one of several destinations behind which stands a message that can't be decided."""
    return RunFailedError(
        "RouteUndecided",
        f"all before global position {position} is sent; the destination's where can't be computed for the message "
        "there: change where, give another destination otherwise: true, or move the cursor past it by annotation "
        "messagestore.dev/reset-to",
        outcome,
    )


def ahead(what: str) -> RunFailedError:
    """The error of a cursor that is ahead of its store, which was laid back from a copy."""
    return RunFailedError(
        "CursorAhead",
        f"{what}: the store was laid back to an earlier state, and gives positions again that were sent; set "
        "annotation messagestore.dev/reset-to to the first position that is to be sent, or to Now",
    )


def beyond(reset_to: str, head: int) -> RunFailedError:
    """The error of a request for a position or time that the store has not reached."""
    return RunFailedError(
        "CursorAhead",
        f"reset-to {reset_to} lies past the store's last global position {head}; set annotation "
        "messagestore.dev/reset-to to a position or time that the store has reached, or to Now",
    )


def too_many_wait() -> RunFailedError:
    """The error of a subscription of complete sequences of which too many are incomplete."""
    return RunFailedError(
        "SequencesWait",
        f"more than {MOST_WAITING} messages wait for others of their sequences: set select.sequences.orOverdue and the "
        "stream's sequences.timeout, have a RetentionPolicy remove incomplete sequences, or begin behind them by "
        "annotation messagestore.dev/reset-to",
    )


def of_another_kind(cursor: Cursor) -> RunFailedError:
    """The error of a cursor of complete sequences whose subscription asks for all messages, or the other way round."""
    was = f"of complete sequences in order {cursor.sequences.order}" if cursor.sequences else "of single messages"
    waiting = cursor.waiting.positions
    left = f"; {len(waiting)} messages wait, the first at {waiting[0]}" if waiting else ""
    return RunFailedError(
        "CursorOfAnother",
        f"the cursor, at {cursor.global_position}, is {was}, and select.sequences.completeOnly or order now says "
        f"otherwise{left}. Set it back, or set annotation messagestore.dev/reset-to to the first position that is to "
        f"be sent, such as {cursor.global_position + 1}",
    )
