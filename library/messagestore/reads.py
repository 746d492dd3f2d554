"""The reads of all reading functions: which messages, in which order, how many."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from messagestore import sql
from messagestore.arguments import ConsumerGroup, batch_limit, check_category, consumer_group, time_in_utc
from messagestore.conditions import Condition, checked
from messagestore.errors import ArgumentError
from messagestore.names import cardinal_id, category, hash_64, is_category
from messagestore_core.json_values import json_text

STATUSES = ("RECEIVED", "PROCESSING", "COMPLETED", "FAILED", "EXPIRED")
FIRST_POSITION, FIRST_GLOBAL_POSITION = 0, 1
_FIRST = {"position": FIRST_POSITION, "global_position": FIRST_GLOBAL_POSITION}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Chosen:
    """A filter that SQL can't express: it says which rows are kept, by some of their columns."""

    columns: tuple[str, ...]
    keeps: Callable[[pa.Table], pa.Array]
    is_large: bool = False


@dataclass(frozen=True)
class Read:
    """Messages that meet all conditions, in order of a key that is unique among them.

    Attributes:
        equal: columns and their texts; None equals no text.
        where: further conditions, in SQL.
        key: the column that orders them: global_position, or position within one stream.
        start: the first value of the key.
        end: the last value of the key; None: no bound.
        newest_first: whether the last value comes first.
        limit: how many messages at most; None: no limit.
        condition: the caller's own.
        chosen: a further filter, which SQL can't express.
        payloads: whether payloads are read.
    """

    equal: Mapping[str, str | None] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    key: str = "global_position"
    start: int = FIRST_GLOBAL_POSITION
    end: int | None = None
    newest_first: bool = False
    limit: int | None = None
    condition: Condition | None = None
    chosen: Chosen | None = None
    payloads: bool = True

    def __post_init__(self) -> None:
        """Refuse texts that no message can have, before anything is looked up by them."""
        _ = self.conditions

    @property
    def conditions(self) -> tuple[str, ...]:
        """All conditions but those of rows and of columns that a table may lack, in SQL."""
        equal = (_is(column, value) for column, value in self.equal.items())
        # Without a bound that all rows keep, the engine doesn't read the key's column.
        first = (sql.at_least(self.key, self.start),) if self.start > _FIRST[self.key] else ()
        last = () if self.end is None else (sql.at_most(self.key, self.end),)
        return (*equal, *self.where, *first, *last)

    def behind(self, last: int, limit: int) -> "Read":
        """The same, but only what comes behind a key, at most ``limit`` rows."""
        if self.newest_first:
            return replace(self, end=last - 1, limit=limit)
        return replace(self, start=last + 1, limit=limit)

    @property
    def filters(self) -> tuple[Condition | Chosen, ...]:
        """What SQL can't express."""
        return tuple(one for one in (self.condition, self.chosen) if one is not None)

    @property
    def files(self) -> dict[str, str | None]:
        """Columns and their texts by which files are chosen."""
        return {**(self.condition.equal if self.condition else {}), **self.equal}


def stream_messages(
    stream_name: str | None, position: int | None, batch_size: int | None, condition: str | None
) -> Read:
    """The messages of one stream from a position on, by position."""
    if is_category(stream_name):
        raise ArgumentError(f"Must be a stream name: {'<NULL>' if stream_name is None else stream_name}")
    own = checked(condition)
    start = FIRST_POSITION if position is None else position
    return Read({"stream_name": stream_name}, key="position", start=start, limit=batch_limit(batch_size), condition=own)


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
    if not is_category(correlation):
        raise ArgumentError(f"Correlation must be a category (Correlation: {correlation})")
    group = consumer_group(member, size)
    own = checked(condition)
    return Read(
        {"category": name},
        start=FIRST_GLOBAL_POSITION if position is None else position,
        limit=batch_limit(batch_size),
        condition=own,
        chosen=_chosen(correlation, group),
    )


def of_stream(stream_name: str | None, type: str | None = None) -> Read:
    """The messages of one stream, or those of a type."""
    equal = {"stream_name": stream_name} | ({} if type is None else {"type": type})
    return Read(equal, key="position", start=FIRST_POSITION)


def of_name(name: str | None) -> Read:
    """The messages of a stream or category; without a name all messages."""
    return Read({} if name is None else {"category" if is_category(name) else "stream_name": name})


