"""Numbers in words for people."""

from __future__ import annotations

from collections.abc import Sequence

from messagestore_core.contract.run_report import IngestCounts

_FEW = 3


def count(number: int, noun: str) -> str:
    """A number of things, such as 1 file or 3 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def few(texts: Sequence[object], joint: str = "; ") -> str:
    """The first three texts and the number of the others, so that the message stays short."""
    more = len(texts) - _FEW
    return joint.join(map(str, texts[:_FEW])) + (f"; and {more} more" if more > 0 else "")


def received(counts: IngestCounts) -> str:
    """What was received and what happened to it, without zero counts."""
    parts = [
        (counts.stored, f"{counts.stored} stored{_odd(counts)}"),
        (counts.duplicates, count(counts.duplicates, "duplicate")),
        (counts.dead_lettered, count(counts.dead_lettered, "dead letter")),
        (counts.filtered, f"{counts.filtered} filtered"),
        (counts.discarded, f"{counts.discarded} discarded"),
    ]
    became = ", ".join(words for number, words in parts if number)
    return f"{count(counts.received, 'record')} received: {became}" if became else "nothing new has arrived"


def _odd(counts: IngestCounts) -> str:
    return f" ({counts.unknown_fields} with an unknown field)" if counts.unknown_fields else ""
