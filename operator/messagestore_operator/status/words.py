"""Numbers in words for people."""

from __future__ import annotations

from messagestore_jobs.contract.run_report import IngestCounts


def count(number: int, noun: str) -> str:
    """A number of things, such as 1 file or 3 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def received(counts: IngestCounts) -> str:
    """What was received and what became of it, without what did not happen."""
    parts = [
        (counts.stored, f"{counts.stored} stored"),
        (counts.duplicates, count(counts.duplicates, "duplicate")),
        (counts.dead_lettered, count(counts.dead_lettered, "dead letter")),
        (counts.filtered, f"{counts.filtered} filtered"),
        (counts.discarded, f"{counts.discarded} discarded"),
    ]
    became = ", ".join(words for number, words in parts if number)
    return f"{count(counts.received, 'record')} received: {became}" if became else "nothing new has arrived"
