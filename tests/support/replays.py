"""Replays for tests: documents, what they sent, and crashes at external writes."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.store.fence import observing

AT = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
RESOURCE = Resource(kind="ReplayJob", namespace="default", name="again")
ROUND_CRASHES = [
    ("replay-transaction", "before", 2),
    ("replay-transaction", "after", 2),
    ("replay-staged-removed", "before", 1),
    ("replay-ended", "after", 1),
    ("cursor", "before", 2),
    ("cursor", "after", 1),
    ("cursor", "after", 2),
    ("replay-forgotten", "before", 1),
]
"""Where a round of a subscription to a topic is cut off: write, moment and which of its kind."""


def replay_document(table: Table, task: ReplayTask, run: str = "replay-1") -> RunDocument:
    return RunDocument(run=run, resource=RESOURCE, table=table, at=AT, task=task)


def files_replay(table: Table, folder: Path, file_format: str = "JSONLines", **task: Any) -> RunDocument:
    """A replay into a local folder."""
    destination = FilesDestination(uri=f"file://{folder}", format=file_format)
    return replay_document(table, ReplayTask(**{"job_id": "job-1", **task, "destination": destination}))


def objects(folder: Path) -> dict[str, bytes]:
    """The objects that a replay's reader sees, by name, in replay order."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def lines(folder: Path) -> list[bytes]:
    """All records sent, in order, as their exact bytes."""
    return [line for content in objects(folder).values() for line in content.split(b"\n") if line]


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(folder)]


def sent(folder: Path) -> list[int]:
    """The global positions sent, in order."""
    return [record["globalPosition"] for record in records(folder)]


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


class Crash(BaseException):
    """Simulates the end of the process: no code may catch it and go on."""


def crash_at(name: str, moment: str, nth: int) -> Callable[[str, str], None]:
    """An observer that ends the process before or after the n-th external write of a name."""
    seen = 0

    def observer(at: str, when: str) -> None:
        nonlocal seen
        seen += (at, when) == (name, moment)
        if seen == nth:
            raise Crash

    return observer


def crash(run: Callable[[], object], name: str, moment: str, nth: int) -> None:
    """A run that ends at the n-th external write of a name, if it gets there."""
    with observing(crash_at(name, moment, nth)), suppress(Crash):
        run()


class Suspending:
    """Suspends a replay after some chunks."""

    def __init__(self, chunks: int) -> None:
        self.chunks, self.outcomes = chunks, list[ReplayOutcome]()

    def suspended(self) -> bool:
        return len(self.outcomes) >= self.chunks

    def stopped(self, wait: timedelta) -> bool:
        return wait > timedelta(0) or self.suspended()

    def messages_per_second(self) -> float | None:
        return None

    def reached(self, outcome: ReplayOutcome) -> None:
        self.outcomes.append(outcome)


class Meanwhile:
    """Lets a run go on through a list of events, each at a time when it has nothing to send; then stops it."""

    def __init__(self, *events: Callable[[], object], rate: float | None = None) -> None:
        self.events, self.rate = list(events), rate
        self.outcomes = list[ReplayOutcome]()

    def suspended(self) -> bool:
        return False

    def stopped(self, wait: timedelta) -> bool:
        if not wait:
            return False
        if self.events:
            self.events.pop(0)()
            return False
        return True

    def messages_per_second(self) -> float | None:
        return self.rate

    def reached(self, outcome: ReplayOutcome) -> None:
        self.outcomes.append(outcome)
