"""How a job reports its progress to a terminal, a log or a report."""

from typing import Protocol


class ProgressListener(Protocol):
    """Gets the progress of one run."""

    def step(self, name: str, total: int | None = None) -> None:
        """A new step begins; ``total`` is its size in its own unit, if known."""

    def advance(self, done: int) -> None:
        """So much more of the current step is done."""

    def say(self, text: str) -> None:
        """A line for people."""


def never() -> bool:
    """For runs that nobody tells to stop."""
    return False


class Silent:
    """Ignores all progress."""

    def step(self, name: str, total: int | None = None) -> None:
        """Do nothing."""

    def advance(self, done: int) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""
