"""What the kinds of destination have in common, and how what Spark wrote gets the names it is known by."""

import os
import re
from typing import Protocol

from pyarrow import fs

from messagestore_jobs.contract.run_report import ReplayOutcome
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.replay.staging import Format
from messagestore_jobs.replay.state import Chunk, Frozen, Part, State
from messagestore_jobs.store.objects import Objects

_SPARK_PART = re.compile(r"part-(\d+)-")


class Places(Objects):
    """The objects under one URI, some of which Spark writes."""

    def staged(self, below: str) -> dict[int, tuple[str, int]]:
        """What Spark wrote into a folder: name (relative to the URI) and bytes, by number of its task."""
        selector = fs.FileSelector(self._path(below), allow_not_found=True)
        found = {}
        for info in self._fs.get_file_info(selector):
            part = _SPARK_PART.match(info.base_name)
            if part and info.size:
                found[int(part[1])] = (f"{below}/{info.base_name}", info.size)
        return found

    def move(self, name: str, to: str) -> None:
        """Give an object another name, and this moment as its time; where it has the name already, nothing is done."""
        if not self.exists(name):
            return
        self._make_parent(self._path(to))
        if self._local:
            # On object storage a copy has a time of its own; here tasks that ended in another order would show.
            os.utime(self._path(name))
        self._fs.move(self._path(name), self._path(to))


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
