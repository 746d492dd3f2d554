"""What a resource's runs need in its namespace before they can start."""

from __future__ import annotations

from collections.abc import Iterable

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.translate import (
    NotSupportedError,
    SecretVariable,
    StorageAccess,
    ingest_access,
    needs_scrub_key,
    purge_access,
    replay_access,
)
from messagestore_operator.translate.purge import SCRUB_KEY_ENVIRONMENT


def secrets_of(resource: Resource, streams: Iterable[MessageStream]) -> frozenset[str]:
    """Names of the Secrets that runs of the resource can't do without: those whose existence a snapshot tells.

    Args:
        resource: any of the kinds.
        streams: those of its namespace that it refers to and that exist.
    """
    found = list(streams)
    try:
        if isinstance(resource, MessageStream):
            return needed(ingest_access(resource))
        if isinstance(resource, RetentionPolicy):
            accesses = [needed(purge_access(resource, stream), scrub_key(resource)) for stream in found]
            return frozenset[str]().union(*accesses)
        assert isinstance(resource, ReplayJob)
        named = {stream.metadata.name: stream for stream in found}
        source = named.get(resource.spec.stream_ref.name)
        to = resource.spec.destination.stream
        return needed(replay_access(resource, source, named.get(to.name) if to else None)) if source else frozenset()
    except NotSupportedError:
        return frozenset()


def needed(access: StorageAccess, variables: Iterable[SecretVariable] = ()) -> frozenset[str]:
    """Names of the Secrets that a run's pods don't start without."""
    filled = {variable.secret for variable in (*access.variables, *variables) if not variable.optional}
    return frozenset(filled | {mount.secret for mount in access.certificates})


def scrub_key(policy: RetentionPolicy) -> tuple[SecretVariable, ...]:
    """The variable with the key that a policy's runs hash with, if they do."""
    reference = policy.spec.scrub.key_secret_ref if policy.spec.scrub and needs_scrub_key(policy) else None
    if reference is None:
        return ()
    return (SecretVariable(SCRUB_KEY_ENVIRONMENT, reference.name, reference.key),)
