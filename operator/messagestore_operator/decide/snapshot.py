"""What a decision is made from: one immutable picture of a resource, its runs, its tables' leases and the clock.

Everything is read beforehand; nothing here reads. All times are aware, in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from messagestore_core.contract.run_document import Upkeep
from messagestore_core.contract.run_report import RunReport
from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy
from messagestore_operator.decide.needs import Uses
from messagestore_operator.decide.run_queue import RunBounds, RunQueue
from messagestore_operator.decide.windows import Window
from messagestore_operator.tenancy import Tenancy

RunKind = Literal["ingest", "purge", "erase", "replay", "maintain", "delete"]


class AppState(StrEnum):
    """The state of a run's application (a SparkApplication, say), in the words that every backend maps its own to."""

    MISSING = "Missing"
    """There is none of this name: asked of the API server itself, never concluded from a cache."""
    PENDING = "Pending"
    """It was made; its driver does not run yet."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SUBMISSION_FAILED = "SubmissionFailed"
    """It failed before there was a driver."""

    @property
    def ended(self) -> bool:
        """Whether it runs no more; its driver's pod may be there all the same."""
        return self in (AppState.SUCCEEDED, AppState.FAILED, AppState.SUBMISSION_FAILED)


CREATING = "ContainerCreating"


@dataclass(frozen=True)
class Waiting:
    """Why a pod does not run yet.

    `reason` is the container's waiting reason (ImagePullBackOff, CreateContainerConfigError, …) or `Unschedulable`;
    `CREATING` is none to worry about before it has lasted.
    """

    reason: str
    message: str = ""
    since: datetime | None = None
    """When the pod was made."""


@dataclass(frozen=True)
class DriverPod:
    """A driver's pod."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
    waiting: Waiting | None = None
    reason: str | None = None
    """Of the pod itself, such as Evicted or NodeLost."""
    message: str | None = None
    exit_code: int | None = None
    termination_reason: str | None = None
    """Of its container, such as OOMKilled."""
    termination_message: str | None = None
    deleting: bool = False
    created_at: datetime | None = None

    @property
    def gone(self) -> bool:
        """Whether its process can write no more; a pod whose node is lost is not gone."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True)
class DriverControl:
    """How a driver is controlled while it runs: `control.json` of its ConfigMap. No rate is no limit."""

    stop: bool = False
    messages_per_second: float | None = None
    maintain: Upkeep | None = None
    """Of a continuous ingest."""


@dataclass(frozen=True)
class RunRef:
    """Which run it is. A backend writes all of it on the application as labels and annotations, and reads it back."""

    namespace: str
    name: str
    number: int
    kind: RunKind
    generation: int = 1
    """Of the resource that it was made for."""
    attempt: int = 1
    stream: str | None = None
    """The MessageStream of a policy that it works on; None for other kinds."""
    continuous: bool = False

    @property
    def holder(self) -> str:
        """Its name as a lease's holder."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class ObservedRun:
    """A run of which there is an application, a ConfigMap or a pod.

    `report` is what was read as one and names this run; a report that can't be read, or names another, is None and
    `report_problem` says why.
    """

    ref: RunRef
    state: AppState
    created_at: datetime | None = None
    """Of the application; of what else there is, without one."""
    message: str = ""
    """What the application says of its failure."""
    driver: DriverPod | None = None
    """None: there is no driver pod."""
    executors_waiting: Waiting | None = None
    """What keeps executors from running; None as long as at least one runs or none is asked for."""
    report: RunReport | None = None
    report_problem: str | None = None
    config_map: bool = True
    control: DriverControl = DriverControl()
    deleting: bool = False
    """Whether the application's deletion was asked for."""

    @property
    def driver_gone(self) -> bool:
        """Whether none of its processes can write any more, as far as is known."""
        return self.driver is None or self.driver.gone

    @property
    def over(self) -> bool:
        """Whether it has ended and its driver is gone: what came of it is final, and its leases may go."""
        return (self.state.ended or self.state is AppState.MISSING) and self.driver_gone


@dataclass(frozen=True)
class Claim:
    """A current run that has, or waits for, the right to write a table."""

    holder: str
    kind: RunKind
    resource: str
    """For people, such as `MessageStream default/orders`."""
    since: datetime
    """When it was reserved: its order in the queue."""
    continuous: bool = False


@dataclass(frozen=True, order=True)
class TableKey:
    """A table of one namespace, in one spelling: all its resources that name the folder have the same key.

    Resources of another namespace have another key: between namespaces the folder's marker decides.
    """

    namespace: str
    endpoint: str
    """Of the object store; empty: the default one."""
    uri: str

    def __str__(self) -> str:
        return f"{self.namespace} {self.endpoint} {self.uri}"

    @classmethod
    def parse(cls, text: str) -> TableKey | None:
        """What `str` has made of one; None of any other text."""
        match text.split(" "):
            case [namespace, endpoint, uri]:
                return cls(namespace, endpoint, uri)
        return None


