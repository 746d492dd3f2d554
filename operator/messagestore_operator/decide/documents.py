"""The objects of a reserved run: its document, the Secrets that its pods need, its labels and annotations.

As in ``translate``, NotSupportedError says what this release can't do.
"""

from collections.abc import Mapping

from messagestore_core.addresses import Reach
from messagestore_core.contract.destinations import Destination, StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.replay import ReplayTask, RoutesDestination
from messagestore_core.contract.run_document import DeleteTask, MaintainTask, RunDocument
from messagestore_core.contract.stores import FormerOwner, Table
from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy
from messagestore_operator.api.status import CurrentRun, FinishedRun
from messagestore_operator.decide.actions import CreateRun
from messagestore_operator.decide.maintenance import oldest_replay
from messagestore_operator.decide.run_lifecycle import run_ref
from messagestore_operator.decide.snapshot import DriverControl, StreamSnapshot, TableKey
from messagestore_operator.status.runs import ran_out_of_memory
from messagestore_operator.tenancy.adoption import former_owners
from messagestore_operator.translate.common import holds_of, resource_of, table_of
from messagestore_operator.translate.ingest import ingest_document
from messagestore_operator.translate.kafka import ingest_access, replay_access
from messagestore_operator.translate.purge import erase_document, purge_document
from messagestore_operator.translate.replay import Routes, replay_document
from messagestore_operator.translate.secrets import scrub_keys
from messagestore_operator.translate.storage import purge_access, table_access

Epochs = Mapping[TableKey, int]


def stream_run(snapshot: StreamSnapshot, current: CurrentRun, epochs: Epochs) -> CreateRun:
    """A stream's own run: it ingests messages, maintains the tables, or deletes them."""
    stream = snapshot.stream
    continuous = stream.spec.trigger.continuous if current.kind == "ingest" else None
    if current.kind == "ingest":
        document, access = ingest_document(stream, current.name, None, _former(snapshot)), ingest_access(stream)
        if continuous is not None:
            assert isinstance(document.task, IngestTask)
            task = document.task.model_copy(update={"batch_interval": continuous.batch_interval.timedelta})
            document = document.model_copy(update={"task": task})
    else:
        access = table_access(stream)
        document = RunDocument(
            run=current.name,
            resource=resource_of(stream),
            table=table_of(stream, _former(snapshot)),
            storage=access.entries,
            task=_upkeep(snapshot, current),
        )
    return CreateRun(
        run=run_ref(
            stream,
            current,
            continuous=continuous is not None,
            secrets_version=snapshot.secrets_version if continuous is not None else None,
        ),
        document=_with_epochs(document, epochs),
        control=DriverControl(),
        access=access,
        spark=stream.spec.spark,
        always_executors=_needs_executors(current, stream.status.last_run if stream.status else None),
    )


def policy_run(policy: RetentionPolicy, stream: MessageStream, current: CurrentRun, epochs: Epochs) -> CreateRun:
    """A policy's run on one of its streams."""
    make = erase_document if current.kind == "erase" else purge_document
    document = make(policy, stream, current.name, None)
    hashes = isinstance(document.task, PurgeTask)
    entries = policy.status.streams if policy.status else ()
    last = next((entry.last_run for entry in entries if entry.name == stream.metadata.name), None)
    return CreateRun(
        run=run_ref(policy, current, stream=stream.metadata.name),
        document=_with_epochs(document, epochs),
        control=DriverControl(),
        access=purge_access(policy, stream),
        variables=tuple(scrub_keys(policy)) if hashes else (),
        spark=policy.spec.spark,
        always_executors=_needs_executors(current, last),
    )


def replay_run(
    job: ReplayJob,
    stream: MessageStream,
    target: MessageStream | None,
    current: CurrentRun,
    secrets_version: str | None,
    addresses: Reach,
    routes: Routes | None,
    epochs: Epochs,
) -> CreateRun:
    """A run of a replay; ``addresses`` are those that an HTTP endpoint's name may stand for."""
    document = replay_document(job, stream, target, current.name, None, addresses, routes)
    goes_on = job.spec.goes_on
    if goes_on:
        document = _continuous(document)
    return CreateRun(
        run=run_ref(job, current, continuous=goes_on, secrets_version=secrets_version if goes_on else None),
        document=_with_epochs(document, epochs),
        control=DriverControl(messages_per_second=rate(job)),
        access=replay_access(job, stream, target),
        spark=job.spec.spark,
        # One that goes on has little to do at a time.
        always_executors=(job.spec.spark is not None and job.spec.spark.executor is not None)
        if goes_on
        else _needs_executors(current, job.status.last_run if job.status else None),
    )


def _continuous(document: RunDocument) -> RunDocument:
    """The document of a run that goes on; by itself a document is of a run that ends, as on a machine."""
    task = document.task
    assert isinstance(task, ReplayTask)
    assert task.subscription is not None
    subscription = task.subscription.model_copy(update={"continuous": True})
    return document.model_copy(update={"task": task.model_copy(update={"subscription": subscription})})


def rate(job: ReplayJob) -> float | None:
    """How many messages per second a replay may send; None: no limit."""
    return float(job.spec.rate_limit.messages_per_second) if job.spec.rate_limit else None


def _needs_executors(current: CurrentRun, last: FinishedRun | None) -> bool:
    """Whether a run has executors for little work too: before, its driver may have had no memory for that work."""
    return current.attempt > 1 or ran_out_of_memory(last)


def _former(snapshot: StreamSnapshot) -> tuple[FormerOwner, ...]:
    return former_owners(snapshot.stream, snapshot.sharing, snapshot.defaults.tenancy.adoptions)


def _upkeep(snapshot: StreamSnapshot, current: CurrentRun) -> MaintainTask | DeleteTask:
    if current.kind == "delete":
        return DeleteTask(holds=holds_of(snapshot.stream))
    return MaintainTask(oldest_replay=oldest_replay(snapshot))


def _with_epochs(document: RunDocument, epochs: Epochs) -> RunDocument:
    """The document with the epoch of each table that it may write."""
    table, task = _granted(document.table, epochs), document.task
    if isinstance(task, ReplayTask):
        task = task.model_copy(update={"destination": _of_epochs(task.destination, epochs)})
    return document.model_copy(update={"table": table, "task": task})


def _of_epochs(to: Destination | RoutesDestination, epochs: Epochs) -> Destination | RoutesDestination:
    """A destination with the epoch of a stream's table, which may be one of several."""
    if isinstance(to, StreamDestination):
        return to.model_copy(update={"table": _granted(to.table, epochs)})
    if isinstance(to, RoutesDestination):
        each = [one.model_copy(update={"destination": _of_epochs(one.destination, epochs)}) for one in to.routes]
        return to.model_copy(update={"routes": tuple(each)})
    return to


def _granted(table: Table, epochs: Epochs) -> Table:
    # All tables are in one namespace, and a run has one storage entry per bucket.
    granted = {key.uri: epoch for key, epoch in epochs.items()}
    return table.model_copy(update={"epoch": granted.get(table.uri)})
