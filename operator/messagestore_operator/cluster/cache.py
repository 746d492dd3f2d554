"""Resources, runs and Leases, with indexes for decisions; only the parts of objects that decisions need are kept."""

import logging
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import cast

from pydantic import ValidationError

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.api.kinds import KINDS
from messagestore_operator.cluster.labels import has_numbered, has_recorded, owner_key, run_ref
from messagestore_operator.cluster.lease import holder_of
from messagestore_operator.cluster.packed import Index, PackedResources
from messagestore_operator.cluster.references import References, matters, refers_to
from messagestore_operator.cluster.resources import read
from messagestore_operator.cluster.run_objects import RunKey, RunObjects, reduced, run_key, shared
from messagestore_operator.decide.run_queue import Slots
from messagestore_operator.decide.snapshot import AppState, LeaseRequest, ObservedRun, RunRef, TableKey
from messagestore_operator.decide.tables import current_runs, lease_requests_of, slots_of
from messagestore_operator.kube.cache import DELETED_SECONDS, ObjectCache, Versions
from messagestore_operator.kube.objects import (
    CONFIG_MAPS,
    LEASES,
    SPARK_APPLICATIONS,
    ApiObject,
    ResourceKey,
    at,
    key_of,
    labels_of,
    metadata,
    name_of,
    namespace_of,
)
from messagestore_operator.names import TABLE

_log = logging.getLogger(__name__)
_NOBODY = ("", "", "")


