"""Whom a local run talks to."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from messagestore_jobs.progress import Progress


class Console(Protocol):
    """A terminal, a log, or nobody."""

    def say(self, text: str) -> None:
        """A line for people."""

    def progress(self, run: str) -> AbstractContextManager[Progress]:
        """The listener of one run, while it lasts."""
