"""A cluster in memory: resources, runs, leases and a clock; decisions are executed in it, wholly or in part."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import singledispatchmethod
from typing import Any

from messagestore_core.contract.base import RunError
from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, IngestTask, Lag
from messagestore_core.contract.purge import Preview, Purged, PurgeOutcome
from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress
from messagestore_core.contract.run_report import DeleteOutcome, MaintainOutcome, Outcome, RunReport, Usage
from messagestore_core.contract.stores import Table, TableState
from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy, parse_resource
from messagestore_operator.cluster.references import References
from messagestore_operator.decide import actions as act
from messagestore_operator.decide.actions import Decision
from messagestore_operator.decide.decision import decide
from messagestore_operator.decide.leases import first_epoch, with_requests
from messagestore_operator.decide.run_queue import ActiveRuns, RunQueue, RunSlot
from messagestore_operator.decide.snapshot import (
    AppState,
    Defaults,
    DriverControl,
    DriverPod,
    LeaseRequest,
    ObservedRun,
    PolicySnapshot,
    Reader,
    ReplaySnapshot,
    Snapshot,
    StreamSnapshot,
    TableKey,
    TableLease,
    Uses,
    Waiting,
)
from messagestore_operator.decide.tables import former_tables, lease_requests_of, reader, slots_of, table_key, tables_of
from messagestore_operator.tenancy.predicates import predicate_problems
from messagestore_operator.tenancy.settings import Tenancy
from messagestore_operator.tenancy.storage import StorageBounds

START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
OPEN = Tenancy(storage=StorageBounds(require_credentials=False))
"""For resources without Secrets, in tests about something else."""
USAGE = Usage(driver_cpu_seconds=2, executor_cpu_seconds=0.5, bytes_written=50)
"""Of each run that reports its end."""
Key = tuple[str, str, str]
FINALIZER = "messagestore.dev/data"


class Conflict(Exception):  # noqa: N818 - the API server's name
    """Something changed since the snapshot was taken."""


class Killed(Exception):  # noqa: N818
    """The operator was killed between two actions."""


@dataclass
class App:
    """A run in the cluster: its application, its driver pod and its ConfigMap."""

    create: act.CreateRun
    owner: Key
    made_at: datetime
    state: AppState = AppState.PENDING
    there: bool = True
    driver: DriverPod | None = None
    report: RunReport | None = None
    control: DriverControl = field(default_factory=DriverControl)
    executors_waiting: Waiting | None = None
    message: str = ""

    @property
    def name(self) -> str:
        return self.create.run.name

    @property
    def live(self) -> bool:
        """Whether its driver's process may write."""
        return self.driver is not None and not self.driver.gone

    def observed(self) -> ObservedRun:
        return ObservedRun(
            ref=self.create.run,
            state=self.state if self.there else AppState.MISSING,
            created_at=self.made_at,
            message=self.message,
            driver=self.driver,
            executors_waiting=self.executors_waiting,
            report=self.report if self.there else None,
            config_map=self.there,
            control=self.control,
        )


@dataclass
class Stored:
    """The content of a table that reports contain."""

    version: int = 0
    messages: int = 0
    dead: int = 0
    batches: int = 0
    position: int = 0


