"""Secrets of a local run: they stand in the same files, and reach a job through its environment alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from messagestore_operator.api import MessageStream, Resource, RetentionPolicy
from messagestore_operator.api.common import KeySecretRef
from messagestore_operator.manifests import Secret
from messagestore_operator.translate import SCRUB_KEY_ENVIRONMENT, SecretVariable, needs_scrub_key

_Problem = tuple[tuple[str, ...], str]


def key_problem(resource: Resource, secrets: Sequence[Secret]) -> _Problem | None:
    """The field that a key can't be found by which the resource's runs need, and why."""
    path, reference = _reference(resource)
    if reference is None:
        return None
    secret = _secret(resource, reference.name, secrets)
    if secret is None:
        return (*path, "name"), f"there is no Secret {reference.name} of this namespace in the files"
    if not secret.data.get(reference.key):
        return (*path, "key"), f"Secret {reference.name} has no value for key {reference.key}"
    try:
        usable = b"\0" not in secret.data[reference.key] and bool(secret.data[reference.key].decode())
    except UnicodeDecodeError:
        usable = False
    problem = f"the value for key {reference.key} of Secret {reference.name} must be text"
    return None if usable else ((*path, "key"), problem)


def scrub_key(policy: RetentionPolicy) -> list[SecretVariable]:
    """The key that a run of the policy hashes with, if it does."""
    _, reference = _reference(policy)
    return [SecretVariable(SCRUB_KEY_ENVIRONMENT, reference.name, reference.key)] if reference else []


@contextmanager
def environment(like: Resource, variables: Iterable[SecretVariable], secrets: Sequence[Secret]) -> Iterator[None]:
    """The variables, from Secrets of the resource's namespace, while one of its runs lasts."""
    values: dict[str, str] = {}
    for wanted in variables:
        secret = _secret(like, wanted.secret, secrets)
        if secret is not None and wanted.key in secret.data:
            values[wanted.variable] = secret.data[wanted.key].decode()
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def _reference(resource: Resource) -> tuple[tuple[str, ...], KeySecretRef | None]:
    if isinstance(resource, MessageStream) and resource.spec.integrity is not None:
        return ("spec", "integrity", "hmacSecretRef"), resource.spec.integrity.hmac_secret_ref
    if isinstance(resource, RetentionPolicy) and needs_scrub_key(resource):
        assert resource.spec.scrub is not None
        return ("spec", "scrub", "keySecretRef"), resource.spec.scrub.key_secret_ref
    return (), None


def _secret(like: Resource, name: str, secrets: Sequence[Secret]) -> Secret | None:
    wanted = (like.metadata.namespace, name)
    return next((secret for secret in secrets if (secret.namespace, secret.name) == wanted), None)
