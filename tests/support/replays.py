"""Replays for tests: documents, what they sent, and crashes at external writes."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from messagestore_core.contract.run_document import FilesDestination, ReplayTask, Resource, RunDocument
from messagestore_core.contract.run_report import ReplayOutcome
from messagestore_core.contract.stores import Table

AT = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
RESOURCE = Resource(kind="ReplayJob", namespace="default", name="again")


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


class Suspending:
    """Suspends a replay after some chunks."""

    def __init__(self, chunks: int) -> None:
        self.chunks, self.outcomes = chunks, list[ReplayOutcome]()

    def suspended(self) -> bool:
        return len(self.outcomes) >= self.chunks

    def messages_per_second(self) -> float | None:
        return None

    def reached(self, outcome: ReplayOutcome) -> None:
        self.outcomes.append(outcome)
