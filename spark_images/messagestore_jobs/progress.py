"""How a job says where it is; a terminal, a log or a report listens."""

from typing import Protocol


class ProgressListener(Protocol):
    """One listener a run."""

    def step(self, name: str, total: int | None = None) -> None:
        """A new step begins; ``total`` is its size in whatever it counts, where that is known."""

    def advance(self, done: int) -> None:
        """``done`` more of the current step."""

    def say(self, text: str) -> None:
        """A line for people."""


class Silent:
    """Listens to nothing."""

    def step(self, name: str, total: int | None = None) -> None:
        """Pass over it."""

    def advance(self, done: int) -> None:
        """Pass over it."""

    def say(self, text: str) -> None:
        """Pass over it."""