def arrived_since(name: str | None, last: int, batch_size: int | None, where: str | None = None) -> Read:
    """The messages of a stream, a category or all, after a global position."""
    return replace(of_name(name), start=last + 1, limit=batch_limit(batch_size), condition=checked(where))


def matching(
    statuses: Sequence[str] = (),
    types: Sequence[str] = (),
    correlation_id: str | None = None,
    causation_id: str | None = None,
    since: datetime | None = None,
    where: str | tuple[str, ...] | None = None,
    position: int | None = None,
    batch_size: int | None = None,
    *,
    newest_first: bool,
    payloads: bool,
) -> Read:
    """The messages that ``messagestore.reader.Reader.find`` looks for, by its arguments."""
    equal = {"correlation_id": correlation_id, "causation_id": causation_id}
    parts = [
        *([_statuses(statuses)] if statuses else []),
        *([sql.one_of("type", types)] if types else []),
        *([sql.since("time", time_in_utc("since", since))] if since else []),
    ]
    return Read(
        {column: value for column, value in equal.items() if value is not None},
        tuple(parts),
        start=FIRST_GLOBAL_POSITION if newest_first or position is None else position,
        end=position if newest_first else None,
        newest_first=newest_first,
        limit=batch_limit(batch_size),
        condition=checked(where),
        payloads=payloads,
    )


def correlated(correlation_id: str, statuses: Sequence[str], position: int, batch_size: int | None) -> Read:
    """The messages with a correlation id and one of some statuses."""
    return Read(
        {"correlation_id": correlation_id}, (_statuses(statuses),), start=position, limit=batch_limit(batch_size)
    )


def unfinished(as_of: datetime, position: int, batch_size: int | None) -> Read:
    """The messages that are still to be processed: not completed, not expired, and not failed for good."""
    return Read(
        where=(
            "(status in ('RECEIVED', 'PROCESSING') or (status = 'FAILED' and next_retry_at is not null))",
            f"(expires_at is null or expires_at > {sql.moment(as_of)})",
        ),
        start=position,
        limit=batch_limit(batch_size),
    )


def sequence_conditions(sequence_id: str, number: int, statuses: Sequence[str]) -> tuple[str, ...]:
    """The conditions of a message sequence's members from a number on with one of some statuses."""
    return (_is("sequence_id", sequence_id), sql.at_least("sequence_number", number), _statuses(statuses))


def correlation_category(metadata: str | None) -> str | None:
    """The category of ``correlationStreamName`` in a message's metadata; None without it."""
    field = "correlationStreamName"
    try:
        value = json.loads(metadata) if metadata else None
        name = value.get(field) if isinstance(value, dict) else None
        # Other values than strings count as their text, as PostgreSQL's ->> gives it.
        text = name if name is None or isinstance(name, str) else json.dumps(name, ensure_ascii=False)
    except (ValueError, RecursionError):
        # A store takes longer numbers and deeper documents than this reader.
        found = json_text((metadata or "").encode(), [field])
        text = None if found is None else found.decode()
    return category(text)


def is_member(group: ConsumerGroup, stream_name: str) -> bool:
    """Whether a stream belongs to a group's member; a stream without an id belongs to none."""
    hashed = hash_64(cardinal_id(stream_name))
    return hashed is not None and abs(hashed) % group.size == group.member


def _chosen(correlation: str | None, group: ConsumerGroup | None) -> Chosen | None:
    if correlation is None and group is None:
        return None
    columns = (("metadata",) if correlation is not None else ()) + (("stream_name",) if group is not None else ())

    def keeps_row(row: Row) -> bool:
        correlated = correlation is None or correlation_category(row["metadata"]) == correlation
        return correlated and (group is None or is_member(group, row["stream_name"]))

    def keeps(rows: pa.Table) -> pa.Array:
        return pa.array(map(keeps_row, rows.select(columns).to_pylist()), pa.bool_())

    return Chosen(columns, keeps)


def _is(column: str, value: str | None) -> str:
    return "false" if value is None else sql.equals(column, value)


def _statuses(statuses: Sequence[str]) -> str:
    unknown = [status for status in statuses if status not in STATUSES]
    if unknown:
        raise ArgumentError(f"{unknown[0]} is no status; there are {', '.join(STATUSES)}")
    return sql.one_of("status", statuses)
