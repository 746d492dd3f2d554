"""Where the fields of a message are in sampled records, judged by the names and values that they have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from messagestore_core.bounds import LONGEST_TEXT
from messagestore_operator.propose.paths import Step, Values, columns_of, find_steps, name_of, plain, unwrapped
from messagestore_operator.propose.shapes import Shape

_UNITS = {"Seconds": 1, "Milliseconds": 10**3, "Microseconds": 10**6, "Nanoseconds": 10**9}
_FIRST, _LAST = 10**8, 10**10
"""Seconds since 1970 that are times of messages: from 1973 to 2286."""
_IDS = ("messageid", "eventid", "id", "uuid", "guid", "eventuuid", "deliveryid", "recordid", "insertid", "requestid")
_TIMES = ("time", "eventtime", "occurredat", "timestamp", "createdat", "created", "tsms", "ts", "date", "receivedat")
_TYPES = ("type", "eventtype", "detailtype", "eventname", "operationname", "event", "kind", "action", "op", "name")
_ORDER = ("messageId", "category", "streamId", "type", "correlationId", "time", "payload")
_STREAMS = ("streamid", "aggregateid", "entityid")
_OF_OTHERS = ("traceid", "spanid", "parentid", "txid", "transactionid", "accountid")
"""Ids of what many messages have in common."""


@dataclass(frozen=True)
class _Known:
    """A form of records that many have: by which of their names it is known, and where it has fields."""

    name: str
    names: frozenset[str]
    paths: Mapping[str, str]


_KNOWN = (
    _Known(
        "Debezium",
        frozenset({"op", "source", "ts_ms"}),
        {
            "messageId": "$.source.lsn",
            "category": "$.source.table",
            "streamId": "$.after.id",
            "type": "$.op",
            "time": "$.source.ts_ms",
        },
    ),
    _Known(
        "CloudTrail",
        frozenset({"eventID", "eventSource", "eventName", "eventTime"}),
        {
            "messageId": "$.eventID",
            "category": "$.eventSource",
            "type": "$.eventName",
            "time": "$.eventTime",
            "correlationId": "$.requestID",
        },
    ),
    _Known(
        "EventBridge",
        frozenset({"id", "detail-type", "source", "detail", "time"}),
        {
            "messageId": "$.id",
            "category": "$.source",
            "type": "$.detail-type",
            "time": "$.time",
            "payload": "$.detail",
        },
    ),
    _Known(
        "SNS",
        frozenset({"MessageId", "TopicArn", "Message", "Timestamp"}),
        {"messageId": "$.MessageId", "type": "$.Type", "time": "$.Timestamp", "payload": "$.Message"},
    ),
    _Known(
        "GH Archive",
        frozenset({"id", "type", "actor", "repo", "created_at"}),
        {"messageId": "$.id", "streamId": "$.repo.id", "type": "$.type", "time": "$.created_at"},
    ),
)


@dataclass(frozen=True)
class Choice:
    """A field of the envelope, where it comes from, and why."""

    field: str
    source: Mapping[str, str | int]
    reason: str
    known: bool = False
    """Whether by the form that records have, and not guessed."""

    @property
    def outward(self) -> int:
        """How many steps around the record its value is."""
        return int(self.source.get("level", 1)) if "in" in self.source else 0


@dataclass(frozen=True)
class Mapped:
    """How records are read: the steps to the record within, its format, and with Custom the fields."""

    format: Literal["Native", "CloudEvents", "Custom"]
    reason: str
    choices: tuple[Choice, ...] = ()
    unwrap: tuple[Step, ...] = ()


def map_fields(shape: Shape, category: str) -> Mapped:
    """Choose where each field comes from.

    Args:
        category: the messages' category, if the records are neither Native nor CloudEvents.
    """
    if shape.format == "Text":
        return Mapped("Custom", "a line is a payload", (_constant(category),))
    known = _format_of(shape.records)
    if known is not None:
        return known
    steps = find_steps(shape.records)
    chains = [chain for record in shape.records if (chain := unwrapped(record, steps)) is not None]
    *around, inner = zip(*chains, strict=True)
    known = _format_of(inner)
    if known is not None:
        return replace(known, unwrap=steps)
    choices = {"category": _constant(category), "messageId": _place(len(inner)), **_fields(inner, category)}
    for level, outer in enumerate(reversed(around), 1):
        for choice in _fields(outer, category).values():
            own = choices.get(choice.field)
            if own is None or "path" not in own.source or (choice.field == "messageId" and choice.known):
                choices[choice.field] = _from_around(choice, level)
    order = [name for name in _ORDER if name in choices]
    return Mapped("Custom", "fields are mapped", tuple(choices[name] for name in order), steps)


def _fields(records: Sequence[Any], category: str) -> dict[str, Choice]:
    """The fields that records have themselves: those of a known form, and guesses."""
    columns = columns_of(records)
    guessed = {one.field: one for one in _guesses(columns, len(records), category)}
    return guessed | {one.field: one for one in _known(records, columns)}


def _from_around(choice: Choice, level: int) -> Choice:
    around: dict[str, str | int] = {"in": "Outer"} | ({"level": level} if level > 1 else {})
    return replace(choice, source={**choice.source, **around}, reason=f"around it: {choice.reason}")


def _known(records: Sequence[Any], columns: Mapping[str, Values]) -> Iterator[Choice]:
    """Fields of a form that most records have, with the form's name as the reason."""
    for form in _KNOWN:
        if sum(form.names <= record.keys() for record in records) * 2 > len(records):
            for field, path in form.paths.items():
                if _is_common(columns.get(path, []), len(records)) or field == "payload":
                    why = f"as {form.name} has it"
                    choice = Choice(field, {"path": path}, why, known=True)
                    yield _time(path, columns[path], why) if field == "time" else choice
            return


