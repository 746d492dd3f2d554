"""Which tables a resource's runs write, their keys, and who requests them."""

from collections.abc import Iterable, Iterator, Mapping

from messagestore_core.contract.replay import ReplayOutcome
from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.api.status import CurrentRun
from messagestore_operator.decide.run_queue import RunSlot
from messagestore_operator.decide.snapshot import Defaults, LeaseRequest, ObservedRun, Reader, RunKind, TableKey
from messagestore_operator.tenancy.adoption import givers
from messagestore_operator.translate.folders import endpoint_key
from messagestore_operator.translate.storage import job_uri


def table_key(stream: MessageStream) -> TableKey:
    """The table of a stream."""
    uri, storage = stream.spec.table.uri, stream.spec.storage
    return TableKey(stream.metadata.namespace, endpoint_key(storage), job_uri(uri).rstrip("/"))


def tables_of(resource: Resource, streams: Iterable[MessageStream]) -> frozenset[TableKey]:
    """All tables that runs of the resource may write; its snapshot has their leases.

    Args:
        streams: existing streams of its namespace that it refers to; for a stream, itself.
    """
    if isinstance(resource, MessageStream):
        return frozenset({table_key(resource)})
    existing = list(streams)
    if isinstance(resource, RetentionPolicy):
        return frozenset(map(table_key, existing))
    assert isinstance(resource, ReplayJob)
    named = {stream.metadata.name: stream for stream in existing}
    return frozenset(replay_tables(resource, named))


def former_tables(stream: MessageStream, sharing: Iterable[MessageStream], defaults: Defaults) -> tuple[TableKey, ...]:
    """The keys of a stream's table in the namespaces that have released it to this one."""
    return tuple(map(table_key, givers(stream, sharing, defaults.tenancy.adoptions)))


def replay_tables(job: ReplayJob, streams: Mapping[str, MessageStream]) -> list[TableKey]:
    """The tables that a replay writes, in a fixed order so that two runs never wait for each other.

    A replay to files writes none; a redrive into a stream marks its dead letters as sent, a redelivery its messages as
    being retried.
    """
    to = job.spec.target
    if job.spec.mode == "DryRun":
        return []
    notes = job.spec.select.due_for_retry or (to is not None and job.spec.origin == "DeadLetters")
    names = {*([to.name] if to else []), *([job.spec.stream_ref.name] if notes else [])}
    return sorted({table_key(streams[name]) for name in names if name in streams})


def lease_requests_of(
    resource: Resource, streams: Iterable[MessageStream]
) -> Iterator[tuple[TableKey, LeaseRequest, bool]]:
    """The tables that a resource's current runs have or wait for.

    A snapshot has the requests of all resources for a table: waiting ones are the lease's queue, and the holder's
    is found by its name.

    Returns:
        The table, the request, and whether it waits: its run has not been launched.
    """
    known = {stream.metadata.name: stream for stream in streams}
    for run, stream in _requested_runs(resource):
        for table in _written(resource, run, stream, known):
            yield table, lease_request_of(resource, run), run.launched_at is None


def lease_request_of(resource: Resource, run: CurrentRun) -> LeaseRequest:
    """The request of a current run for the tables that it writes."""
    kind, namespace, name = resource.identity
    assert run.requested_at is not None
    return LeaseRequest(
        holder=f"{namespace}/{run.name}",
        kind=_kind(run),
        resource=f"{kind} {namespace}/{name}",
        since=run.requested_at.datetime,
        tombstones=_erased_by(resource, run),
    )


def _erased_by(resource: Resource, run: CurrentRun) -> int | None:
    """The version of table tombstones with all that a policy's erasure erases."""
    entries = resource.status.streams if isinstance(resource, RetentionPolicy) and resource.status else ()
    purges = [one.last_purge for one in entries if one.current_run is not None and one.current_run.name == run.name]
    return purges[0].tombstones_version if purges and purges[0] is not None and run.kind == "erase" else None


def slots_of(resource: Resource, streams: Iterable[MessageStream]) -> Iterator[RunSlot]:
    """The slots of a resource's current runs; ``streams`` as in ``tables_of``."""
    known = {stream.metadata.name: stream for stream in streams}
    for run, name in _requested_runs(resource):
        on = known.values() if name is None else filter(None, [known.get(name)])
        yield slot_of(resource, run, on)


def slot_of(resource: Resource, run: CurrentRun, on: Iterable[MessageStream]) -> RunSlot:
    """The slot of a current run that works on the stores of these streams."""
    assert run.requested_at is not None
    return RunSlot(
        holder=f"{resource.metadata.namespace}/{run.name}",
        resource=resource.identity,
        endpoints=frozenset(table_key(stream).endpoint for stream in on),
        since=run.requested_at.datetime,
        launched=run.launched_at is not None,
    )


def reader(job: ReplayJob, made: ObservedRun | None) -> Reader | None:
    """The run of a replay that may be reading its stream's table; None if there is none.

    Args:
        made: its current run, if that has objects, though the status may not say yet that it was launched.
    """
    run = job.status.current_run if job.status else None
    if run is None or not (made or run.launched_at):
        return None
    words = f"replay run {run.name} of ReplayJob {job.metadata.namespace}/{job.metadata.name}"
    return Reader(words, tombstones_of(made))


def tombstones_of(run: ObservedRun | None) -> int | None:
    """The tombstones that a continuous replay has reported to know; None for any other run."""
    outcome = run.report.outcome if run is not None and run.report is not None else None
    return outcome.tombstones if isinstance(outcome, ReplayOutcome) else None


def writes(resource: Resource, kind: str) -> bool:
    """Whether a run writes to a table: a policy's preview does not."""
    return not (isinstance(resource, RetentionPolicy) and kind == "purge" and resource.spec.mode == "DryRun")


def _written(
    resource: Resource, run: CurrentRun, stream: str | None, known: Mapping[str, MessageStream]
) -> Iterable[TableKey]:
    if isinstance(resource, MessageStream):
        return [table_key(resource)]
    if isinstance(resource, ReplayJob):
        return replay_tables(resource, known)
    if stream is None or stream not in known or not writes(resource, _kind(run)):
        return []
    return [table_key(known[stream])]


def current_runs(resource: Resource) -> Iterator[tuple[CurrentRun, str | None]]:
    """The current runs in a resource's status; those of a policy with the name of their stream."""
    if isinstance(resource, RetentionPolicy):
        for entry in resource.status.streams if resource.status else ():
            if entry.current_run is not None:
                yield entry.current_run, entry.name
    elif isinstance(resource, MessageStream | ReplayJob) and resource.status and resource.status.current_run:
        yield resource.status.current_run, None


def _requested_runs(resource: Resource) -> Iterator[tuple[CurrentRun, str | None]]:
    return ((run, stream) for run, stream in current_runs(resource) if run.requested_at is not None)


def _kind(run: CurrentRun) -> RunKind:
    return run.kind  # type: ignore[return-value]
