"""Numbers in words for people."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """A number of things, such as 1 file or 3 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
