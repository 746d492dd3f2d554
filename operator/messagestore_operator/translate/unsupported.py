"""What a resource may say and this release can't do yet: refused by name, never passed over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from messagestore_operator.api import MessageStream, ReplayJob, Resource


@dataclass(frozen=True)
class Refusal:
    """A field, by its path in the manifest, and why it can't be honoured."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))}: {self.message}"


class NotSupportedError(ValueError):
    """A resource asks for what this release can't do."""

    def __init__(self, refused: tuple[Refusal, ...]) -> None:
        super().__init__("; ".join(map(str, refused)))
        self.refusals = refused


def refusals(resource: Resource) -> tuple[Refusal, ...]:
    """All that this release can't do of what the resource asks."""
    if isinstance(resource, MessageStream):
        return tuple(_of_stream(resource))
    if isinstance(resource, ReplayJob):
        return tuple(_of_replay(resource))
    return ()


def ensure_supported(resource: Resource) -> None:
    """Raise NotSupportedError where the resource asks for what this release can't do."""
    if found := refusals(resource):
        raise NotSupportedError(found)


def _of_stream(stream: MessageStream) -> Iterator[Refusal]:
    if stream.spec.source.kafka is not None:
        yield Refusal(("spec", "source", "kafka"), "this release reads files only")
    if stream.spec.lifecycle is not None:
        yield Refusal(("spec", "lifecycle"), "this release takes no status updates in")


def _of_replay(job: ReplayJob) -> Iterator[Refusal]:
    if job.spec.destination.kafka is not None:
        yield Refusal(("spec", "destination", "kafka"), "this release replays to files and streams only")
