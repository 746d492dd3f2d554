"""The reads of all reading functions: which messages, in which order, how many."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from messagestore import sql
from messagestore.arguments import (
    ConsumerGroup,
    batch_limit,
    check_category,
    check_condition,
    check_correlation,
    check_stream_name,
    consumer_group,
)
from messagestore.errors import ArgumentError
from messagestore.names import cardinal_id, category, hash_64, is_category
from messagestore_core.store.schemas import literal

STATUSES = ("RECEIVED", "PROCESSING", "COMPLETED", "FAILED", "EXPIRED")
FIRST_POSITION, FIRST_GLOBAL_POSITION = 0, 1

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Chosen:
    """A filter that SQL can't express: a decision on some columns of a row."""

    columns: tuple[str, ...]
    keeps: Callable[[Row], bool]


@dataclass(frozen=True)
class Read:
    """Messages that meet all conditions, in order of a key that is unique among them.

    Attributes:
        equal: columns and their texts; None equals no text.
        where: further conditions, in SQL.
        key: the column that orders them: global_position, or position within one stream.
        start: the first value of the key.
        limit: how many messages at most; None: no limit.
        chosen: a further filter, which SQL can't express.
    """

    equal: Mapping[str, str | None] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    key: str = "global_position"
    start: int = FIRST_GLOBAL_POSITION
    limit: int | None = None
    chosen: Chosen | None = None

    @property
    def conditions(self) -> tuple[str, ...]:
        """All conditions but ``chosen``, in SQL."""
        equal = (_is(column, value) for column, value in self.equal.items())
        return (*equal, *self.where, sql.at_least(self.key, self.start))


def stream_messages(
    stream_name: str | None, position: int | None, batch_size: int | None, condition: str | None
) -> Read:
    """The messages of one stream from a position on, by position."""
    check_stream_name(stream_name)
    check_condition(condition)
    start = FIRST_POSITION if position is None else position
    return Read({"stream_name": stream_name}, key="position", start=start, limit=batch_limit(batch_size))


def category_messages(
    name: str | None,
    position: int | None,
    batch_size: int | None,
    correlation: str | None,
    member: int | None,
    size: int | None,
    condition: str | None,
) -> Read:
    """The messages of a category's streams from a global position on."""
    check_category(name)
    check_correlation(correlation)
    group = consumer_group(member, size)
    check_condition(condition)
    return Read(
        {"category": name},
        start=FIRST_GLOBAL_POSITION if position is None else position,
        limit=batch_limit(batch_size),
        chosen=_chosen(correlation, group),
    )


def of_stream(stream_name: str | None, type: str | None = None) -> Read:
    """The messages of one stream, or those of a type."""
    equal = {"stream_name": stream_name} | ({} if type is None else {"type": type})
    return Read(equal, key="position", start=FIRST_POSITION)


def of_name(name: str | None) -> Read:
    """The messages of a stream or category; without a name all messages."""
    return Read({} if name is None else {"category" if is_category(name) else "stream_name": name})


def all_messages(position: int, batch_size: int | None) -> Read:
    """Every message from a global position on."""
    return Read(start=position, limit=batch_limit(batch_size))


def arrived_since(name: str | None, last: int, batch_size: int | None) -> Read:
    """The messages of a stream, a category or all, after a global position."""
    return replace(of_name(name), start=last + 1, limit=batch_limit(batch_size))


def message_with_id(message_id: str) -> Read:
    """The message with an id."""
    return Read({"message_id": message_id}, limit=1)


def correlated(correlation_id: str, statuses: Sequence[str], position: int, batch_size: int | None) -> Read:
    """The messages with a correlation id and one of some statuses."""
    return Read(
        {"correlation_id": correlation_id}, (_statuses(statuses),), start=position, limit=batch_limit(batch_size)
    )


def unfinished(as_of: datetime, position: int, batch_size: int | None) -> Read:
    """The messages that are still to be processed: not completed, not expired, and not failed for good."""
    due = literal(as_of.isoformat())
    return Read(
        where=(
            "(status in ('RECEIVED', 'PROCESSING') or (status = 'FAILED' and next_retry_at is not null))",
            f"(expires_at is null or expires_at > {due}::timestamptz)",
        ),
        start=position,
        limit=batch_limit(batch_size),
    )


def sequence_conditions(sequence_id: str, number: int, statuses: Sequence[str]) -> tuple[str, ...]:
    """The conditions of a message sequence's members from a number on with one of some statuses."""
    return (_is("sequence_id", sequence_id), sql.at_least("sequence_number", number), _statuses(statuses))


def correlation_category(metadata: str | None) -> str | None:
    """The category of ``correlationStreamName`` in a message's metadata; None without it."""
    try:
        value = json.loads(metadata) if metadata else None
    except ValueError:
        return None
    name = value.get("correlationStreamName") if isinstance(value, dict) else None
    # Other values than strings count as their text, as PostgreSQL's ->> gives it.
    return category(name if name is None or isinstance(name, str) else json.dumps(name, ensure_ascii=False))


def is_member(group: ConsumerGroup, stream_name: str) -> bool:
    """Whether a stream belongs to a group's member; a stream without an id belongs to none."""
    hashed = hash_64(cardinal_id(stream_name))
    return hashed is not None and abs(hashed) % group.size == group.member


def _chosen(correlation: str | None, group: ConsumerGroup | None) -> Chosen | None:
    if correlation is None and group is None:
        return None
    columns = (("metadata",) if correlation is not None else ()) + (("stream_name",) if group is not None else ())

    def keeps(row: Row) -> bool:
        correlated = correlation is None or correlation_category(row["metadata"]) == correlation
        return correlated and (group is None or is_member(group, row["stream_name"]))

    return Chosen(columns, keeps)


def _is(column: str, value: str | None) -> str:
    return "false" if value is None else sql.equals(column, value)


def _statuses(statuses: Sequence[str]) -> str:
    unknown = [status for status in statuses if status not in STATUSES]
    if unknown:
        raise ArgumentError(f"{unknown[0]} is no status; there are {', '.join(STATUSES)}")
    return sql.one_of("status", statuses)