@dataclass
class World:
    """The whole cluster."""

    now: datetime = START
    resources: dict[Key, Resource] = field(default_factory=dict)
    apps: dict[tuple[str, str], App] = field(default_factory=dict)
    leases: dict[TableKey, TableLease] = field(default_factory=dict)
    tables: dict[str, Stored] = field(default_factory=dict)
    events: list[tuple[Key, act.EmitEvent]] = field(default_factory=list)
    launched: list[str] = field(default_factory=list)
    requeue_at: dict[Key, datetime | None] = field(default_factory=dict)
    secrets: Uses | None = None
    secrets_version: str | None = None
    can_run: bool = True
    invalid: dict[Key, str] = field(default_factory=dict)
    """Resources with a partly refused spec, and the message."""
    missing_kind: str | None = None
    paused: str | None = None
    defaults: Defaults = field(default_factory=lambda: Defaults(tenancy=OPEN, status_interval=timedelta(0)))
    written: dict[Key, datetime] = field(default_factory=dict)
    """When each status was last written."""
    version: int = 0
    line: dict[str, RunSlot] = field(default_factory=dict)
    """Reserved runs that wait for a slot."""
    starts: int = 1_000_000
    """How many runs may be started now."""
    lingers: bool = False
    """Whether pods of deleted applications continue for a while."""
    relaunched: list[str] = field(default_factory=list)
    """Runs that were launched twice: the first application was deleted before the operator had seen it."""

    # Resources, written by people.

    def apply(self, kind: str, name: str, spec: dict[str, Any], namespace: str = "default", **metadata: Any) -> Key:
        """Create or change a resource."""
        key = (kind, namespace, name)
        known = self.resources.get(key)
        generation = 1
        if known is not None:
            old = known.to_dict()["spec"]
            generation = known.metadata.generation or 1
            generation += parse_resource(_document(kind, name, namespace, spec, {})).to_dict()["spec"] != old
        stamp = known.metadata.creation_timestamp if known else _stamp(self.now)
        given = {
            "uid": f"uid-{namespace}-{name}-{kind}",
            "creationTimestamp": stamp,
            "generation": generation,
            "resourceVersion": self._next_version(),
            "finalizers": list(known.metadata.finalizers) if known else [],
            "annotations": known.metadata.annotations if known else {},
            **metadata,
        }
        document = _document(kind, name, namespace, spec, given)
        status = getattr(known, "status", None) if known else None
        if status is not None:
            document["status"] = status.to_dict()
        self.resources[key] = parse_resource(document)
        self.requeue_at[key] = self.now
        return key

    def annotate(self, key: Key, **annotations: str) -> None:
        """Set annotations; names are without the group."""
        resource = self.resources[key]
        known = dict(resource.metadata.annotations)
        known |= {f"messagestore.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
        self._put(resource, annotations=known)
        self.requeue_at[key] = self.now

    def delete(self, key: Key) -> None:
        """Request a resource's deletion; without a finalizer it and its runs are deleted at once."""
        resource = self.resources[key]
        if not resource.metadata.finalizers:
            self._remove(key)
        elif resource.metadata.deletion_timestamp is None:
            self._put(resource, deletion_timestamp=_stamp(self.now))
            self.requeue_at[key] = self.now

    def status(self, key: Key) -> Any:
        """The status of a resource."""
        return getattr(self.resources[key], "status", None)

    def ready(self, key: Key) -> tuple[str, str, str]:
        """Condition Ready: status, reason, message."""
        found = next(one for one in self.status(key).conditions if one.type == "Ready")
        return found.status, found.reason, found.message

    def reasons(self, key: Key) -> list[str]:
        """Reasons of all Events about a resource, in order."""
        return [str(event.reason) for about, event in self.events if about == key]

    # The operator.

    def snapshot(self, key: Key) -> Snapshot:
        """The snapshot of a resource."""
        resource = self.resources[key]
        streams = self._streams(resource)
        tables = {*tables_of(resource, streams)}
        if isinstance(resource, MessageStream):
            tables |= {*former_tables(resource, self._sharing(resource), self.defaults)}
        common: dict[str, Any] = {
            "now": self.now,
            "runs": tuple(app.observed() for app in self.apps.values() if app.owner == key and self._visible(app)),
            "leases": {table: self._lease(table) for table in tables},
            "secrets": self.secrets,
            "secrets_version": self.secrets_version,
            "can_run": self.can_run,
            "spec_problems": self.invalid,
            "missing_kind": self.missing_kind,
            "status_written": self.written.get(key),
            "predicate_problems": _predicate_problems([resource, *streams]),
            "paused": self.paused,
            "overlapping": self._overlapping(key),
            "run_queue": self.run_queue(),
            "defaults": self.defaults,
        }
        if isinstance(resource, MessageStream):
            referring = tuple(
                one
                for one in self.resources.values()
                if isinstance(one, RetentionPolicy | ReplayJob) and resource in self._streams(one)
            )
            return StreamSnapshot(stream=resource, sharing=self._sharing(resource), referring=referring, **common)
        if isinstance(resource, RetentionPolicy):
            readers = {table_key(stream): tuple(self._readers(stream)) for stream in streams}
            return PolicySnapshot(policy=resource, streams=tuple(streams), readers=readers, **common)
        named = {stream.metadata.name: stream for stream in streams}
        to, stream = resource.spec.target, named.get(resource.spec.stream_ref.name)
        names = {table_key(one) for one in (stream, *self._sharing(stream))} if stream else set()
        return ReplaySnapshot(
            job=resource,
            stream=stream,
            target=named.get(to.name) if to else None,
            read=tuple(self._lease(table) for table in sorted(names)),
            **common,
        )

    def _readers(self, stream: MessageStream) -> Iterator[Reader]:
        """The runs of replays that may be reading a stream's folder."""
        folder = {one.identity for one in (stream, *self._sharing(stream))}
        for job in self.resources.values():
            if not isinstance(job, ReplayJob):
                continue
            key, current = job.identity, job.status.current_run if job.status else None
            app = self.apps.get((key[1], current.name)) if current is not None else None
            made = app.observed() if app is not None else None
            if ("MessageStream", key[1], job.spec.stream_ref.name) in folder and (run := reader(job, made)):
                yield run

    def _overlapping(self, key: Key) -> tuple[Resource, ...]:
        references = References()
        for resource in self.resources.values():
            references.add(resource)
        return tuple(self.resources[one] for one in sorted(references.overlapping(self.resources[key])))

    def run_queue(self) -> RunQueue:
        """The queue of all runs, if there are limits."""
        slots = [one for each in self.resources.values() for one in slots_of(each, self._streams(each))]
        made = {f"{namespace}/{name}" for (namespace, name), app in self.apps.items() if app.there}
        under_way = tuple(one for one in slots if one.launched or one.holder in made)
        waiting = tuple(one for one in slots if one.holder in self.line and one not in under_way)
        return RunQueue(ActiveRuns(under_way), waiting, self.starts, self.defaults.bounds)

    def reconcile_once(self, key: Key, cut_after: int | None = None) -> Decision:
        """Decide and execute; after `cut_after` actions the operator is killed."""
        decision = decide(self.snapshot(key))
        self.line = {holder: slot for holder, slot in self.line.items() if slot.resource != key}
        try:
            for number, action in enumerate(decision.actions):
                if cut_after is not None and number >= cut_after:
                    raise Killed
                self.do(action, key)
        except (Conflict, Killed):
            self.requeue_at[key] = self.now
            return decision
        if key in self.resources:
            wrote = any(isinstance(action, act.WriteStatus) for action in decision.actions)
            self.requeue_at[key] = self.now if wrote else decision.requeue_at
        return decision

    def execute(self, key: Key, decision: Decision) -> None:
        """Execute a decision, from any snapshot."""
        for action in decision.actions:
            self.do(action, key)

    def reconcile(self, *keys: Key, most: int = 12) -> None:
        """Reconcile until nothing more is to be done now."""
        for _ in range(most):
            acted = False
            for key in keys or list(self.resources):
                if key in self.resources:
                    done = [one for one in self.reconcile_once(key).actions if not isinstance(one, act.AwaitRoom)]
                    acted = bool(done) or acted
            if not acted:
                return
        raise AssertionError("decisions do not come to rest")

    def wait(self, **duration: float) -> None:
        """Let time pass."""
        self.now += timedelta(**duration)

    def reconcile_after(self, **duration: float) -> None:
        """Let time pass, then reconcile."""
        self.wait(**duration)
        self.reconcile()

    # The cluster.

    def runs(self, kind: str | None = None) -> list[App]:
        """Runs that have an application, oldest first."""
        return [app for app in self.apps.values() if app.there and (kind is None or app.create.run.kind == kind)]

    def only_run(self, kind: str | None = None) -> App:
        """The one run whose application has not ended."""
        (app,) = [app for app in self.runs(kind) if not app.state.ended]
        return app

    def start(self, app: App) -> None:
        """Start a run's driver."""
        app.state, app.driver = AppState.RUNNING, DriverPod("Running")

    def start_due(self, kind: str | None = None) -> App:
        """Start the driver of the one run that is due."""
        self.reconcile()
        app = self.only_run(kind)
        self.start(app)
        return app

    def run_under_way(self, kind: str | None = None) -> App:
        """The one run that is due, which has started, as its resource's status says."""
        app = self.start_due(kind)
        self.reconcile()
        return app

    def finish(self, app: App, error: RunError | None = None, outcome: Outcome | None = None) -> None:
        """End a run, with a report."""
        app.report = self.report(
            app, "Failed" if error else "Succeeded", outcome if error else outcome or self.outcome(app), error
        )
        app.state = AppState.FAILED if error else AppState.SUCCEEDED
        app.driver = DriverPod("Failed" if error else "Succeeded", exit_code=1 if error else 0)
        self._requeue_all()

    def die(self, app: App, **driver: Any) -> None:
        """Kill a run's driver, without a report."""
        app.state, app.driver = AppState.FAILED, DriverPod("Failed", **driver)

    def lose(self, app: App) -> None:
        """Delete a run's application, and its pods with it, at once or later."""
        app.there = False
        if app.driver is None or not self.lingers:
            app.driver = None
        else:
            app.driver = replace(app.driver, deleting=True)

    def report(self, app: App, state: Any, outcome: Outcome | None = None, error: RunError | None = None) -> RunReport:
        sequence = app.report.sequence + 1 if app.report else 1
        ended = None if state == "Running" else self.now
        return RunReport(
            run=app.name,
            sequence=sequence,
            state=state,
            started_at=app.made_at,
            finished_at=ended,
            outcome=outcome,
            error=error,
            usage=USAGE if ended else None,
        )

    def outcome(self, app: App) -> Outcome:
        """The outcome of a successful run of its kind."""
        document = app.create.document
        stored = self.tables.setdefault(document.table.uri, Stored())
        stored.version += 1
        table = self.table(app)
        kind = document.task.kind
        if isinstance(document.task, IngestTask):
            stored.messages += 10
            counts = IngestCounts(received=10, stored=10)
            stored.position += 10
            totals = IngestCounts(received=stored.position, stored=stored.position)
            return IngestOutcome(
                counts=counts, totals=totals, batches=1, table=self.table(app), lag=Lag(as_of=self.now)
            )
        if kind == "maintain":
            return MaintainOutcome(
                files_before=1,
                files_after=1,
                bytes_before=1,
                bytes_after=1,
                table_version_before=stored.version - 1,
                table_version_after=stored.version,
                table=table,
            )
        if kind == "delete":
            self.tables.pop(document.table.uri)
            return DeleteOutcome()
        if kind == "replay":
            return self.replayed(app)
        return self.purged(app)

    def replayed(self, app: App) -> ReplayOutcome:
        """The report of a replay; a redrive marks its dead letters."""
        document, changes = app.create.document, dict[str, TableState]()
        task: Any = document.task
        if isinstance(task.destination, StreamDestination) and task.mode != "DryRun":
            target = self.tables.setdefault(task.destination.table.uri, Stored())
            target.messages, target.position = target.messages + 5, target.position + 5
            changes["target_table"] = self.table(app, task.destination.table)
            if task.origin == "DeadLetters":
                origin = self.tables[document.table.uri]
                origin.dead = max(origin.dead - 5, 0)
                changes["table"] = self.table(app)
        selection = FrozenSelection(table_version=1, messages=5, bytes=5)
        progress = ReplayProgress(replayed=5, percent=100)
        return ReplayOutcome(selection=selection, progress=progress, complete=True, **changes)

    def purged(self, app: App, waiting: bool = False, preview: str = "preview-1", **done: Any) -> PurgeOutcome:
        """The report of a purge."""
        task: Any = app.create.document.task
        seen = Preview(id=preview, table_version=1, as_of=self.now, messages=4, bytes=4)
        given = {"purged": 4, **done}
        purge = Purged(run=app.name, at=self.now, table_version_before=1, table_version_after=2, **given)
        does = not waiting and getattr(task, "mode", "Enforce") == "Enforce"
        if does:
            stored = self.tables.setdefault(app.create.document.table.uri, Stored())
            stored.messages = max(stored.messages - purge.purged, 0)
        return PurgeOutcome(
            preview=seen, purge=purge if does else None, awaiting_approval=waiting, table=self.table(app)
        )

    def table(self, app: App, table: Table | None = None) -> TableState:
        """The store as the end of a run finds it; the newest messages are the first to be purged."""
        table = table or app.create.document.table
        stored = self.tables.setdefault(table.uri, Stored())
        return TableState(
            version=stored.version,
            messages=stored.messages,
            dead_letters=stored.dead,
            bytes=1,
            last_global_position=stored.messages or None,
            epoch=table.epoch,
        )

    def held(self, uri: str, namespace: str = "default") -> TableLease:
        """The lease of a table at the default endpoint."""
        table = TableKey(namespace, "", uri)
        return self.leases.get(table) or TableLease(table)

    def writers(self, uri: str) -> list[App]:
        """Runs whose driver may write a table now."""
        return [app for app in self.apps.values() if app.live and uri in written(app)]

    # How actions change the cluster.

    @singledispatchmethod
    def do(self, action: act.Action, key: Key) -> None:
        raise NotImplementedError(type(action).__name__)

    @do.register
    def _(self, action: act.WriteStatus, key: Key) -> None:
        resource = self.resources[key]
        if action.resource_version != resource.metadata.resource_version:
            raise Conflict
        self.written[key] = self.now
        if self.status(key) is None or action.status.to_dict() != self.status(key).to_dict():
            self._put(resource, status=action.status)

    @do.register
    def _(self, action: act.AcquireLease, key: Key) -> None:
        lease = self.leases.get(action.table, TableLease(action.table))
        if lease.resource_version != action.resource_version:
            raise Conflict
        assert action.epoch > lease.epoch, "an epoch is given once"
        self.leases[action.table] = TableLease(
            action.table, action.epoch, action.holder, self.now, self._next_version()
        )

    @do.register
    def _(self, action: act.ReleaseLease, key: Key) -> None:
        lease = self.leases.get(action.table)
        if lease is not None and lease.holder == action.holder:
            free = replace(lease, holder=None, since=self.now, resource_version=self._next_version())
            self.leases[action.table] = free
            self._requeue_all()

    @do.register
    def _(self, action: act.AwaitRoom, key: Key) -> None:
        self.line[action.slot.holder] = action.slot

    @do.register
    def _(self, action: act.CreateRun, key: Key) -> None:
        where = (action.run.namespace, action.run.name)
        known = self.apps.get(where)
        if known is None or not known.there:
            self.relaunched += [action.run.name] if known is not None else []
            self.launched.append(action.run.name)
            self.apps[where] = App(action, key, self.now, control=action.control)

    @do.register
    def _(self, action: act.DeleteRun, key: Key) -> None:
        app = self.apps.get((action.namespace, action.name))
        if app is not None and app.there:
            # A run may end itself while it is being ended: then the reason for ending it is recorded.
            current = {run.name for run in current_runs(self.status(key)) if run.ending is None}
            assert not app.state.ended or app.name not in current, "what came of a run is recorded before it is deleted"
            self.lose(app)
            self._requeue_all()

    @do.register
    def _(self, action: act.SetControl, key: Key) -> None:
        self.apps[action.namespace, action.name].control = action.control

    @do.register
    def _(self, action: act.LogRun, key: Key) -> None:
        """Nothing in the cluster changes."""

    @do.register
    def _(self, action: act.EmitEvent, key: Key) -> None:
        self.events.append((key, action))

    @do.register
    def _(self, action: act.AddFinalizer, key: Key) -> None:
        resource = self.resources[key]
        self._put(resource, bump=False, finalizers=(*resource.metadata.finalizers, FINALIZER))

    @do.register
    def _(self, action: act.RemoveFinalizer, key: Key) -> None:
        resource = self.resources[key]
        self._put(resource, bump=False, finalizers=())
        if resource.metadata.deletion_timestamp is not None:
            self._remove(key)

    @do.register
    def _(self, action: act.DeleteResource, key: Key) -> None:
        self._remove(key)

    def _put(self, resource: Resource, bump: bool = True, status: Any = None, **metadata: Any) -> None:
        version = {"resource_version": self._next_version()} if bump else {}
        changed = resource.metadata.model_copy(update={**metadata, **version})
        update: dict[str, Any] = {"metadata": changed, **({"status": status} if status is not None else {})}
        self.resources[resource.identity] = resource.model_copy(update=update)

    def _remove(self, key: Key) -> None:
        self.resources.pop(key, None)
        self.requeue_at.pop(key, None)
        for app in self.apps.values():
            if app.owner == key:
                self.lose(app)
        self._requeue_all()

    def _requeue_all(self) -> None:
        """Let the watches see all changes."""
        self.requeue_at = dict.fromkeys(self.requeue_at, self.now)

    def _visible(self, app: App) -> bool:
        return app.there or app.driver is not None

    def _streams(self, resource: Resource) -> list[MessageStream]:
        streams = [
            other
            for other in self.resources.values()
            if isinstance(other, MessageStream) and other.metadata.namespace == resource.metadata.namespace
        ]
        if isinstance(resource, MessageStream):
            return [resource]
        if isinstance(resource, RetentionPolicy):
            selector = resource.spec.stream_selector
            if selector is not None:
                wanted = selector.match_labels.items()
                return [stream for stream in streams if wanted <= stream.metadata.labels.items()]
            names = {ref.name for ref in resource.spec.stream_refs}
        else:
            to = resource.spec.target
            names = {resource.spec.stream_ref.name, *([to.name] if to else [])}
        return [stream for stream in streams if stream.metadata.name in names]

    def _sharing(self, stream: MessageStream) -> tuple[MessageStream, ...]:
        def folder(of: MessageStream) -> tuple[str, str]:
            return table_key(of).endpoint, table_key(of).uri

        others = (other for other in self.resources.values() if isinstance(other, MessageStream))
        return tuple(other for other in others if other.identity != stream.identity and folder(other) == folder(stream))

    def _lease_requests(self, wanted: TableKey) -> Iterator[tuple[LeaseRequest, bool]]:
        for resource in self.resources.values():
            for table, request, waits in lease_requests_of(resource, self._streams(resource)):
                if table == wanted:
                    yield request, waits

    def _lease(self, table: TableKey) -> TableLease:
        absent = TableLease(table, epoch=first_epoch(self.now))
        lease = with_requests(self.leases.get(table, absent), list(self._lease_requests(table)))
        where = tuple((lease.holder or "/").split("/"))
        app = self.apps.get((where[0], where[1]))
        return replace(
            lease,
            holder_run=app.observed() if app is not None and self._visible(app) else None,
        )

    def _next_version(self) -> str:
        self.version += 1
        return str(self.version)


def current_runs(status: Any) -> list[Any]:
    """The current runs in a status."""
    entries = getattr(status, "streams", None)
    holders = [status] if entries is None else entries
    return [holder.current_run for holder in holders if holder is not None and holder.current_run is not None]


def stream(world: World, name: str = "orders", namespace: str = "default", **more: Any) -> Key:
    """Apply a stream of team a that runs when it is asked to."""
    spec = {
        "table": {"uri": f"s3a://lake/{name}"},
        "source": {"files": {"uri": f"s3a://landing/{name}/"}},
        "trigger": {"manual": {}},
    }
    return world.apply("MessageStream", name, {**spec, **more}, namespace, labels={"team": "a"})


def run_once(world: World, **how: Any) -> str:
    """Let the one due run start and end; returns its name."""
    app = world.run_under_way()
    world.finish(app, **how)
    world.reconcile()
    return app.name


def contents(world: World, key: Key) -> tuple[int, int]:
    """The messages and the last position in a stream's status."""
    table = world.status(key).table
    return table.messages, table.last_global_position


def written(app: App) -> Iterable[str]:
    """The tables that a run writes: those with an epoch."""
    document = app.create.document
    tables = [document.table]
    to = getattr(document.task, "destination", None)
    if to is not None and to.kind == "stream":
        tables.append(to.table)
    return [table.uri for table in tables if table.epoch is not None]


def _document(kind: str, name: str, namespace: str, spec: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec,
    }


def _stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _predicate_problems(resources: Iterable[Resource]) -> dict[Key, str]:
    """The first refused predicate of each resource, in words."""
    found: dict[Key, str] = {}
    for resource in resources:
        for path, words in predicate_problems(resource.to_dict()):
            found.setdefault(resource.identity, f"{'.'.join(map(str, path))}: {words}")
    return found
