"""Consumers of stores that were made without Spark, on a clock of their own, and killed at any write of their state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from typing_extensions import override

from messagestore.consuming import Change, Consumer, ObjectCursors
from messagestore.errors import StorageError
from support.stores import add_messages, message

LEASE = timedelta(seconds=60)


@dataclass
class Clock:
    """The time of a test."""

    now: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    step: float = 0
    """Seconds that pass with each look at it."""

    def __call__(self) -> datetime:
        self.pass_by(self.step)
        return self.now

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)


class KilledError(BaseException):
    """Ends a consumer as a kill does: nothing that would handle an error handles this one."""


@dataclass
class Faults:
    """What happens to the next writes: one letter each, from the first on.

    ``b``: killed before it, ``a``: killed after it, ``l``: the answer is lost, ``f``: it fails, ``.``: nothing.
    """

    plan: str = ""
    writes: list[str] = field(default_factory=list)

    def next(self, name: str) -> str:
        """What happens to this write."""
        self.writes.append(name)
        fault, self.plan = self.plan[:1], self.plan[1:]
        if fault == "b":
            raise KilledError
        return fault

    def after(self, fault: str) -> None:
        """After the write."""
        if fault == "a":
            raise KilledError


class FaultyCursors(ObjectCursors):
    """Cursors in a folder whose writes meet faults."""

    def __init__(self, uri: str, faults: Faults) -> None:
        super().__init__(uri)
        self.faults = faults

    @override
    def swap(self, changes: Sequence[Change]) -> dict[str, str | StorageError]:
        answers: dict[str, str | StorageError] = {}
        for change in changes:
            fault = self.faults.next(change.name)
            if fault != "f":
                answers |= super().swap([change])
            if fault in ("f", "l"):
                answers[change.name] = StorageError("no answer")
            self.faults.after(fault)
        return answers

    @override
    def put(self, name: str, content: bytes) -> None:
        fault = self.faults.next(name)
        super().put(name, content)
        self.faults.after(fault)


def consumer(uri: str, clock: Clock, name: str = "billing", **given: Any) -> Consumer:
    """A consumer on a test's clock, with few slots."""
    return Consumer(uri, name, **{"clock": clock, "slots": 4, "lease": LEASE, **given})


def rows(numbers: Sequence[int], streams: int = 3, **given: Any) -> list[dict[str, Any]]:
    """Messages in turn of some streams; each position in its stream is its number."""
    return [message(number, stream_name=f"order-{number % streams}", **given) for number in numbers]


def commit(uri: str, numbers: Sequence[int], streams: int = 3) -> None:
    """Commit messages, as a batch does."""
    last = max(numbers, default=0)
    if numbers:
        add_messages(uri, rows(numbers, streams), next_global_position=last + 1)


def received(one: Consumer, at_most: int = 10**6) -> list[int]:
    """The positions of what a consumer receives now."""
    found = list[int]()
    while len(found) < at_most and (got := one.receive_nowait()) is not None:
        found.append(got.global_position)
    return found
