"""What a resource says about itself: its conditions and runs. Pure functions of documents of the API server.

The documents may be of another release, or have no status yet.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from messagestore_operator.kube.objects import at, name_of, namespace_of
from messagestore_operator.plugin.kubectl import Document


@dataclass(frozen=True)
class Condition:
    """A condition of a resource."""

    type: str
    status: str
    reason: str
    message: str
    since: str | None


@dataclass(frozen=True)
class Run:
    """A run of a resource. ``current``: in progress, or waiting."""

    namespace: str
    kind: str
    resource: str
    stream: str | None
    """Of a policy."""
    run: str
    task: str | None
    state: str
    current: bool
    attempt: int
    started_at: str | None
    finished_at: str | None
    launched_at: str | None
    progress: str | None
    reason: str | None
    message: str | None
    cpu_seconds: float | None
    bytes_written: int | None


def conditions(document: Document) -> list[Condition]:
    """The conditions, Ready first."""
    given = at(document, "status", "conditions") or []
    listed = [
        Condition(
            str(one.get("type", "")),
            str(one.get("status", "Unknown")),
            str(one.get("reason", "")),
            str(one.get("message", "")),
            one.get("lastTransitionTime"),
        )
        for one in given
    ]
    return sorted(listed, key=lambda one: one.type != "Ready")


def ready(document: Document) -> Condition:
    """Condition Ready; Unknown while the operator has not looked at the resource."""
    first = next(iter(conditions(document)), None)
    if first is not None and first.type == "Ready":
        return first
    return Condition("Ready", "Unknown", "", "the operator has not looked at it yet", None)


def failing(document: Document) -> bool:
    """Whether somebody should look: it fails, is stalled or degraded."""
    phase = at(document, "status", "phase")
    bad = any(one.status == "True" and one.type in ("Stalled", "Degraded", "Failed") for one in conditions(document))
    return bad or phase in ("Failing", "Stalled", "Failed")


def runs(document: Document) -> list[Run]:
    """The runs that a resource lists: current ones first, then ended ones, the newest first, each once."""
    listed = list(_runs(document))
    once = {one.run: one for one in reversed(listed)}
    ended = sorted((one for one in once.values() if not one.current), key=end_of, reverse=True)
    return [*(one for one in once.values() if one.current), *ended]


def end_of(run: Run) -> str:
    """When a run ended, or else began; empty before."""
    return run.finished_at or run.started_at or ""


def _runs(document: Document) -> Iterator[Run]:
    """A run that is both a current and an ended one counts as ended by what comes first."""
    status = document.get("status") or {}
    for place, stream in ((status, None), *((one, one.get("name")) for one in status.get("streams") or [])):
        ended = [*(place.get("recentRuns") or []), place.get("lastRun"), at(place, "maintenance", "lastRun")]
        yield from (_run(document, one, stream, current=False) for one in ended if one)
        if current := place.get("currentRun"):
            yield _run(document, current, stream, current=True)


def _run(document: Document, run: dict[str, Any], stream: str | None, *, current: bool) -> Run:
    return Run(
        namespace=namespace_of(document),
        kind=str(document.get("kind")),
        resource=name_of(document),
        stream=stream,
        run=str(run.get("name")),
        task=run.get("kind"),
        state=str(run.get("state", "Pending" if current else "")),
        current=current,
        attempt=int(run.get("attempt") or 1),
        started_at=run.get("startedAt"),
        finished_at=run.get("finishedAt"),
        launched_at=run.get("launchedAt"),
        progress=run.get("progress"),
        reason=at(run, "error", "reason") or at(run, "ending", "reason"),
        message=at(run, "error", "message") or at(run, "ending", "message"),
        cpu_seconds=run.get("cpuSeconds"),
        bytes_written=run.get("bytesWritten"),
    )
