"""Checks between resources: missing references, two stores in one folder, folders that overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.manifests.problem import Path, Problem
from messagestore_operator.manifests.yaml_tree import YamlDocument
from messagestore_operator.tenancy.adoption import is_released
from messagestore_operator.translate import refusals
from messagestore_operator.translate.folders import overlaps


@dataclass(frozen=True)
class Loaded:
    """A resource and where it was read."""

    resource: Resource
    document: YamlDocument
    prefix: Path = ()

    def problem(self, path: Path, message: str) -> Problem:
        """A problem of one of the resource's fields."""
        return self.document.problem((*self.prefix, *path), message)

    def unsupported(self) -> list[Problem]:
        """Problems with fields that this release supports nowhere."""
        return [self.problem(refused.path, refused.message) for refused in refusals(self.resource)]


def reference_problems(loaded: Sequence[Loaded]) -> list[Problem]:
    """Problems between resources. In a cluster they may not be problems, as other resources may exist there."""
    streams = [(item, item.resource) for item in loaded if isinstance(item.resource, MessageStream)]
    known = [stream for _, stream in streams]
    problems = list(_shared_folders(streams))
    for item in loaded:
        if isinstance(item.resource, RetentionPolicy):
            problems += _of_policy(item, item.resource, known)
        elif isinstance(item.resource, ReplayJob):
            problems += _of_replay(item, item.resource, known)
    return problems


def overlap_problems(loaded: Sequence[Loaded]) -> list[Problem]:
    """Folders that overlap with those of an earlier resource, and must not.

    A stream that has released its table uses no folder any more.
    """
    problems: list[Problem] = []
    earlier: list[Resource] = []
    for item in loaded:
        if isinstance(item.resource, MessageStream) and is_released(item.resource):
            continue
        problems += [item.problem(refused.path, refused.message) for refused in overlaps(item.resource, earlier)]
        earlier.append(item.resource)
    return problems


def _shared_folders(streams: Sequence[tuple[Loaded, MessageStream]]) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for item, stream in streams:
        if is_released(stream):
            continue
        folder = stream.spec.table.uri.rstrip("/")
        owner = owners.setdefault(folder, stream.metadata.name)
        if owner != stream.metadata.name:
            yield item.problem(("spec", "table", "uri"), f"is the folder of MessageStream {owner} too")


def _of_policy(item: Loaded, policy: RetentionPolicy, streams: Sequence[MessageStream]) -> Iterator[Problem]:
    for index, reference in enumerate(policy.spec.stream_refs):
        if not _is_known(reference.name, policy, streams):
            yield item.problem(("spec", "streamRefs", index, "name"), _missing(reference.name))
    selector = policy.spec.stream_selector
    if selector is not None and not any(
        stream.metadata.namespace == policy.metadata.namespace
        and selector.match_labels.items() <= stream.metadata.labels.items()
        for stream in streams
    ):
        yield item.problem(("spec", "streamSelector"), "no MessageStream in the files has these labels")


def _of_replay(item: Loaded, replay: ReplayJob, streams: Sequence[MessageStream]) -> Iterator[Problem]:
    if not _is_known(replay.spec.stream_ref.name, replay, streams):
        yield item.problem(("spec", "streamRef", "name"), _missing(replay.spec.stream_ref.name))
    destination = replay.spec.destination.stream
    if destination is not None and not _is_known(destination.name, replay, streams):
        yield item.problem(("spec", "destination", "stream", "name"), _missing(destination.name))


def _is_known(name: str, referrer: Resource, streams: Sequence[MessageStream]) -> bool:
    namespace = referrer.metadata.namespace
    return any(stream.metadata.name == name and stream.metadata.namespace == namespace for stream in streams)


def _missing(name: str) -> str:
    return f"there is no MessageStream {name} of this namespace in the files"
