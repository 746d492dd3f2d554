"""Secrets of Kafka in a local run: they stand in the same files, and reach the jobs as in a pod.

Credentials are in the environment before Spark is started, because a JVM never hears of later changes; certificates lie
in files of their own while the run lasts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from messagestore_jobs.contract.run_document import (
    IngestTask,
    KafkaCluster,
    KafkaDestination,
    KafkaSource,
    ReplayTask,
    RunDocument,
)
from messagestore_operator.api import MessageStream, ReplayJob, Resource
from messagestore_operator.manifests import Secret
from messagestore_operator.translate.kafka import KafkaAccess, destination_access, source_access


def kafka_problems(resource: Resource, secrets: Sequence[Secret]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The fields that a Secret's values can't be found by, and why."""
    access = _access_of(resource)
    if access is None:
        return
    security = (*_path(resource), "security")
    needed = [
        *(((*security, "credentialsSecretRef"), v.secret, v.key) for v in access.variables),
        *(((*security, "caSecretRef"), c.secret, c.key) for c in access.certificates),
    ]
    for path, name, key in needed:
        secret = _secret(resource, name, secrets)
        if secret is None:
            yield (*path, "name"), f"there is no Secret {name} of this namespace in the files"
            return
        if not secret.data.get(key):
            yield path, f"Secret {name} has no value for key {key}"


@contextmanager
def kafka_secrets(resources: Sequence[Resource], secrets: Sequence[Secret]) -> Iterator[Mapping[str, str]]:
    """Credentials in the environment while the block lasts; tells in whose place each certificate's file lies."""
    values: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="messagestore-ca-") as folder:
        files: dict[str, str] = {}
        for resource in resources:
            access = _access_of(resource)
            for variable in access.variables if access else ():
                secret = _secret(resource, variable.secret, secrets)
                values[variable.variable] = secret.data[variable.key].decode() if secret else ""
            for mount in access.certificates if access else ():
                secret = _secret(resource, mount.secret, secrets)
                file = Path(folder) / f"{len(files)}.pem"
                file.write_bytes(secret.data[mount.key] if secret else b"")
                files[mount.path] = str(file)
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield files
        finally:
            for name, value in before.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value


def with_local_files(document: RunDocument, files: Mapping[str, str]) -> RunDocument:
    """The document with this machine's files in place of those that a pod would have."""
    task = document.task
    if isinstance(task, IngestTask) and isinstance(task.source, KafkaSource):
        source = task.source.model_copy(update={"cluster": _local(task.source.cluster, files)})
        return document.model_copy(update={"task": task.model_copy(update={"source": source})})
    if isinstance(task, ReplayTask) and isinstance(task.destination, KafkaDestination):
        to = task.destination.model_copy(update={"cluster": _local(task.destination.cluster, files)})
        return document.model_copy(update={"task": task.model_copy(update={"destination": to})})
    return document


def _local(cluster: KafkaCluster, files: Mapping[str, str]) -> KafkaCluster:
    return cluster.model_copy(update={"ca_file": files.get(cluster.ca_file or "")})


def _access_of(resource: Resource) -> KafkaAccess | None:
    if isinstance(resource, MessageStream):
        return source_access(resource)
    return destination_access(resource) if isinstance(resource, ReplayJob) else None


def _path(resource: Resource) -> tuple[str, ...]:
    return ("spec", "source", "kafka") if isinstance(resource, MessageStream) else ("spec", "destination", "kafka")


def _secret(resource: Resource, name: str, secrets: Sequence[Secret]) -> Secret | None:
    wanted = (resource.metadata.namespace, name)
    return next((secret for secret in secrets if (secret.namespace, secret.name) == wanted), None)
