"""The Secrets that a resource's runs need in its namespace before they can start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.translate import (
    NotSupportedError,
    SecretVariable,
    StorageAccess,
    ingest_access,
    purge_access,
    replay_access,
    scrub_keys,
)
from messagestore_operator.translate.secrets import Use

Uses = Mapping[str, frozenset[str]]
"""Existing Secrets by name, each with the uses that its label allows."""


@dataclass(frozen=True, order=True)
class Need:
    """A Secret, and a run's use of it."""

    secret: str
    use: Use
    certificate: bool = False

    def allowed_by(self, uses: frozenset[str]) -> bool:
        """Whether a Secret that allows these uses allows this one."""
        return self.use in uses or (self.certificate and Use.CA in uses)


def secrets_of(resource: Resource, streams: Iterable[MessageStream]) -> frozenset[Need]:
    """The Secrets that runs of the resource need; a snapshot says which of them exist.

    Args:
        streams: those of its namespace that it refers to and that exist.
    """
    existing = list(streams)
    try:
        if isinstance(resource, MessageStream):
            return needed(ingest_access(resource))
        if isinstance(resource, RetentionPolicy):
            accesses = [needed(purge_access(resource, stream), scrub_keys(resource)) for stream in existing]
            return frozenset[Need]().union(*accesses)
        assert isinstance(resource, ReplayJob)
        named = {stream.metadata.name: stream for stream in existing}
        source = named.get(resource.spec.stream_ref.name)
        to = resource.spec.destination.stream
        return needed(replay_access(resource, source, named.get(to.name) if to else None)) if source else frozenset()
    except NotSupportedError:
        return frozenset()


def needed(access: StorageAccess, variables: Iterable[SecretVariable] = ()) -> frozenset[Need]:
    """The Secrets without which a run's pods don't start."""
    filled = {Need(one.secret, one.use) for one in (*access.variables, *variables) if not one.optional}
    return frozenset(filled | {Need(mount.secret, mount.use, certificate=True) for mount in access.certificates})


def unmet(wanted: Iterable[Need], secrets: Uses) -> list[Need]:
    """The needed Secrets that don't exist, or don't allow the use."""
    return sorted(need for need in wanted if not need.allowed_by(secrets.get(need.secret, frozenset())))
