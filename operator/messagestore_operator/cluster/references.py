"""Which resources refer to which streams and tables."""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.cluster.packed import Index
from messagestore_operator.decide.snapshot import TableKey
from messagestore_operator.decide.tables import table_key
from messagestore_operator.kube.objects import ResourceKey
from messagestore_operator.translate.folders import folders, segments


class _Stream(NamedTuple):
    """What is known of a stream without its resource."""

    labels: Mapping[str, str]
    table: TableKey


class References:
    """Indexes from streams and tables to the resources that refer to them."""

    def __init__(self) -> None:
        self._streams: dict[str, dict[str, _Stream]] = defaultdict(dict)
        """By namespace and name."""
        self._of_table = Index[TableKey, ResourceKey]()
        self._of_folder = Index[tuple[str, str], ResourceKey]()
        self._of_stream = Index[tuple[str, str], ResourceKey]()
        self._selecting = Index[str, ResourceKey]()
        self._with_folder = Index[tuple[str, ...], ResourceKey]()
        """By a namespace and the segments of a folder."""
        self._above = Index[tuple[str, ...], ResourceKey]()
        """The same, by each folder above theirs."""

    def overlapping(self, resource: Resource) -> Set[ResourceKey]:
        """Other resources of its namespace with a folder that is, is in, or contains one of its own."""
        keys: set[ResourceKey] = set()
        for folder in _folder_keys(resource):
            keys.update(self._above[folder])
            for length in range(2, len(folder) + 1):
                keys.update(self._with_folder[folder[:length]])
        return keys - {resource.identity}

    def streams_named(self, resource: Resource, among: Iterable[str] | None = None) -> list[str]:
        """The existing streams of its namespace that a resource refers to; for a stream, itself.

        Args:
            among: names that alone matter; None: all.
        """
        names, known = streams_named(resource), self._streams[resource.metadata.namespace]
        if names is None:
            existing = known if among is None else known.keys() & among
            return sorted(name for name in existing if selects(resource, known[name].labels))
        return sorted(names & known.keys() if among is None else names & known.keys() & set(among))

    def tables_of(self, resource: Resource) -> set[TableKey]:
        """The tables of the streams that a resource refers to."""
        known = self._streams[resource.metadata.namespace]
        return {known[name].table for name in self.streams_named(resource)}

    def interested(self, table: TableKey, policies: Mapping[ResourceKey, Resource]) -> set[ResourceKey]:
        """Resources whose runs may write to a table.

        Args:
            policies: finds the policies that select streams.
        """
        keys = set(self.streams_of(table))
        for _, namespace, name in self.streams_of(table):
            labels = self._streams[namespace][name].labels
            keys.update(self.naming(namespace, name))
            keys |= {key for key in self.selecting(namespace) if selects(policies[key], labels)}
        return keys

    def streams_of(self, table: TableKey) -> Collection[ResourceKey]:
        """The streams of a table, all of one namespace."""
        return self._of_table[table]

    def sharing(self, stream: MessageStream) -> Set[ResourceKey]:
        """Other streams, of any namespace, with the same endpoint and URI."""
        return set(self._of_folder[_folder(stream)]) - {stream.identity}

    def naming(self, namespace: str, name: str) -> Collection[ResourceKey]:
        """Policies and replays that name a stream of their namespace."""
        return self._of_stream[namespace, name]

    def selecting(self, namespace: str) -> Collection[ResourceKey]:
        """Policies of a namespace that select streams by labels."""
        return self._selecting[namespace]

    def add(self, resource: Resource) -> None:
        """Add a resource's references."""
        if isinstance(resource, MessageStream):
            known = _Stream(resource.metadata.labels, table_key(resource))
            self._streams[resource.metadata.namespace][resource.metadata.name] = known
        identity = resource.identity
        for index, of in self._entries(resource):
            index.add(of, identity)

    def replace(self, before: Resource | None, resource: Resource) -> None:
        """Replace the references of a resource's earlier version; a new status changes none."""
        if before is not None:
            if before.spec is resource.spec and before.metadata.labels == resource.metadata.labels:
                return
            self.remove(before)
        self.add(resource)

    def remove(self, resource: Resource) -> None:
        """Remove a resource's references."""
        if isinstance(resource, MessageStream):
            del self._streams[resource.metadata.namespace][resource.metadata.name]
        for index, of in self._entries(resource):
            index.discard(of, resource.identity)

    def _entries(self, resource: Resource) -> Iterator[tuple[Index[Any, ResourceKey], Any]]:
        """The indexes that have a resource, each with its key there."""
        for folder in _folder_keys(resource):
            yield self._with_folder, folder
            for length in range(2, len(folder)):
                yield self._above, folder[:length]
        if isinstance(resource, MessageStream):
            yield self._of_table, table_key(resource)
            yield self._of_folder, _folder(resource)
            return
        _, namespace, _ = resource.identity
        names = streams_named(resource)
        if names is None:
            yield self._selecting, namespace
        for name in names or ():
            yield self._of_stream, (namespace, name)


def _folder_keys(resource: Resource) -> set[tuple[str, ...]]:
    """The folders of a resource: its namespace, then their segments."""
    return {
        tuple(map(sys.intern, (resource.metadata.namespace, *segments(folder.uri)))) for folder in folders(resource)
    }


def _folder(stream: MessageStream) -> tuple[str, str]:
    table = table_key(stream)
    return table.endpoint, table.uri


def refers_to(resource: Resource, stream: MessageStream) -> bool:
    """Whether a resource refers to a stream of its namespace."""
    if stream.metadata.namespace != resource.metadata.namespace:
        return False
    names = streams_named(resource)
    return selects(resource, stream.metadata.labels) if names is None else stream.metadata.name in names


def selects(resource: Resource, labels: Mapping[str, str]) -> bool:
    """Whether a resource selects the streams of its namespace that have these labels."""
    return isinstance(resource, RetentionPolicy) and resource.selects(labels)


def streams_named(resource: Resource) -> set[str] | None:
    """The streams that a resource refers to by name; None if it selects them by labels."""
    if isinstance(resource, RetentionPolicy):
        return None if resource.spec.stream_selector is not None else {ref.name for ref in resource.spec.stream_refs}
    if isinstance(resource, ReplayJob):
        to = resource.spec.target
        return {resource.spec.stream_ref.name, *([to.name] if to else [])}
    return {resource.metadata.name}


def matters(resource: Resource) -> Any:
    """The parts of a resource that decisions about other resources depend on."""
    meta, status = resource.metadata, resource.status
    runs: list[Any] = [getattr(status, "current_run", None)]
    runs += [entry.current_run for entry in getattr(status, "streams", ())]
    current = [(run.name, run.launched_at) for run in runs if run is not None]
    return meta.uid, meta.generation, meta.deletion_timestamp, meta.labels, meta.annotations, current
