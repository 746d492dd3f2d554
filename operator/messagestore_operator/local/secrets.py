"""Secrets of a local run: they are in the same manifests, and jobs get them as in a pod.

Environment variables are set before Spark starts, because a JVM doesn't see later changes. Certificates are written to
temporary files while the run lasts.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from messagestore_core.contract.run_document import RunDocument
from messagestore_operator.api import MessageStream, Resource, RetentionPolicy
from messagestore_operator.manifests.load import Secret
from messagestore_operator.translate.kafka import USERNAME, connections
from messagestore_operator.translate.secrets import SecretVariable, scrub_keys, seal_keys
from messagestore_operator.translate.storage import CertificateMount

_Problem = tuple[tuple[str | int, ...], str]


def key_problems(resource: Resource, secrets: Sequence[Secret]) -> Iterator[_Problem]:
    """The fields whose Secret has no key that the resource's runs need, and why."""
    for path, key in _keys(resource):
        if (problem := _key_problem(resource, path, key, secrets)) is not None:
            yield problem


def _key_problem(
    resource: Resource, path: tuple[str, ...], key: SecretVariable, secrets: Sequence[Secret]
) -> _Problem | None:
    secret = secret_of(resource, key.secret, secrets)
    if secret is None:
        return (*path, "name"), f"there is no Secret {key.secret} of this namespace in the files"
    if not secret.data.get(key.key):
        return (*path, "key"), f"Secret {key.secret} has no value for key {key.key}"
    return None if _is_text(secret.data[key.key]) else ((*path, "key"), _no_text(key))


def _is_text(value: bytes) -> bool:
    """Whether an environment variable can hold a value."""
    try:
        return b"\0" not in value and bool(value.decode())
    except UnicodeDecodeError:
        return False


def _no_text(key: SecretVariable) -> str:
    return f"the value for key {key.key} of Secret {key.secret} must be text"


def keys(resources: Sequence[Resource], secrets: Sequence[Secret]) -> dict[str, str]:
    """The keys that runs of the resources need, by environment variable."""
    needed = [(resource, key) for resource in resources for _, key in _keys(resource)]
    return {key.variable: value(resource, key, secrets) for resource, key in needed}


def value(resource: Resource, wanted: SecretVariable, secrets: Sequence[Secret]) -> str:
    """The value of a variable; empty if the Secret is missing."""
    secret = secret_of(resource, wanted.secret, secrets)
    return secret.data.get(wanted.key, b"").decode() if secret else ""


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set the variables while the block lasts."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def secret_of(like: Resource, name: str, secrets: Sequence[Secret]) -> Secret | None:
    """A Secret of the resource's namespace; None if the files don't have it."""
    wanted = (like.metadata.namespace, name)
    return next((secret for secret in secrets if (secret.namespace, secret.name) == wanted), None)


def _keys(resource: Resource) -> Iterator[tuple[tuple[str, ...], SecretVariable]]:
    """The fields that name keys that the resource's runs need, and the keys."""
    if isinstance(resource, MessageStream):
        for number, key in enumerate(seal_keys(resource)):
            field = ("previousSecretRefs", str(number - 1)) if number else ("hmacSecretRef",)
            yield ("spec", "integrity", *field), key
    if isinstance(resource, RetentionPolicy):
        yield from ((("spec", "scrub", "keySecretRef"), key) for key in scrub_keys(resource))


def connection_problems(resource: Resource, secrets: Sequence[Secret]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The fields whose Secret has no value, and why."""
    for security, needs in connections(resource):
        for under, need in needs:
            field = (*security, *under.split("."))
            secret = secret_of(resource, need.secret, secrets)
            if secret is None:
                yield (*field, "name"), f"there is no Secret {need.secret} of this namespace in the files"
                break
            # A name in the spec is beside a Secret without one.
            unwanted, value = isinstance(need, SecretVariable) and need.optional, secret.data.get(need.key)
            if unwanted and value:
                words = f"Secret {need.secret} has a value for key {need.key} too: leave one of them out"
                yield (*security, "username"), words
            elif not unwanted and not value:
                yield field, f"Secret {need.secret} has no value for key {need.key}{_otherwise(need)}"
            elif isinstance(need, SecretVariable) and value and not _is_text(value):
                yield field, _no_text(need)


def _otherwise(need: SecretVariable | CertificateMount) -> str:
    return "; name the user in security.username" if need.key == USERNAME else ""


def credentials(resources: Sequence[Resource], secrets: Sequence[Secret]) -> dict[str, str]:
    """The credentials for all Kafka clusters and HTTP endpoints, by environment variable."""
    return {
        variable.variable: text
        for resource in resources
        for _, needs in connections(resource)
        for _, variable in needs
        if isinstance(variable, SecretVariable)
        if (text := value(resource, variable, secrets)) or not variable.optional
    }


@contextmanager
def certificate_files(resources: Sequence[Resource], secrets: Sequence[Secret]) -> Iterator[Mapping[str, str]]:
    """Write certificates and keys to files while the block lasts; gives each file, by its path in a pod."""
    with tempfile.TemporaryDirectory(prefix="messagestore-ca-") as folder:
        files: dict[str, str] = {}
        for resource in resources:
            for _, needs in connections(resource):
                for mount in (need for _, need in needs if isinstance(need, CertificateMount)):
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
