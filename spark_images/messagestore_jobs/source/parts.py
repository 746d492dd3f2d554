"""How a batch is dealt out to tasks, whatever its source."""

from collections.abc import Iterable
from typing import TypeVar

from messagestore_jobs.store.files import Range
from messagestore_jobs.store.offsets import OffsetRange

R = TypeVar("R", Range, OffsetRange)


def packed(pieces: Iterable[R], target: int) -> list[list[R]]:
    """Pieces in parts of about ``target``, in the order in which they come."""
    parts: list[list[R]] = []
    size = target
    for piece in pieces:
        if size >= target:
            parts.append([])
            size = 0
        parts[-1].append(piece)
        size += piece.end - piece.start
    return parts
