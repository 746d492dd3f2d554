"""The input of a decision: an immutable snapshot of a resource, its runs, its tables' leases and the clock.

All data is read beforehand; nothing here reads. All times are aware, in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from messagestore_core.contract.ingest import Upkeep
from messagestore_core.contract.run_report import RunReport
from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.decide.run_queue import RunBounds, RunQueue
from messagestore_operator.decide.schedule import Window
from messagestore_operator.status.policy import BLOCKED_AFTER
from messagestore_operator.tenancy.settings import Tenancy

Uses = Mapping[str, frozenset[str]]
"""Existing Secrets by name, each with the uses that its label allows."""
RunKind = Literal["ingest", "purge", "erase", "replay", "maintain", "delete"]


class AppState(StrEnum):
    """The state of a run's application, a SparkApplication."""

    MISSING = "Missing"
    """There is no such application; the API server itself said so, not a cache."""
    PENDING = "Pending"
    """It was created; its driver does not run yet."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SUBMISSION_FAILED = "SubmissionFailed"
    """It failed before there was a driver."""

    @property
    def ended(self) -> bool:
        """Whether it has ended; its driver pod may still exist."""
        return self in (AppState.SUCCEEDED, AppState.FAILED, AppState.SUBMISSION_FAILED)


CREATING = "ContainerCreating"
REFUSED = "FailedCreate"


@dataclass(frozen=True)
class Waiting:
    """Why a pod does not run yet.

    ``reason`` is the container's waiting reason (ImagePullBackOff, CreateContainerConfigError, …), ``Unschedulable``,
    or ``REFUSED`` if the API server doesn't let it be created; ``CREATING`` is a problem only if it lasts.
    """

    reason: str
    message: str = ""
    since: datetime | None = None
    """When the pod was created, or first refused."""


@dataclass(frozen=True)
class DriverPod:
    """A driver's pod."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
    waiting: Waiting | None = None
    reason: str | None = None
    """The pod's own reason, such as Evicted or NodeLost."""
    message: str | None = None
    exit_code: int | None = None
    termination_reason: str | None = None
    """The container's reason, such as OOMKilled."""
    termination_message: str | None = None
    deleting: bool = False
    created_at: datetime | None = None
    started_at: datetime | None = None
    """When its container started, by its node's clock."""

    @property
    def gone(self) -> bool:
        """Whether its process can't write any more. A pod whose node is lost is not gone."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True)
class DriverControl:
    """How a driver is controlled while it runs: ``control.json`` of its ConfigMap. Without a rate there is no limit."""

    stop: bool = False
    messages_per_second: float | None = None
    maintain: Upkeep | None = None
    """Only for a continuous ingest."""


@dataclass(frozen=True)
class RunRef:
    """Identifies a run. A backend writes it to the application's labels and annotations, and reads it from there."""

    namespace: str
    name: str
    number: int
    kind: RunKind
    generation: int = 1
    """Generation of the resource that it was created for."""
    attempt: int = 1
    stream: str | None = None
    """The MessageStream that a policy's run works on; None for other kinds."""
    continuous: bool = False
    secrets_version: str | None = None
    """The version of its Secrets when a continuous run was created; None: not known."""

    @property
    def holder(self) -> str:
        """The holder's name in a lease."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class ObservedRun:
    """A run that has an application, a ConfigMap or a pod.

    ``report`` is None if it can't be read or names another run; then ``report_problem`` says why.
    """

    ref: RunRef
    state: AppState
    created_at: datetime | None = None
    """When its application was created, or without one, its other objects."""
    message: str = ""
    """The application's message about its failure."""
    driver: DriverPod | None = None
    """None: there is no driver pod."""
    executors_waiting: Waiting | None = None
    """Why executors don't run; None if at least one runs or none was requested."""
    report: RunReport | None = None
    report_problem: str | None = None
    config_map: bool = True
    control: DriverControl = DriverControl()
    deleting: bool = False
    """Whether the application's deletion was requested."""

    @property
    def driver_gone(self) -> bool:
        """Whether its driver can't write any more, as far as is known."""
        return self.driver is None or self.driver.gone

    @property
    def over(self) -> bool:
        """Whether it has ended and its driver is gone: its outcome is final, and its leases can be released."""
        return (self.state.ended or self.state is AppState.MISSING) and self.driver_gone


