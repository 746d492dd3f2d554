"""How many messages rules of retention would remove in the days to come, from a few narrow columns.

This is what can be told without a run: messages as they are now, with their statuses of now, and none that are new.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from messagestore import sql
from messagestore.versions import Versions
from messagestore_core.clock import microseconds
from messagestore_core.contract.run_document import Hold, Match, Rule

_LISTS = {
    "stream_names": "stream_name",
    "categories": "category",
    "types": "type",
    "statuses": "status",
    "correlation_ids": "correlation_id",
    "sequence_ids": "sequence_id",
    "message_ids": "message_id",
}
_DAY = timedelta(days=1) // timedelta(microseconds=1)
_NEVER = 1 << 20
"""A day that is not reached."""


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
    judged = [rule for rule in rules if rule.name not in untold and _conditions(rule, 0, 0) != ([], [])]
    unjudged = tuple(hold.name for hold in holds if _wide(hold.match))
    now = microseconds(as_of)
    if not judged:
        return Leaving((), 0, untold, unjudged)
    rows = versions.snapshot().query(_query(judged, [h for h in holds if not _wide(h.match)], now, days)).to_pylist()
    found: dict[int, LeavingDay] = {}
    held = 0
    for row in rows:
        day = max(row["ruled"], row["kept"])
        if day > days:
            held += row["messages"]
            continue
        sums = found.get(day, LeavingDay(day, 0, 0))
        found[day] = LeavingDay(day, sums.messages + row["messages"], sums.payload_bytes + row["payload_bytes"])
    return Leaving(tuple(found[day] for day in sorted(found)), held, untold, unjudged)


def _only_a_run_tells(rule: Rule) -> tuple[str, ...]:
    asked = {
        "maxMessagesPerStream": rule.max_messages_per_stream,
        "maxBytes": rule.max_bytes,
        "consumedBy": rule.consumed_by,
    }
    return (
        *(name for name, value in asked.items() if value is not None),
        *(_wide(rule.match) if rule.match is not None else ()),
    )


def _wide(match: Match) -> tuple[str, ...]:
    """The fields of a match that read columns which may be large."""
    return (*(("match.headers",) if match.headers else ()), *(("match.where",) if match.where is not None else ()))


def _query(rules: Sequence[Rule], holds: Sequence[Hold], now: int, days: int) -> str:
    ruled, candidates = [], []
    for rule in rules:
        conditions, dues = _conditions(rule, now, days)
        candidates.append(" and ".join(conditions) or "true")
        ruled.append(_case(_listed(rule), _latest(dues), _NEVER))
    kept = [_case(_fields(hold.match), str(_until(hold, now)), 0) for hold in holds]
    return f"""
select ruled, kept, count(*) as messages, coalesce(sum(size), 0) as payload_bytes from (
  select least({", ".join([str(_NEVER), *ruled])}) as ruled,
    {_latest(kept)} as kept, payload_size as size
  from {sql.TABLE} where {" or ".join(f"({one})" for one in candidates)}
) where ruled <= {days} group by 1, 2
"""


def _case(conditions: Sequence[str], day: str, otherwise: int) -> str:
    """The day if all conditions hold, or else another."""
    return f"case when {' and '.join(conditions)} then {day} else {otherwise} end" if conditions else day


def _latest(days: Sequence[str]) -> str:
    return f"greatest(0, {', '.join(days)})" if days else "0"


def _listed(rule: Rule) -> list[str]:
    """The conditions of a rule that time doesn't change, and that a time is there."""
    truncated = rule.truncate_before
    return [
        *([sql.one_of("status", rule.statuses)] if rule.statuses else []),
        *(_fields(rule.match) if rule.match is not None else []),
        *([sql.equals("stream_name", truncated.stream_name)] if truncated else []),
        *([f"position < {int(truncated.position)}"] if truncated else []),
        *(["expires_at is not null"] if rule.expired else []),
    ]


def _fields(match: Match) -> list[str]:
    return [sql.one_of(column, values) for name, column in _LISTS.items() if (values := getattr(match, name))]


def _conditions(rule: Rule, now: int, days: int) -> tuple[list[str], list[str]]:
    """What a rule's messages have by the last day, by plain comparisons, and the days on which they get it."""
    conditions, dues = _listed(rule), []
    last = now + days * _DAY
    if rule.expired:
        conditions.append(f"expires_at <= {sql.time(last)}")
        # On the day whose end is not before it.
        dues.append(f"(arrow_cast(expires_at, 'Int64') - {now} + {_DAY - 1}) / {_DAY}")
    if rule.max_age is not None:
        age = rule.max_age // timedelta(microseconds=1)
        edge = sql.time(last - age)
        conditions.append(f"(time < {edge} or inserted_at < {edge})")
        due = f"arrow_cast(least(time, inserted_at), 'Int64') - {now - age}"
        dues.append(f"case when {due} < 0 then 0 else ({due}) / {_DAY} + 1 end")
    return conditions, dues


def _until(hold: Hold, now: int) -> int:
    """The day by whose end a hold is over."""
    return _NEVER if hold.until is None else max(0, -((now - microseconds(hold.until)) // _DAY))
