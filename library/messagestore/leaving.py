"""How many messages rules of retention would remove in the days to come, from a few narrow columns.

This is what can be told without a run: messages as they are now, with their statuses of now, and none that are new.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from messagestore import sql
from messagestore.versions import Versions
from messagestore_core.clock import microseconds
from messagestore_core.contract.purge import MATCH_LISTS, Hold, Match, Rule

_DAY = timedelta(days=1) // timedelta(microseconds=1)
_NEVER = 1 << 20
"""A day that is not reached."""
_EARLIEST = 1 << 20
"""So many days before 1970 there is no message."""


@dataclass(frozen=True)
class LeavingDay:
    """The messages that would leave within ``day`` days of 24 hours, and not before; 0: at once."""

    day: int
    messages: int
    payload_bytes: int


@dataclass(frozen=True)
class Leaving:
    """What rules would remove.

    Attributes:
        days: those with messages, in order.
        held: messages that a hold keeps beyond the last day.
        untold: rules that only a run can judge, each with the fields that say so; they are not counted.
        unjudged: holds that only a run can judge; what they keep is counted as if it left.
    """

    days: tuple[LeavingDay, ...]
    held: int
    untold: dict[str, tuple[str, ...]]
    unjudged: tuple[str, ...]


def leaving(versions: Versions, rules: Sequence[Rule], holds: Sequence[Hold], as_of: datetime, days: int) -> Leaving:
    """What rules would remove within ``days`` days from ``as_of``, a time with a zone."""
    untold = {rule.name: fields for rule in rules if (fields := _only_a_run_tells(rule))}
    counted = [rule for rule in rules if rule.name not in untold and _conditions(rule, 0, 0)]
    known = [hold for hold in holds if not _wide(hold.match)]
    unjudged = tuple(hold.name for hold in holds if _wide(hold.match))
    now = microseconds(as_of)
    by_day: dict[int, LeavingDay] = {}
    held = 0
    for row in versions.snapshot().query(_query(counted, known, now, days)).to_pylist() if counted else ():
        ruled = min(_reached(rule, row, f"rule_{number}", now) for number, rule in enumerate(counted))
        keeping = [_until(hold, now) for number, hold in enumerate(known) if row.get(f"hold_{number}", True)]
        day = max(ruled, *keeping, 0)
        if day <= days:
            sums = by_day.get(day, LeavingDay(day, 0, 0))
            by_day[day] = LeavingDay(day, sums.messages + row["messages"], sums.payload_bytes + row["payload_bytes"])
        elif ruled <= days:
            held += row["messages"]
    return Leaving(tuple(by_day[day] for day in sorted(by_day)), held, untold, unjudged)


def _only_a_run_tells(rule: Rule) -> tuple[str, ...]:
    limits = {
        "maxMessagesPerStream": rule.max_messages_per_stream,
        "maxBytes": rule.max_bytes,
        "consumedBy": rule.consumed_by,
    }
    return (
        *(name for name, value in limits.items() if value is not None),
        *(_wide(rule.match) if rule.match is not None else ()),
    )


def _wide(match: Match) -> tuple[str, ...]:
    """The fields of a match that read columns which may be large."""
    return (*(("match.headers",) if match.headers else ()), *(("match.where",) if match.where is not None else ()))


def _query(rules: Sequence[Rule], holds: Sequence[Hold], now: int, days: int) -> str:
    """Counts of what may leave by the last day, by all that its day depends on; days in SQL take twice as long."""
    keys = {f"rule_{number}": " and ".join(_listed(rule)) for number, rule in enumerate(rules)}
    keys |= {f"hold_{number}": " and ".join(_fields(hold.match)) for number, hold in enumerate(holds)}
    for rule in rules:
        if rule.max_age is not None:
            keys[_age_key(rule.max_age, now)] = _day_number(
                "least(time, inserted_at)", _begin(rule.max_age, now) % _DAY
            )
        if rule.expired:
            keys["expired"] = _day_number("expires_at", now - _DAY + 1)
    given = {name: key for name, key in keys.items() if key}
    return f"""
select {", ".join(f"{key} as {name}" for name, key in given.items())}, count(*) as messages,
  coalesce(sum(payload_size), 0) as payload_bytes
from {sql.TABLE} where {" or ".join(f"({' and '.join(_conditions(rule, now, days))})" for rule in rules)}
group by {", ".join(str(number) for number, _ in enumerate(given, 1))}
"""


def _listed(rule: Rule) -> list[str]:
    """The conditions of a rule that time doesn't change."""
    truncated = rule.truncate_before
    return [
        *([sql.one_of("status", rule.statuses)] if rule.statuses else []),
        *(_fields(rule.match) if rule.match is not None else []),
        *([sql.equals("stream_name", truncated.stream_name)] if truncated else []),
        *([f"position < {int(truncated.position)}"] if truncated else []),
    ]


def _fields(match: Match) -> list[str]:
    return [sql.one_of(column, values) for name, column in MATCH_LISTS.items() if (values := getattr(match, name))]


def _conditions(rule: Rule, now: int, days: int) -> list[str]:
    """What a rule's messages have by the last day, by plain comparisons, which leave out files."""
    last = now + days * _DAY
    edge = None if rule.max_age is None else sql.time(_begin(rule.max_age, last))
    return [
        *_listed(rule),
        *([f"expires_at <= {sql.time(last)}"] if rule.expired else []),
        *([f"(time < {edge} or inserted_at < {edge})"] if edge else []),
    ]


def _begin(age: timedelta, now: int) -> int:
    """The time before which messages are older than an age."""
    return now - age // timedelta(microseconds=1)


def _age_key(age: timedelta, now: int) -> str:
    return f"age_{_begin(age, now) % _DAY}"


def _day_number(time: str, begin: int) -> str:
    """On which day after a time another is, in SQL; counted from so early that none is negative."""
    return f"(arrow_cast({time}, 'Int64') + {_EARLIEST * _DAY - begin}) / {_DAY}"


def _reached(rule: Rule, row: Mapping[str, Any], flag: str, now: int) -> int:
    """The day by whose end messages with these keys meet a rule."""
    if not row.get(flag, True) or (rule.expired and row["expired"] is None):
        return _NEVER
    day: int = max(0, row["expired"] - _EARLIEST) if rule.expired else 0
    if rule.max_age is not None:
        begin = _begin(rule.max_age, now)
        day = max(day, row[_age_key(rule.max_age, now)] - _EARLIEST - begin // _DAY + 1)
    return day


def _until(hold: Hold, now: int) -> int:
    """The day by whose end a hold is over."""
    return _NEVER if hold.until is None else max(0, -((now - microseconds(hold.until)) // _DAY))