@dataclass(frozen=True)
class LeaseRequest:
    """A current run that has, or waits for, the Lease of a table."""

    holder: str
    kind: RunKind
    resource: str
    """For people, such as ``MessageStream default/orders``."""
    since: datetime
    """When it was reserved: its order in the queue."""
    tombstones: int | None = None
    """Of an erasure: the version of table tombstones that has all that it erases; None: not known."""


@dataclass(frozen=True)
class Reader:
    """The run of a replay that may be reading a table."""

    words: str
    """For people."""
    tombstones: int | None = None
    """Of a continuous one: it sends nothing any more that this version of table tombstones has erased."""

    def lets_erase(self, tombstones: int | None) -> bool:
        """Whether what these tombstones have may be erased while it goes on."""
        return None not in (tombstones, self.tombstones) and (self.tombstones or 0) >= (tombstones or 0)


@dataclass(frozen=True, order=True, slots=True)
class TableKey:
    """A table of one namespace in a normal form: all its resources that name the folder have the same key.

    Resources of another namespace have another key: between namespaces the folder's marker decides.
    """

    namespace: str
    endpoint: str
    """The object store's endpoint; empty: the default."""
    uri: str

    def __str__(self) -> str:
        return f"{self.namespace} {self.endpoint} {self.uri}"

    @classmethod
    def parse(cls, text: str) -> TableKey | None:
        """The key that ``str`` wrote; None for other texts."""
        match text.split(" "):
            case [namespace, endpoint, uri]:
                return cls(namespace, endpoint, uri)
        return None


@dataclass(frozen=True)
class TableLease:
    """The right to write one table. Without a Lease it is the default: free, epoch 0, no resource version."""

    table: TableKey
    epoch: int = 0
    """How often it was granted: spec.leaseTransitions."""
    holder: str | None = None
    """``<namespace>/<run>``."""
    since: datetime | None = None
    """When it was acquired or, if it is free, released."""
    resource_version: str | None = None
    holder_request: LeaseRequest | None = None
    """The request of the resource whose status names the holder as its current run; None: no status does."""
    holder_run: ObservedRun | None = None
    """The holder as observed; None: it has no application, no ConfigMap and no pod.

    If no resource requests the table, this comes from the API server itself.
    """
    queue: tuple[LeaseRequest, ...] = ()
    """Requests for this table by runs that have not been launched, of all resources and this one, in any order."""


@dataclass(frozen=True)
class MaintenanceBounds:
    """When a stream's table is compacted and vacuumed; None: no such limit."""

    commits: int | None = 200
    small_files: int | None = 200
    every: timedelta | None = timedelta(days=1)