class Cache(ObjectCache):
    """Resources, runs and Leases."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._resources = PackedResources()
        self._problems: dict[ResourceKey, str] = {}
        self._written: dict[ResourceKey, datetime] = {}
        self.slots = Slots()
        self._named: dict[RunKey, ResourceKey] = {}
        """The current runs of all statuses."""
        self._references = References()
        self._runs: dict[RunKey, RunObjects] = {}
        self._runs_by_uid = Index[str, RunKey]()
        self._refused: dict[RunKey, tuple[float, ObservedRun]] = {}
        self._leases: dict[str, ApiObject] = {}
        self._held = Index[str, str]()

    # Queries.

    def resource(self, key: ResourceKey) -> Resource | None:
        """One of the three kinds."""
        return self._resources.get(key)

    def peek(self, key: ResourceKey) -> Resource | None:
        """The same, for any thread."""
        return self._resources.peek(key)

    def resource_keys(self) -> list[ResourceKey]:
        """Kind, namespace and name of all resources, for any thread."""
        return list(self._resources)

    def keys(self) -> set[ResourceKey]:
        """Kind, namespace and name of all resources."""
        return set(self._resources)

    def problem(self, key: ResourceKey) -> str | None:
        """The refused part of a resource's spec, which the cached spec lacks; None if nothing is refused."""
        return self._problems.get(key)

    def note_written(self, key: ResourceKey, at: datetime) -> None:
        """Note when a resource's status was written."""
        if key in self._resources:
            self._written[key] = at

    def written(self, key: ResourceKey) -> datetime | None:
        """When this process last wrote a resource's status; None: never."""
        return self._written.get(key)

    def streams_of(self, resource: Resource, among: Iterable[str] | None = None) -> tuple[MessageStream, ...]:
        """The existing streams of its namespace that a resource refers to; for a stream, itself.

        Args:
            among: names that alone matter, as a policy may select thousands; None: all.
        """
        names = self._references.streams_named(resource, among)
        streams = (self._resources["MessageStream", resource.metadata.namespace, name] for name in names)
        return cast(tuple[MessageStream, ...], tuple(streams))

    def sharing(self, stream: MessageStream) -> tuple[MessageStream, ...]:
        """Other streams, of any namespace, with the same table folder."""
        resources = (self._resources.get(key) for key in sorted(self._references.sharing(stream)))
        return tuple(other for other in resources if isinstance(other, MessageStream))

    def overlapping(self, resource: Resource) -> tuple[Resource, ...]:
        """Other resources of its namespace with a folder that is, is in, or contains one of its own."""
        return tuple(self._resources[key] for key in sorted(self._references.overlapping(resource)))

    def replays_of(self, stream: MessageStream) -> tuple[ReplayJob, ...]:
        """The replays of its namespace that read a stream, ended ones too."""
        _, namespace, name = stream.identity
        resources = (self._resources[key] for key in sorted(self._references.naming(namespace, name)))
        return tuple(job for job in resources if isinstance(job, ReplayJob) and job.spec.stream_ref.name == name)

    def referring_to(self, stream: MessageStream) -> tuple[RetentionPolicy | ReplayJob, ...]:
        """The policies and replays that name or select a stream, ended replays too."""
        _, namespace, name = stream.identity
        keys = {*self._references.naming(namespace, name), *self._references.selecting(namespace)}
        referring = [
            one for one in map(self._resources.get, sorted(keys)) if isinstance(one, RetentionPolicy | ReplayJob)
        ]
        return tuple(one for one in referring if refers_to(one, stream))

    def lease_requests(self, table: TableKey) -> Iterator[tuple[LeaseRequest, bool]]:
        """The requests of all current runs for a table, each with whether it waits."""
        of_table = {name for _, _, name in self._references.streams_of(table)}
        for key in sorted(self.interested(table)):
            resource = self._resources[key]
            among = of_table if isinstance(resource, RetentionPolicy) else None
            for requested, request, waits in lease_requests_of(resource, self.streams_of(resource, among)):
                if requested == table:
                    yield request, waits

    def interested(self, table: TableKey) -> set[ResourceKey]:
        """Resources whose runs may write to a table."""
        return self._references.interested(table, self._resources)

    def run(self, key: RunKey) -> RunObjects:
        """The objects of a run."""
        return self._runs.get(key) or RunObjects()

    def runs_of(self, resource: Resource) -> list[RunKey]:
        """The runs of a resource that have objects."""
        return sorted(self._runs_by_uid[resource.metadata.uid or ""])

    def uid(self, kind: str, key: RunKey) -> str:
        """The uid of a run's application or ConfigMap; empty if it is not known."""
        return self.uid_of((kind, *key))

    def is_unread(self, key: RunKey) -> bool:
        """Whether the ConfigMap of a run may have other texts than those that were read: watches show only metadata."""
        known = self.version_of((CONFIG_MAPS.name, *key))
        return known is not None and known != str(at(self.run(key).config_map, "metadata", "resourceVersion"))

    def has_runs(self, namespace: str) -> bool:
        """Whether a namespace has objects of any run."""
        return any(where == namespace for where, _ in self._runs)

    def all_runs(self) -> Iterator[tuple[RunKey, RunObjects]]:
        """All runs that have objects."""
        yield from list(self._runs.items())

    def lease(self, name: str) -> ApiObject | None:
        """A table's Lease."""
        return self._leases.get(name)

    def refusal(self, key: RunKey) -> ObservedRun | None:
        """A run that the API server refused to create, as one that failed before it had a driver."""
        return self._refused[key][1] if key in self._refused else None

    def leases(self) -> Iterator[ApiObject]:
        """The Leases of all tables."""
        yield from list(self._leases.values())

    def trim(self, key: RunKey) -> None:
        """Reduce the objects of a run that is over and is no resource's current run.

        Some runs of each resource are kept for people; the only decision left is which of them are deleted.
        """
        if run := self._runs.get(key):
            run.trim()

    # Updates.

    def refuse(self, run: RunRef, words: str) -> None:
        """Remember that the API server refused a run, which no object shows."""
        refused = ObservedRun(run, AppState.SUBMISSION_FAILED, message=words, config_map=False)
        self._refused[run.namespace, run.name] = (self._clock(), refused)

    def put(self, document: ApiObject) -> set[ResourceKey]:
        """Put an object, and return the resources that it may affect."""
        identity: ResourceKey = shared(key_of(document))
        # Watches show only metadata of a ConfigMap: its texts may come later, in the version that is known.
        texts = identity[0] == CONFIG_MAPS.name and "data" in document and self.is_known(document)
        if not self.is_newer(document) and not (texts and self.is_unread(identity[1:])):
            return set()
        before = self.uid_of(identity)
        self._note(identity, document)
        kind = identity[0]
        if kind in KINDS:
            return self._put_resource(document)
        another = before != self.uid_of(identity)
        return self._put_lease(document) if kind == LEASES.name else self._put_part(kind, document, another=another)

    def remove(self, document: ApiObject) -> set[ResourceKey]:
        """Remove an object, and return the resources that this may affect."""
        if self.is_foreign(document) or not self._note_deleted(document):
            return set()
        kind, _, name = identity = key_of(document)
        if kind in KINDS:
            return self._remove_resource(identity)
        return self._remove_lease(name) if kind == LEASES.name else self._remove_part(kind, document)

    def forget_others(
        self, kind: str, listed: Iterable[tuple[str, str]], before: Versions, unread: Collection[str] = ()
    ) -> set[ResourceKey]:
        """As for any cache; a refusal of a run is remembered as long as a deletion."""
        now = self._clock()
        self._refused = {key: one for key, one in self._refused.items() if now - one[0] < DELETED_SECONDS}
        return super().forget_others(kind, listed, before, unread)

    def _stub(self, key: ResourceKey) -> ApiObject:
        """With its labels, which name the run of an executor."""
        stub, (kind, namespace, name) = super()._stub(key), key
        for part in (part for run in self._runs.values() for part in run.parts(kind)):
            if part is not None and name_of(part) == name and namespace_of(part) == namespace:
                return {**stub, "metadata": {**metadata(stub), "labels": dict(labels_of(part))}}
        return stub

    # Resources.

    def _put_resource(self, document: ApiObject) -> set[ResourceKey]:
        identity = key_of(document)
        before = self._resources.get(identity)
        try:
            resource, problem = read(document, before, self._problems.get(identity))
        except ValidationError as error:
            _log.error("%s %s/%s can't be read: %s", *identity, error.errors()[0]["msg"])
            return set()
        key = resource.identity
        changed = before is None or matters(before) != matters(resource)
        # The change also affects resources that its old state affected.
        affected = {key} | (self._dependents(before) if before is not None and changed else set())
        self._resources[key] = resource
        self._note_named(key, before, resource)
        self._problems.pop(key, None)
        if problem is not None:
            self._problems[key] = problem
        self._references.replace(before, resource)
        named = None if isinstance(resource, ReplayJob) else {name or key[2] for _, name in current_runs(resource)}
        self.slots.replace(key, slots_of(resource, self.streams_of(resource, named)))
        return affected | (self._dependents(resource) if changed else set())

    def _remove_resource(self, key: ResourceKey) -> set[ResourceKey]:
        resource = self._resources.get(key)
        if resource is None:
            return set()
        affected = self._dependents(resource) | {key}
        del self._resources[key]
        self._note_named(key, resource, None)
        self._problems.pop(key, None)
        self._written.pop(key, None)
        self.slots.replace(key)
        self._references.remove(resource)
        return affected

    def _note_named(self, key: ResourceKey, before: Resource | None, after: Resource | None) -> None:
        for run, _ in current_runs(before) if before is not None else ():
            self._named.pop((key[1], run.name), None)
        for run, _ in current_runs(after) if after is not None else ():
            self._named[key[1], run.name] = key

    def _dependents(self, resource: Resource) -> set[ResourceKey]:
        """The resources whose decisions depend on a resource."""
        keys = set(self._references.overlapping(resource))
        for table in self._references.tables_of(resource):
            keys |= self.interested(table)
        return keys - {resource.identity}

    # Runs.

    def is_foreign(self, document: ApiObject) -> bool:
        """Whether an object is no resource, no Lease and no part of a run."""
        kind = str(document.get("kind"))
        return kind not in KINDS and kind != LEASES.name and self._run_of(kind, document) is None

    def _run_of(self, kind: str, document: ApiObject) -> RunObjects | None:
        """The run that an object belongs to, maybe without objects yet; None if it belongs to none.

        Anybody in its namespace may give an object any label and any owner. So a run is what a status or a Lease names,
        or has the name that its resource and number give it: labels only say at which resource to look. And its objects
        belong together by uid.
        """
        if (key := run_key(kind, document)) is None:
            return None
        known = self._runs.get(key)
        run = known or RunObjects()
        if not run.uid:
            owner = self._resources.get(self._named.get(key) or owner_key(document) or _NOBODY)
            if owner is not None and (key in self._named or has_numbered(owner, run_ref(document, key[1]))):
                run = replace(run, uid=sys.intern(owner.metadata.uid or ""))
            elif known is None and not self._held["/".join(key)]:
                return None
        is_part = self.uid_of(key_of(document)) == str(at(document, "metadata", "uid"))
        return run if is_part or run.owns(kind, document, self.uid(SPARK_APPLICATIONS.name, key)) else None

    def _put_part(self, kind: str, document: ApiObject, *, another: bool) -> set[ResourceKey]:
        """Put an object of a run.

        Args:
            another: whether none of this uid was known.
        """
        key = cast(RunKey, shared(run_key(kind, document)))
        known, run = self._runs.get(key), self._run_of(kind, document) or RunObjects()
        if known is not None:
            self._runs_by_uid.discard(known.uid, key)
        self._runs[key] = run
        self._runs_by_uid.add(run.uid, key)
        if another and kind == SPARK_APPLICATIONS.name:
            for dropped, name in run.drop_others(self.uid(kind, key)):
                self._versions.pop((dropped, key[0], name), None)
        run.put(kind, document)
        if self._is_past(key, run):
            # At its start an operator finds thousands of these: reduce them before their resources are reconciled.
            run.trim()
        return self._owner(key, document)

    def _is_past(self, key: RunKey, run: RunObjects) -> bool:
        """Whether a run is over and its resource's status has recorded its end.

        False if that is not certain: the ConfigMap was not seen, or the status may be older than the run.
        """
        if not run.is_over or run.application is None:
            return False
        resource = self._resources.get(owner_key(run.application) or _NOBODY)
        ref = run_ref(run.application, key[1])
        if resource is None or resource.metadata.uid != run.uid or ref is None:
            return False
        return has_recorded(resource, ref)

    def _remove_part(self, kind: str, document: ApiObject) -> set[ResourceKey]:
        key = run_key(kind, document)
        run = self._runs.get(key) if key else None
        if key is None or run is None:
            return set()
        run.remove(kind, document)
        if run.empty:
            del self._runs[key]
            self._runs_by_uid.discard(run.uid, key)
        return self._owner(key, document)

    def _owner(self, run: RunKey, document: ApiObject) -> set[ResourceKey]:
        """The resource of a run, and those that wait for the tables that it holds."""
        keys = {key for key in (self._named.get(run), owner_key(document)) if key is not None}
        for name in self._held["/".join(run)]:
            keys |= self._of_lease(self._leases[name])
        return {key for key in keys if key in self._resources}

    def _put_lease(self, document: ApiObject) -> set[ResourceKey]:
        name = name_of(document)
        affected = self._remove_lease(name) | self._of_lease(document)
        self._leases[name] = reduced(document, "spec")
        self._held.add(holder_of(document) or "", name)
        return affected

    def _remove_lease(self, name: str) -> set[ResourceKey]:
        before = self._leases.pop(name, None)
        if before is None:
            return set()
        self._held.discard(holder_of(before) or "", name)
        return self._of_lease(before)

    def _of_lease(self, lease: ApiObject) -> set[ResourceKey]:
        table = TableKey.parse(str((metadata(lease).get("annotations") or {}).get(TABLE)))
        return self.interested(table) if table else set()
