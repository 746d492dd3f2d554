"""All that the pods of a run need of Secrets: for object storage, and for Kafka."""

from __future__ import annotations

from dataclasses import replace

from messagestore_operator.api import MessageStream, ReplayJob
from messagestore_operator.translate import storage
from messagestore_operator.translate.kafka import KafkaAccess, destination_access, source_access
from messagestore_operator.translate.storage import StorageAccess


def ingest_access(stream: MessageStream) -> StorageAccess:
    """What an ingest of the stream needs.

    Raises:
        NotSupportedError: a folder is on no object store of this release, or storages contradict each other.
    """
    return _with(storage.ingest_access(stream), source_access(stream))


def replay_access(job: ReplayJob, stream: MessageStream, target: MessageStream | None) -> StorageAccess:
    """What a replay needs; `target` is the stream that its destination names, if it names one.

    Raises:
        NotSupportedError: a folder is on no object store of this release, or storages contradict each other.
    """
    return _with(storage.replay_access(job, stream, target), destination_access(job))


def _with(access: StorageAccess, kafka: KafkaAccess | None) -> StorageAccess:
    if kafka is None:
        return access
    return replace(
        access,
        variables=(*access.variables, *kafka.variables),
        certificates=(*access.certificates, *kafka.certificates),
    )
