"""Secrets of Kafka in a local run: they stand in the same files, and reach the jobs as in a pod.

Credentials are in the environment before Spark is started, because a JVM never hears of later changes; certificates lie
in files of their own while the run lasts.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from messagestore_jobs.contract.run_document import RunDocument
from messagestore_operator.api import MessageStream, ReplayJob, Resource
from messagestore_operator.manifests import Secret
from messagestore_operator.translate.kafka import KafkaAccess, destination_access, source_accesses


def kafka_problems(resource: Resource, secrets: Sequence[Secret]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The fields that a Secret's values can't be found by, and why."""
    for path, access in _accesses_of(resource):
        security = (*path, "security")
        needed = [
            *(((*security, "credentialsSecretRef"), v.secret, v.key) for v in access.variables),
            *(((*security, "caSecretRef"), c.secret, c.key) for c in access.certificates),
        ]
        for field, name, key in needed:
            secret = _secret(resource, name, secrets)
            if secret is None:
                yield (*field, "name"), f"there is no Secret {name} of this namespace in the files"
                break
            if not secret.data.get(key):
                yield field, f"Secret {name} has no value for key {key}"


@contextmanager
def kafka_secrets(resources: Sequence[Resource], secrets: Sequence[Secret]) -> Iterator[Mapping[str, str]]:
    """Credentials in the environment while the block lasts; tells in whose place each certificate's file lies."""
    values: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="messagestore-ca-") as folder:
        files: dict[str, str] = {}
        for resource in resources:
            for _, access in _accesses_of(resource):
                for variable in access.variables:
                    values[variable.variable] = _value(resource, variable.secret, variable.key, secrets).decode()
                for mount in access.certificates:
                    file = Path(folder) / f"{len(files)}.pem"
                    file.write_bytes(_value(resource, mount.secret, mount.key, secrets))
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
    text = document.model_dump_json(by_alias=True)
    for path, file in files.items():
        text = text.replace(json.dumps(path), json.dumps(file))
    return RunDocument.model_validate_json(text) if files else document


def _accesses_of(resource: Resource) -> list[tuple[tuple[str, ...], KafkaAccess]]:
    """By the field that names the cluster."""
    if isinstance(resource, MessageStream):
        paths: list[tuple[str, ...]] = []
        if resource.spec.source.kafka is not None:
            paths.append(("spec", "source", "kafka"))
        if resource.spec.lifecycle is not None and resource.spec.lifecycle.source.kafka is not None:
            paths.append(("spec", "lifecycle", "source", "kafka"))
        return list(zip(paths, source_accesses(resource), strict=True))
    access = destination_access(resource) if isinstance(resource, ReplayJob) else None
    return [] if access is None else [(("spec", "destination", "kafka"), access)]


def _value(resource: Resource, name: str, key: str, secrets: Sequence[Secret]) -> bytes:
    secret = _secret(resource, name, secrets)
    return secret.data.get(key, b"") if secret else b""


def _secret(resource: Resource, name: str, secrets: Sequence[Secret]) -> Secret | None:
    wanted = (resource.metadata.namespace, name)
    return next((secret for secret in secrets if (secret.namespace, secret.name) == wanted), None)
