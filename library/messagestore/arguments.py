"""Check arguments as message-db's functions do, with message-db's error messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from messagestore.errors import ArgumentError
from messagestore.names import is_category
from messagestore_core.clock import in_utc
from messagestore_core.reasons import DeadLetterReason

BATCH_SIZE = 1000
UNLIMITED = -1
_SMALLINT = 32767
"""message-db counts the members of a group in a smallint."""


@dataclass(frozen=True)
class ConsumerGroup:
    """One member of a group; members share a category's streams by the hash of their cardinal ids."""

    member: int
    size: int


def batch_limit(batch_size: int | None) -> int | None:
    """How many messages at most; None: no limit.

    Raises:
        ArgumentError: ``batch_size`` is below -1.
    """
    if batch_size is None:
        return BATCH_SIZE
    if batch_size < UNLIMITED:
        raise ArgumentError("LIMIT must not be negative")
    # No store has as many messages as a long can count.
    return None if batch_size == UNLIMITED or batch_size >= 1 << 63 else batch_size


def length_of_time(name: str, length: object) -> timedelta:
    """A length of time that a caller gives; ``name`` is the argument's.

    Raises:
        ArgumentError: it is something else, such as a number.
    """
    if not isinstance(length, timedelta):
        raise ArgumentError(f"{name} is {length!r}; give a timedelta, such as timedelta(seconds=30)")
    return length


def time_in_utc(name: str, moment: datetime) -> datetime:
    """A time that a caller gives, in UTC; ``name`` is the argument's.

    Raises:
        ArgumentError: it has no time zone, so that the process' zone would decide, is before year 1 or after 9999, or
            is something else, such as a date.
    """
    if not isinstance(moment, datetime):
        raise ArgumentError(f"{name} is {moment!r}; give a datetime with a time zone")
    if moment.tzinfo is None:
        raise ArgumentError(f"{name} has no time zone")
    try:
        return in_utc(moment)
    except ValueError as error:
        raise ArgumentError(f"{name}: {error}") from None


def check_category(category: str | None) -> None:
    """Raise ArgumentError for the name of a stream."""
    if not is_category(category):
        raise ArgumentError(f"Must be a category: {category}")


def consumer_group(member: int | None, size: int | None) -> ConsumerGroup | None:
    """The group member of two arguments; None where neither is given.

    Raises:
        ArgumentError: one is absent, or they make no group member.
    """
    if member is None and size is None:
        return None
    given = f"(Consumer Group Member: {_shown(member)}, Consumer Group Size: {_shown(size)})"
    if member is None or size is None:
        raise ArgumentError(f"Consumer group member and size must be specified {given}")
    if size < 1:
        raise ArgumentError(f"Consumer group size must not be less than 1 {given}")
    if member < 0:
        raise ArgumentError(f"Consumer group member must not be less than 0 {given}")
    if member >= size:
        raise ArgumentError(f"Consumer group member must be less than the group size {given}")
    if size > _SMALLINT:
        raise ArgumentError("smallint out of range")
    return ConsumerGroup(member, size)


def check_reasons(reasons: Sequence[str]) -> None:
    """Raise ArgumentError for reasons that no dead letter has."""
    unknown = [reason for reason in reasons if reason not in list(DeadLetterReason)]
    if unknown:
        raise ArgumentError(
            f"no dead letter has reason {', '.join(unknown)}; reasons are {', '.join(DeadLetterReason)}"
        )


def _shown(value: object) -> object:
    return "<NULL>" if value is None else value