@dataclass(frozen=True)
class Defaults:
    """The operator's settings that decisions depend on."""

    start_deadline: timedelta = timedelta(minutes=15)
    """How long an application's driver may take to start."""
    stop_deadline: timedelta = timedelta(minutes=15)
    """How long a run that was asked to stop may take to end."""
    backoff_base: timedelta = timedelta(seconds=10)
    backoff_max: timedelta = timedelta(minutes=10)
    erasure_after: timedelta = timedelta(minutes=1)
    """How long an erasure waits for a continuous replay to say that it knows the tombstones, until that is stopped."""
    yield_after: timedelta = timedelta(minutes=1)
    """How long another run waits for a table before a continuous run on it is stopped."""
    turn_after: timedelta = timedelta(seconds=30)
    """How long a free table waits for the first in its queue before the others may take it."""
    stalled_after: timedelta = timedelta(minutes=15)
    """How long a failure that only somebody can end may last until its resource is stalled."""
    retention_blocked_after: timedelta = BLOCKED_AFTER
    """How long messages may wait for a subscription until their policy says so."""
    poll_interval: timedelta = timedelta(seconds=5)
    """Time between two reconciliations while a run is in progress."""
    streams_at_once: int = 2
    """Maximum concurrent runs of one policy."""
    ended_runs: int = 3
    """Ended runs whose objects are kept, for each stream, each replay, and each stream of a policy."""
    deletion_bound: timedelta = timedelta(minutes=5)
    """How long a deletion waits if no run can start; then the resource goes and its data stays."""
    status_interval: timedelta = timedelta(minutes=1)
    """Minimum time between writes of a status in which only figures change."""
    paused: bool = False
    """Whether no new run is launched anywhere."""
    windows: tuple[Window, ...] = ()
    """When runs other than ingests may start; none: at any time."""
    bounds: RunBounds = field(default_factory=RunBounds)
    maintenance: MaintenanceBounds = MaintenanceBounds()
    tenancy: Tenancy = field(default_factory=Tenancy)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The common part of all snapshots."""

    now: datetime
    runs: tuple[ObservedRun, ...] = ()
    """The resource's own runs, by its uid, in any order; includes all its current runs that exist."""
    leases: Mapping[TableKey, TableLease] = field(default_factory=dict)
    """The leases of all tables of ``tables.tables_of``; those that are absent don't exist."""
    secrets: Uses | None = None
    """Which of ``blockers.secrets_of`` exist; None: not checked, and a missing Secret shows when pods start."""
    secrets_version: str | None = None
    """Another text after each change of the Secrets of a continuous stream's runs; None: not known."""
    can_run: bool = True
    """Whether pods can be created in the namespace: false while it, or what runs need in it, is being deleted."""
    spec_problems: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """Refused values of specs, by ``identity`` of the resource; its spec here lacks them."""
    paused: str | None = None
    """Why no new run is launched: the operator or the namespace is paused."""
    missing_kind: str | None = None
    """The kind that runs are created as, if the cluster lacks it."""
    status_written: datetime | None = None
    """When this process last wrote the resource's status; None: not yet."""
    predicate_problems: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """Path and error of a refused predicate, by ``identity`` of its resource."""
    overlapping: tuple[Resource, ...] = ()
    """Other resources of its namespace with a folder that is, is in, or contains one of its own."""
    run_queue: RunQueue = field(default_factory=RunQueue)
    """The current runs of all resources, if there are limits for them."""
    defaults: Defaults = Defaults()

    @property
    def resource(self) -> MessageStream | RetentionPolicy | ReplayJob:
        """The resource that the decision is about."""
        raise NotImplementedError

    def lease(self, table: TableKey) -> TableLease:
        """The lease of a table."""
        return self.leases.get(table) or TableLease(table)

    def run(self, name: str) -> ObservedRun | None:
        """One of the resource's runs; None if it has no objects."""
        return next((run for run in self.runs if run.ref.name == name), None)


@dataclass(frozen=True, kw_only=True)
class StreamSnapshot(Snapshot):
    """The snapshot of a MessageStream."""

    stream: MessageStream
    sharing: tuple[MessageStream, ...] = ()
    """Other streams, of any namespace, that name the same table folder."""
    replays: tuple[ReplayJob, ...] = ()
    """ReplayJobs of its namespace that replay it and have not ended."""
    referring: tuple[RetentionPolicy | ReplayJob, ...] = ()
    """RetentionPolicies and ReplayJobs, ended ones too, that name or select it."""

    @property
    def resource(self) -> MessageStream:
        """The stream."""
        return self.stream


@dataclass(frozen=True, kw_only=True)
class PolicySnapshot(Snapshot):
    """The snapshot of a RetentionPolicy."""

    policy: RetentionPolicy
    streams: tuple[MessageStream, ...] = ()
    """Existing streams of its namespace that it names or selects."""
    readers: Mapping[TableKey, tuple[Reader, ...]] = field(default_factory=dict)
    """The runs of replays, of any namespace, that may be reading a table of these streams."""

    @property
    def resource(self) -> RetentionPolicy:
        """The policy."""
        return self.policy


@dataclass(frozen=True, kw_only=True)
class ReplaySnapshot(Snapshot):
    """The snapshot of a ReplayJob."""

    job: ReplayJob
    stream: MessageStream | None = None
    """The stream that is replayed; None: it doesn't exist."""
    target: MessageStream | None = None
    """The destination's stream; None: it doesn't exist, or the destination is no stream."""
    read: tuple[TableLease, ...] = ()
    """The leases of the table that it reads, in each namespace with a stream that names the folder."""

    @property
    def resource(self) -> ReplayJob:
        """The replay."""
        return self.job
