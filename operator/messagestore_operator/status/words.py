"""Times, numbers and lists in words for people."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.ingest import IngestCounts
from messagestore_operator.ages import age
from messagestore_operator.api.model import StatusModel
from messagestore_operator.api.scalars import Time

Part = TypeVar("Part", bound=StatusModel)
_FIRST_YEAR = 1000
_FEW = 3


def clock_time(moment: datetime | None) -> Time | None:
    """The time of an action, in whole seconds, as in Kubernetes."""
    return None if moment is None else Time.of(moment.astimezone(UTC).replace(microsecond=0))


def message_time(moment: datetime | None) -> Time | None:
    """A producer's time, exactly; None if RFC 3339 can't express it."""
    if moment is None or moment.year < _FIRST_YEAR:
        return None
    return Time.of(moment)


def ago(moment: datetime, now: datetime) -> str:
    """How long ago a moment was, in kubectl's form of ages."""
    return f"{age(min(moment, now).isoformat(), now)} ago"


def span(duration: timedelta) -> str:
    """A duration in minutes, or in seconds if it has no whole ones."""
    seconds = int(duration.total_seconds())
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"


def in_status(kind: type[Part], figures: ContractModel, /, **differing: Any) -> Part:
    """A part of a status: what a part of a report has by the same names, with clock times, and what differs."""
    same = kind.model_fields.keys() & type(figures).model_fields.keys() - differing.keys()
    values = {name: getattr(figures, name) for name in same}
    clocked = {name: clock_time(value) if isinstance(value, datetime) else value for name, value in values.items()}
    return kind.model_validate({**clocked, **differing})


def count(number: int, noun: str) -> str:
    """A number of things, such as 1 file or 3 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def few(texts: Sequence[object], joint: str = "; ") -> str:
    """The first three texts and the number of the others, so that the message stays short."""
    more = len(texts) - _FEW
    return joint.join(map(str, texts[:_FEW])) + (f"; and {more} more" if more > 0 else "")


def received(counts: IngestCounts) -> str:
    """What was received and what happened to it, without zero counts."""
    odd = f" ({counts.unknown_fields} with an unknown field)" if counts.unknown_fields else ""
    parts = [
        (counts.stored, f"{counts.stored} stored{odd}"),
        (counts.duplicates, count(counts.duplicates, "duplicate")),
        (counts.dead_lettered, count(counts.dead_lettered, "dead letter")),
        (counts.filtered, f"{counts.filtered} filtered"),
        (counts.discarded, f"{counts.discarded} discarded"),
    ]
    became = ", ".join(words for number, words in parts if number)
    return f"{count(counts.received, 'record')} received: {became}" if became else "nothing new has arrived"
