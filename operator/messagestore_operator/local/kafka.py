"""Secrets for Kafka in a local run: they are in the same manifests, and jobs get them as in a pod.

Certificates are written to temporary files while the run lasts.
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
    """The fields whose Secret has no value, and why."""
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
    """The credentials for all Kafka clusters, by environment variable."""
    return {
        variable.variable: value(resource, variable, secrets)
        for resource in resources
        for _, access in accesses_of(resource)
        for variable in access.variables
    }


@contextmanager
def kafka_files(resources: Sequence[Resource], secrets: Sequence[Secret]) -> Iterator[Mapping[str, str]]:
    """Write the certificates to files while the block lasts; gives each file, by its path in a pod."""
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
    """The document with paths of this machine instead of a pod's."""
    text = document.model_dump_json(by_alias=True)
    for path, file in files.items():
        text = text.replace(json.dumps(path), json.dumps(file))
    return RunDocument.model_validate_json(text) if files else document
