"""What the two kinds of destination have in common."""

from typing import Protocol

from messagestore_jobs.contract.run_report import ReplayOutcome
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.replay.places import Places
from messagestore_jobs.replay.staging import Format
from messagestore_jobs.replay.state import Chunk, Frozen, Part, State


class Delivery(Protocol):
    """Takes sealed chunks to where they are due; each method may be done again after a crash."""

    places: Places
    """Names of parts are relative to it."""
    state: State
    staging: str
    """The name below ``places`` that chunks are staged under."""
    form: Format
    line_breaks: LineBreaks

    def ended(self) -> ReplayOutcome | None:
        """How the replay ended, if it has."""

    def check(self) -> None:
        """Refuse a destination that is not to be written to, before anything is."""

    def part_name(self, number: int) -> str:
        """What the replay's n-th object is called in the end."""

    def undelivered(self, part: Part, first: int) -> tuple[str, int] | None:
        """Where an object of a sealed chunk lies that may not have been sent to its end, and how much of it was sent.

        Args:
            part: the object.
            first: how many messages were sent before its first one.
        """

    def deliver(self, chunk: Chunk) -> None:
        """Send a sealed chunk."""

    def end(self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome) -> ReplayOutcome:
        """All chunks have been sent; the outcome, with what the destination made of them."""