@dataclass(frozen=True)
class TableLease:
    """The right to write one table. One that was never made is the default: free, epoch 0, no resource version."""

    table: TableKey
    epoch: int = 0
    """How often it was granted: spec.leaseTransitions."""
    holder: str | None = None
    """`<namespace>/<run>`."""
    since: datetime | None = None
    """When it was taken or, free, when it was let go."""
    resource_version: str | None = None
    holder_claim: Claim | None = None
    """The claim of the resource whose status names the holder as its current run; None: nobody's does."""
    holder_run: ObservedRun | None = None
    """The holder as observed; None: it has no application, no ConfigMap and no pod.

    Where no resource claims the table, the API server itself was asked for these.
    """
    queue: tuple[Claim, ...] = ()
    """Claims of all resources on this table whose run has not been launched, in any order; this one's included."""


@dataclass(frozen=True)
class MaintenanceBounds:
    """When a stream's table is compacted and vacuumed; a bound that is None is none."""

    commits: int | None = 200
    small_files: int | None = 200
    every: timedelta | None = timedelta(days=1)


@dataclass(frozen=True)
class Defaults:
    """The operator's settings that decisions depend on."""

    start_deadline: timedelta = timedelta(minutes=15)
    """How long after its making an application's driver may take to run."""
    stop_deadline: timedelta = timedelta(minutes=15)
    """How long a run that was asked to stop may take to end."""
    backoff_base: timedelta = timedelta(seconds=10)
    backoff_max: timedelta = timedelta(minutes=10)
    yield_after: timedelta = timedelta(minutes=1)
    """How long another run waits for a table before a continuous run on it is stopped."""
    turn_after: timedelta = timedelta(seconds=30)
    """How long a free table waits for the first in its queue before the others may take it."""
    look_again: timedelta = timedelta(seconds=5)
    """Time between two reconciliations while a run is under way."""
    streams_at_once: int = 2
    """Runs of one policy at a time."""
    ended_runs: int = 3
    """Ended runs of a stream, of a replay, or of a policy and a stream, that are kept as objects."""
    deletion_bound: timedelta = timedelta(minutes=5)
    """How long a deletion waits where no run can start; then the resource goes and its data stays."""
    status_interval: timedelta = timedelta(minutes=1)
    """Time between two writes of a status of which only figures change."""
    paused: bool = False
    """Whether nothing new is launched anywhere."""
    windows: tuple[Window, ...] = ()
    """When runs other than ingests may start; none: at any time."""
    bounds: RunBounds = field(default_factory=RunBounds)
    maintenance: MaintenanceBounds = MaintenanceBounds()
    tenancy: Tenancy = field(default_factory=Tenancy)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What every kind's snapshot has."""

    now: datetime
    runs: tuple[ObservedRun, ...] = ()
    """The resource's own, by its uid, in any order; of its current runs each one that is not missing."""
    leases: Mapping[TableKey, TableLease] = field(default_factory=dict)
    """Of every table of `tables.tables_of`; one that is not in here was never made."""
    secrets: Uses | None = None
    """Which of `needs.secrets_of` exist; None: that was not checked, and a missing one shows when pods start."""
    can_run: bool = True
    """Whether pods can be made in the namespace: false while it, or what runs need in it, is being deleted."""
    spec_problems: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """What is refused of a spec, by the `identity` of its resource, whose spec is without it."""
    paused: str | None = None
    """Why no new run is launched: the operator or the namespace is paused."""
    missing_kind: str | None = None
    """The kind that runs are made as, where the cluster doesn't have it."""
    status_written: datetime | None = None
    """When this process wrote the resource's status last; None: not yet."""
    predicate_problems: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """Path and words of a predicate that is refused, by the `identity` of the resource that has it."""
    run_queue: RunQueue = field(default_factory=RunQueue)
    """The current runs of all resources, where there are limits for them."""
    defaults: Defaults = Defaults()

    def lease(self, table: TableKey) -> TableLease:
        """The lease of a table."""
        return self.leases.get(table) or TableLease(table)

    def run(self, name: str) -> ObservedRun | None:
        """One of the resource's runs; None where nothing of it is there."""
        return next((run for run in self.runs if run.ref.name == name), None)


@dataclass(frozen=True, kw_only=True)
class StreamSnapshot(Snapshot):
    """A MessageStream."""

    stream: MessageStream
    sharing: tuple[MessageStream, ...] = ()
    """Other streams, of any namespace, that name the same table folder."""
    replays: tuple[ReplayJob, ...] = ()
    """Those of its namespace that replay it and have not ended."""


@dataclass(frozen=True, kw_only=True)
class PolicySnapshot(Snapshot):
    """A RetentionPolicy."""

    policy: RetentionPolicy
    streams: tuple[MessageStream, ...] = ()
    """Those of its namespace that it names or selects and that exist."""


@dataclass(frozen=True, kw_only=True)
class ReplaySnapshot(Snapshot):
    """A ReplayJob."""

    job: ReplayJob
    stream: MessageStream | None = None
    """The one that is replayed; None: there is none of this name."""
    target: MessageStream | None = None
    """The one that the destination names, if it names one; None: there is none of this name."""
