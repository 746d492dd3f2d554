"""Environment variables that a run's pods get from Secrets, including keys.

A document names variables, never values. A key's variable is named after its Secret, so that a process with several
runs can have them all from its start: a JVM doesn't see later ones.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from messagestore_operator.api import MessageStream, RetentionPolicy
from messagestore_operator.api.common import KeySecretRef


class Use(StrEnum):
    """The uses of a Secret, which are the values of the label that allows them."""

    STORAGE = "storage"
    KAFKA = "kafka"
    HTTP = "http"
    SEAL = "seal"
    """A key for sealing messages or hashing values."""
    CA = "ca"
    """A certificate authority's certificate, which is not confidential."""


@dataclass(frozen=True)
class SecretVariable:
    """An environment variable, and the key of the Secret with its value; an optional one may be missing."""

    variable: str
    secret: str
    key: str
    use: Use
    optional: bool = False


def seal_keys(*streams: MessageStream) -> Iterator[SecretVariable]:
    """The keys of the streams that seal their messages, of each the current one first."""
    for stream in streams:
        if (integrity := stream.spec.integrity) is not None:
            for reference in (integrity.hmac_secret_ref, *integrity.previous_secret_refs):
                yield _of(stream.metadata.namespace, reference)


def scrub_keys(policy: RetentionPolicy) -> Iterator[SecretVariable]:
    """The key with which the policy's runs hash values, if they do."""
    scrub = policy.spec.scrub
    if policy.spec.action == "Scrub" and scrub is not None and scrub.method == "Hash" and scrub.key_secret_ref:
        yield _of(policy.metadata.namespace, scrub.key_secret_ref)


def digest(*parts: str) -> str:
    """A digest that identifies a Secret, or a key of it, in names."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def key_variable(namespace: str, secret: str, key: str) -> SecretVariable:
    """The variable that holds a key of a Secret."""
    return SecretVariable(f"MESSAGESTORE_KEY_{digest(namespace, secret, key).upper()}", secret, key, Use.SEAL)


def _of(namespace: str, reference: KeySecretRef) -> SecretVariable:
    return key_variable(namespace, reference.name, reference.key)
