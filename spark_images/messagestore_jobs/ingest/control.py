"""Who may end a continuous ingest, and when."""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from messagestore_jobs.contract.run_report import IngestOutcome


class Control(Protocol):
    """One a run; asked between batches, and while more input is waited for."""

    def stopped(self, wait: timedelta) -> bool:
        """Whether to stop now; waits up to ``wait`` to be told."""

    def taken_in(self, tell: Callable[[], IngestOutcome]) -> None:
        """Hear after each batch, and each look for more, how far the run is; ``tell`` looks at the tables for it."""

    def between_batches(self) -> None:
        """Do what else is to be done with the store, while no batch is under way."""


class Unattended:
    """Nobody ends the run: it takes in what has arrived when it starts."""

    def stopped(self, wait: timedelta) -> bool:
        """Not while there is something to take in; at once where more would have to be waited for."""
        return wait > timedelta(0)

    def taken_in(self, tell: Callable[[], IngestOutcome]) -> None:
        """Pass over it."""

    def between_batches(self) -> None:
        """Nothing else is asked for."""
