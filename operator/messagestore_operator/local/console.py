"""The interface to the output of a local run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from messagestore_core.progress import ProgressListener


class Console(Protocol):
    """A terminal or a log."""

    def say(self, text: str) -> None:
        """Print a line."""

    def progress(self, run: str) -> AbstractContextManager[ProgressListener]:
        """The progress of one run, while it lasts."""
