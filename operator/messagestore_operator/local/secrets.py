"""Secrets of a local run: they are in the same manifests, and jobs get them only through environment variables.

The variables are set before Spark starts, because a JVM doesn't see later changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from messagestore_operator.api import MessageStream, Resource, RetentionPolicy
from messagestore_operator.manifests import Secret
from messagestore_operator.translate import SecretVariable, scrub_keys, seal_keys

_Problem = tuple[tuple[str, ...], str]


def key_problem(resource: Resource, secrets: Sequence[Secret]) -> _Problem | None:
    """The fields whose Secret has no key that the resource's runs need, and why."""
    path, key = _key(resource)
    if key is None:
        return None
    secret = secret_of(resource, key.secret, secrets)
    if secret is None:
        return (*path, "name"), f"there is no Secret {key.secret} of this namespace in the files"
    if not secret.data.get(key.key):
        return (*path, "key"), f"Secret {key.secret} has no value for key {key.key}"
    try:
        usable = b"\0" not in secret.data[key.key] and bool(secret.data[key.key].decode())
    except UnicodeDecodeError:
        usable = False
    problem = f"the value for key {key.key} of Secret {key.secret} must be text"
    return None if usable else ((*path, "key"), problem)


def keys(resources: Sequence[Resource], secrets: Sequence[Secret]) -> dict[str, str]:
    """The keys that runs of the resources need, by environment variable."""
    needed = [(resource, _key(resource)[1]) for resource in resources]
    return {key.variable: value(resource, key, secrets) for resource, key in needed if key is not None}


def value(resource: Resource, wanted: SecretVariable, secrets: Sequence[Secret]) -> str:
    """The value of a variable; None if the Secret is missing."""
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


def _key(resource: Resource) -> tuple[tuple[str, ...], SecretVariable | None]:
    """The field that names the key that the resource's runs need, and the key."""
    if isinstance(resource, MessageStream):
        return ("spec", "integrity", "hmacSecretRef"), next(seal_keys(resource), None)
    if isinstance(resource, RetentionPolicy):
        return ("spec", "scrub", "keySecretRef"), next(scrub_keys(resource), None)
    return (), None
