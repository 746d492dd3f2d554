"""What became of a message, by its id."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import TypeAlias

from messagestore import sql
from messagestore.arguments import length_of_time
from messagestore.errors import ArgumentError, StoreNotFoundError
from messagestore.location import Location
from messagestore.reads import FIRST_GLOBAL_POSITION
from messagestore.versions import Versions
from messagestore_core.bounds import LONGEST_TEXT
from messagestore_core.store.keyed import message_key
from messagestore_core.store.schemas import DEAD_LETTERS, PURGED_IDS, REMEMBERED, TOMBSTONES

_PAUSE = 0.5
"""Seconds between two looks for a new version."""
_KEY_DIGITS = 32
"""The purged ids have the first half of a hash."""


@dataclass(frozen=True)
class Stored:
    """It is in the store."""

    position: int
    global_position: int
    status: str


@dataclass(frozen=True)
class SetAside:
    """A record of it was set aside as a dead letter, and was not redriven."""

    reason: str
    detail: str | None
    failed_at: datetime


@dataclass(frozen=True)
class Erased:
    """It was erased; a late copy of it is not stored."""

    erased_at: datetime


@dataclass(frozen=True)
class Purged:
    """It was purged, and its id is remembered: a late copy of it is not stored."""

    purged_at: datetime


@dataclass(frozen=True)
class NotSeen:
    """The store knows nothing of it: it has not come yet, or was purged and is not remembered."""


Outcome: TypeAlias = Stored | SetAside | Erased | Purged | NotSeen


def outcomes(
    location: Location, versions: Versions, message_id: str, position: int = FIRST_GLOBAL_POSITION
) -> list[Outcome]:
    """All that became of an id; NotSeen alone if nothing did.

    Args:
        position: only messages from this global position on are looked for.

    Raises:
        ArgumentError: the id is too long for a message; the dead letter of such a record doesn't have it.
    """
    known: list[Outcome] = list(_stored(versions, message_id, position))
    known += _set_aside(versions, message_id)
    key = location.tombstone_key()
    if key is not None:
        hashed = message_key(key, message_id)
        known += [*_erased(versions, hashed), *_purged(versions, hashed)]
    if not known and len(message_id.encode()) > LONGEST_TEXT:
        raise ArgumentError(
            f"the id has more than {LONGEST_TEXT} bytes: a record of it is a dead letter, InvalidField, without the id"
        )
    return known or [NotSeen()]


def waited(location: Location, versions: Versions, message_id: str, timeout: timedelta) -> list[Outcome]:
    """What became of an id, once anything did; NotSeen after ``timeout``. Of later versions it reads what is new."""
    seconds = length_of_time("timeout", timeout).total_seconds()
    until, position, seen = monotonic() + seconds, FIRST_GLOBAL_POSITION, -1
    while True:
        snapshot = versions.snapshot()
        if snapshot.version != seen:
            known = outcomes(location, versions, message_id, position)
            if known != [NotSeen()]:
                return known
            position, seen = snapshot.last_position + 1, snapshot.version
        left = until - monotonic()
        if left <= 0:
            return [NotSeen()]
        sleep(min(left, _PAUSE))


def _stored(versions: Versions, message_id: str, position: int) -> Iterator[Stored]:
    columns = ("position", "global_position", "status")
    rows = versions.with_id(message_id, columns, position)
    return (Stored(**row) for row in rows.sort_by("global_position").to_pylist())


def _set_aside(versions: Versions, message_id: str) -> Iterator[SetAside]:
    dead_letters = versions.other("dead_letters", DEAD_LETTERS)
    if not dead_letters.has("message_id"):
        return iter(())
    where = (sql.equals("message_id", message_id), "redriven_at is null")
    rows = dead_letters.rows(where, ("failed_at",), columns=("reason", "detail", "failed_at"))
    return (SetAside(**row) for row in rows.to_pylist())


def _erased(versions: Versions, hashed: str) -> Iterator[Erased]:
    where = (sql.equals("message_key", hashed),)
    rows = versions.other("tombstones", TOMBSTONES).rows(where, ("erased_at",), columns=("erased_at",))
    return (Erased(**row) for row in rows.to_pylist())


def _purged(versions: Versions, hashed: str) -> Iterator[Purged]:
    try:
        ids = versions.other(REMEMBERED, PURGED_IDS)
    except StoreNotFoundError:
        return iter(())
    rows = ids.rows((f"message_key = X'{hashed[:_KEY_DIGITS]}'",), columns=("purged_at",))
    # The rows of a purge that broke off may be there twice; the last purge counts.
    times = rows["purged_at"].to_pylist()
    return iter([Purged(max(times))] if times else [])
