"""The Secrets that the pods of a run need for object storage and for Kafka."""

from __future__ import annotations

from dataclasses import replace

from messagestore_operator.api import MessageStream, ReplayJob
from messagestore_operator.translate import storage
from messagestore_operator.translate.kafka import KafkaAccess, destination_access, source_accesses
from messagestore_operator.translate.storage import StorageAccess


def ingest_access(stream: MessageStream) -> StorageAccess:
    """The access that an ingest of the stream needs.

    Raises:
        NotSupportedError: a folder is not on a supported object store, or storages contradict each other.
    """
    return _with(storage.ingest_access(stream), *source_accesses(stream))


def replay_access(job: ReplayJob, stream: MessageStream, target: MessageStream | None) -> StorageAccess:
    """The access that a replay needs; ``target`` is the destination's stream, if it is one.

    Raises:
        NotSupportedError: a folder is not on a supported object store, or storages contradict each other.
    """
    kafka = destination_access(job)
    return _with(storage.replay_access(job, stream, target), *([kafka] if kafka else []))


def _with(access: StorageAccess, *clusters: KafkaAccess) -> StorageAccess:
    """Each variable and certificate once, as two sources may name the same Secret."""
    variables = [variable for cluster in clusters for variable in cluster.variables]
    certificates = [mount for cluster in clusters for mount in cluster.certificates]
    return replace(
        access,
        variables=(*access.variables, *dict.fromkeys(variables)),
        certificates=(*access.certificates, *dict.fromkeys(certificates)),
    )