def _guesses(columns: Mapping[str, Values], count: int, category: str) -> Iterator[Choice]:
    yield Choice("payload", {"path": "$"}, "the whole record")
    message_id = _best(columns, _IDS, lambda values: _identifies(values, count), others=_ends_like_id)
    if message_id is not None:
        yield Choice("messageId", {"path": message_id}, f"differs in {len(columns[message_id])} of {count} records")
    type_ = _best(columns, _TYPES, lambda values: _is_type(values, count))
    if type_ is not None:
        yield Choice("type", {"path": type_}, _counted(columns[type_], "types"))
    time = _best(columns, _TIMES, lambda values: _unit_of(values) is not None, others=_ends_like_time)
    if time is not None:
        yield _time(time, columns[time])
    correlation_id = _best(columns, ("correlationid",), lambda values: all(isinstance(one, str) for one in values))
    if correlation_id is not None:
        yield Choice("correlationId", {"path": correlation_id}, "by its name")
    left = {path: values for path, values in columns.items() if path not in (message_id, type_, time)}
    names = (*_STREAMS, f"{plain(category).removesuffix('s')}id")
    stream_id = _best(left, names, lambda values: _repeats(values, count), others=_ends_like_id)
    if stream_id is not None:
        yield Choice("streamId", {"path": stream_id}, _counted(columns[stream_id], "values"))


def time_of(value: Any, unit: str | None) -> datetime | None:
    """A time as the store reads it: RFC 3339 with a zone, or a number of a unit."""
    try:
        if unit is not None:
            return datetime.fromtimestamp(float(value) / _UNITS[unit], UTC)
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _format_of(records: Sequence[Any]) -> Mapped | None:
    formats: tuple[tuple[Literal["Native", "CloudEvents"], set[str]], ...] = (
        ("CloudEvents", {"specversion", "id", "source", "type"}),
        ("Native", {"messageId", "streamName"}),
    )
    for format_, names in formats:
        if sum(names <= record.keys() for record in records) * 2 > len(records):
            return Mapped(format_, f"records have {', '.join(sorted(names))}")
    return None


def _best(
    columns: Mapping[str, Values],
    names: Sequence[str],
    fits: Callable[[Values], bool],
    others: Callable[[str], bool] = lambda name: False,
) -> str | None:
    """The path that fits with the best name: the first of ``names``, then ``others``; of these the one nearest to $."""

    def rank(path: str) -> tuple[int, int]:
        name = name_of(path)
        return (names.index(name) if name in names else len(names), path.count(".") + path.count("["))

    candidates = [
        path
        for path in columns
        if (name_of(path) in names or others(name_of(path))) and name_of(path) not in _OF_OTHERS and fits(columns[path])
    ]
    return min(candidates, key=rank, default=None)


def _ends_like_id(name: str) -> bool:
    return name.endswith(("id", "uuid", "guid"))


def _ends_like_time(name: str) -> bool:
    return name.endswith(("time", "timestamp", "at"))


def _is_common(values: Values, count: int) -> bool:
    """Whether most records have a value."""
    return len(values) * 2 > count


def _are_keys(values: Values, count: int) -> bool:
    return _is_common(values, count) and all(map(_is_key, values))


def _is_key(value: Any) -> bool:
    # Half of a surrogate pair has no bytes.
    is_short = isinstance(value, str) and 0 < len(value.encode(errors="replace")) <= LONGEST_TEXT
    return is_short or type(value) is int


def _identifies(values: Values, count: int) -> bool:
    return _are_keys(values, count) and len(set(map(str, values))) == len(values)


def _repeats(values: Values, count: int) -> bool:
    return _are_keys(values, count) and 1 < len(set(map(str, values))) < len(values)


def _is_type(values: Values, count: int) -> bool:
    texts = _is_common(values, count) and all(isinstance(one, str) and one for one in values)
    return texts and (len(set(values)) <= len(values) / 2 or len(values) < 4)


def _unit_of(values: Values) -> str | None:
    """The unit of times that are numbers, or RFC3339; None where most values are no times."""
    if _is_common([one for one in values if isinstance(one, str) and time_of(one, None)], len(values)):
        return "RFC3339"
    numbers = [number for one in values if (number := _number(one)) is not None]
    in_range = {unit: [one for one in numbers if _FIRST <= one / a < _LAST] for unit, a in _UNITS.items()}
    return next((unit for unit, in_it in in_range.items() if _is_common(in_it, len(values))), None)


def _number(value: Any) -> float | None:
    """A number, or what a text has of one."""
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _time(path: str, values: Values, why: str | None = None) -> Choice:
    unit = _unit_of(values)
    if unit in (None, "RFC3339"):
        return Choice("time", {"path": path}, why or "times by RFC 3339")
    return Choice("time", {"path": path, "unit": str(unit)}, why or f"numbers, {str(unit).lower()} since 1970")


def _place(count: int) -> Choice:
    why = f"no field is there, and differs, in all {count} records: where a record begins in its file identifies it"
    return Choice("messageId", {"file": "Place"}, why)


def _constant(category: str) -> Choice:
    return Choice("category", {"value": category}, "by the folder's name")


def _counted(values: Values, what: str) -> str:
    return f"{len(set(map(str, values)))} {what} in {len(values)} records"
