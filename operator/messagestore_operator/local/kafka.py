"""Secrets of Kafka in a local run: they stand in the same files, and reach the jobs as in a pod.

Certificates lie in files of their own while the run lasts.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from messagestore_core.contract.run_document import RunDocument
from messagestore_operator.api import Resource
from messagestore_operator.local.secrets import secret_of, value
from messagestore_operator.manifests import Secret
from messagestore_operator.translate.kafka import accesses_of


def kafka_problems(resource: Resource, secrets: Sequence[Secret]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The fields that a Secret's values can't be found by, and why."""
    for path, access in accesses_of(resource):
        security = (*path, "security")
        needed = [
            *(((*security, "credentialsSecretRef"), v.secret, v.key) for v in access.variables),
            *(((*security, "caSecretRef"), c.secret, c.key) for c in access.certificates),
        ]
        for field, name, key in needed:
            secret = secret_of(resource, name, secrets)
            if secret is None:
                yield (*field, "name"), f"there is no Secret {name} of this namespace in the files"
                break
            if not secret.data.get(key):
                yield field, f"Secret {name} has no value for key {key}"


def kafka_credentials(resources: Sequence[Resource], secrets: Sequence[Secret]) -> dict[str, str]:
    """The credentials of all clusters, by their variables."""
    return {
        variable.variable: value(resource, variable, secrets)
        for resource in resources
        for _, access in accesses_of(resource)
        for variable in access.variables
    }


@contextmanager
def kafka_files(resources: Sequence[Resource], secrets: Sequence[Secret]) -> Iterator[Mapping[str, str]]:
    """Tells in whose place each certificate's file lies while the block lasts."""
    with tempfile.TemporaryDirectory(prefix="messagestore-ca-") as folder:
        files: dict[str, str] = {}
        for resource in resources:
            for _, access in accesses_of(resource):
                for mount in access.certificates:
                    file = Path(folder) / f"{len(files)}.pem"
                    secret = secret_of(resource, mount.secret, secrets)
                    file.write_bytes(secret.data.get(mount.key, b"") if secret else b"")
                    files[mount.path] = str(file)
        yield files


def with_local_files(document: RunDocument, files: Mapping[str, str]) -> RunDocument:
    """The document with this machine's files in place of those that a pod would have."""
    text = document.model_dump_json(by_alias=True)
    for path, file in files.items():
        text = text.replace(json.dumps(path), json.dumps(file))
    return RunDocument.model_validate_json(text) if files else document
