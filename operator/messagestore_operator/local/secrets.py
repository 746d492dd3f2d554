"""Secrets of a local run: they stand in the same files, and reach a job through its environment alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from messagestore_operator.api import RetentionPolicy
from messagestore_operator.manifests import Secret
from messagestore_operator.translate import SCRUB_KEY_ENVIRONMENT, needs_scrub_key

_REF = ("spec", "scrub", "keySecretRef")


def scrub_key_problem(policy: RetentionPolicy, secrets: Sequence[Secret]) -> tuple[tuple[str, ...], str] | None:
    """The field that the key can't be found by, and why."""
    if not needs_scrub_key(policy):
        return None
    name, key = _reference(policy)
    secret = _secret(policy, secrets)
    if secret is None:
        return (*_REF, "name"), f"there is no Secret {name} of this namespace in the files"
    if not secret.data.get(key):
        return (*_REF, "key"), f"Secret {name} has no value for key {key}"
    try:
        usable = b"\0" not in secret.data[key] and bool(secret.data[key].decode())
    except UnicodeDecodeError:
        usable = False
    return None if usable else ((*_REF, "key"), f"the value for key {key} of Secret {name} must be text")


@contextmanager
def scrub_key(policy: RetentionPolicy, secrets: Sequence[Secret]) -> Iterator[None]:
    """The key in the environment while a run of the policy lasts."""
    secret = _secret(policy, secrets) if needs_scrub_key(policy) else None
    if secret is None:
        yield
        return
    before = os.environ.get(SCRUB_KEY_ENVIRONMENT)
    os.environ[SCRUB_KEY_ENVIRONMENT] = secret.data[_reference(policy)[1]].decode()
    try:
        yield
    finally:
        del os.environ[SCRUB_KEY_ENVIRONMENT]
        if before is not None:
            os.environ[SCRUB_KEY_ENVIRONMENT] = before


def _reference(policy: RetentionPolicy) -> tuple[str, str]:
    assert policy.spec.scrub is not None
    assert policy.spec.scrub.key_secret_ref is not None
    return policy.spec.scrub.key_secret_ref.name, policy.spec.scrub.key_secret_ref.key


def _secret(policy: RetentionPolicy, secrets: Sequence[Secret]) -> Secret | None:
    wanted = (policy.metadata.namespace, _reference(policy)[0])
    return next((secret for secret in secrets if (secret.namespace, secret.name) == wanted), None)
