"""Keep secrets of a run's environment out of logs and reports."""

import os
from collections.abc import Collection, Iterator

from messagestore_core.contract.records import Integrity, KafkaCluster, KafkaSource
from messagestore_core.contract.run_document import (
    IngestTask,
    KafkaDestination,
    PurgeTask,
    ReplayTask,
    RunDocument,
    StreamDestination,
)

_IN_ITS_PLACE = "…"


def secrets_of(document: RunDocument) -> frozenset[str]:
    """The values of the environment variables that the document names."""
    return frozenset(value for name in _variables(document) if (value := os.environ.get(name)))


def scrubbed(text: str, secrets: Collection[str]) -> str:
    """Remove all secrets from a text, longest first, as one may contain another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _IN_ITS_PLACE)
    return text


def _variables(document: RunDocument) -> Iterator[str]:
    for entry in document.storage:
        names = entry.environment
        if names is not None:
            yield from (names.access_key, names.secret_key)
            if names.session_token is not None:
                yield names.session_token
    yield from _of_seals(document.task)
    for cluster in _clusters(document):
        if cluster.environment is not None:
            # The user's name is in the Secret too, but a name such as "orders" is part of many other texts.
            yield cluster.environment.password
    if isinstance(document.task, PurgeTask) and document.task.scrub and document.task.scrub.key_environment:
        yield document.task.scrub.key_environment


def _of_seals(task: object) -> Iterator[str]:
    """The variables with keys of seals, of the store and of a replay's destination."""
    seals: list[Integrity | None] = []
    if isinstance(task, IngestTask | PurgeTask | ReplayTask):
        seals.append(task.integrity)
    if isinstance(task, ReplayTask) and isinstance(task.destination, StreamDestination):
        seals.append(task.destination.ingest.integrity)
    yield from (integrity.key_environment for integrity in seals if integrity is not None)


def _clusters(document: RunDocument) -> Iterator[KafkaCluster]:
    task = document.task
    if isinstance(task, IngestTask):
        sources = [task.source, *([task.lifecycle.source] if task.lifecycle else [])]
        yield from (source.cluster for source in sources if isinstance(source, KafkaSource))
    elif isinstance(task, ReplayTask) and isinstance(task.destination, KafkaDestination):
        yield task.destination.cluster
