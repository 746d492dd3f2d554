"""A ReplayJob's run."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from messagestore_core.addresses import Reach
from messagestore_core.contract import destinations
from messagestore_core.contract import replay as contract
from messagestore_core.contract.run_document import RunDocument
from messagestore_operator.api import MessageStream, ReplayJob
from messagestore_operator.api.destinations import Destination
from messagestore_operator.api.replayjob import Select
from messagestore_operator.translate.annotations import adopts_from, reset_to, resets_by_name
from messagestore_operator.translate.common import as_document, integrity_of, resource_of, table_of, translators_of
from messagestore_operator.translate.http import http_destination
from messagestore_operator.translate.ingest import ingest_task
from messagestore_operator.translate.kafka import kafka_access
from messagestore_operator.translate.names import job_id, request_digest
from messagestore_operator.translate.storage import job_uri, replay_access
from messagestore_operator.translate.unsupported import ensure_supported


@dataclass(frozen=True)
class Routes:
    """How a run tries several destinations: which of them it leaves alone, and which come last."""

    resting: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()


def replay_document(
    job: ReplayJob,
    stream: MessageStream,
    target: MessageStream | None,
    run: str,
    at: datetime | None,
    addresses: Reach = "Any",
    routes: Routes | None = None,
) -> RunDocument:
    """Send the job's selection of a stream; ``target`` is the destination's stream, if it is one.

    ``addresses`` are those that an HTTP endpoint's name may stand for, ``routes`` is how several destinations are
    tried. A store is adopted only for writing, if the target asks for that.
    """
    ensure_supported(job)
    spec = job.spec
    task = as_document(
        contract.ReplayTask,
        spec,
        job_id=job_id(job),
        request_digest=request_digest(job),
        rounds=spec.trigger is not None and spec.start is None,
        subscription=_subscription(job),
        select=_selection(spec.select, stream),
        translators=translators_of(stream),
        integrity=integrity_of(stream),
        destination=_destinations(job, target, addresses, routes or Routes()),
        messages_per_second=spec.rate_limit.messages_per_second if spec.rate_limit else None,
        mark_headers=_mark_headers(job),
        skip_expired=_skips_expired(job),
    )
    own = target is not None and target.identity == stream.identity
    table = table_of(stream, adopts_from(stream) if own else ())
    storage = replay_access(job, stream, target).entries
    return RunDocument(run=run, resource=resource_of(job), table=table, at=at, storage=storage, task=task)


def _skips_expired(job: ReplayJob) -> bool:
    expired = job.spec.select.expired or ("Include" if job.spec.trigger is None else "Skip")
    return expired == "Skip" and job.spec.origin == "Messages"


def _subscription(job: ReplayJob) -> contract.Subscription | None:
    if job.spec.start is None:
        return None
    return contract.Subscription(start=as_document(contract.StartPoint, job.spec.start), reset=reset_to(job))


def _selection(select: Select, stream: MessageStream) -> contract.Selection:
    of_stream: dict[str, object] = {"sequence_timeout": _overdue_after(select, stream)}
    if select.due_for_retry:
        grouped_by = "stream_name" if stream.spec.retry.order == "PerStream" else "correlation_id"
        of_stream |= {"held_back": _held_back(stream), "grouped_by": grouped_by}
    return as_document(contract.Selection, select, **of_stream)


def _overdue_after(select: Select, stream: MessageStream) -> timedelta | None:
    """How long after its earliest message a sequence is sent though it is incomplete; None: never."""
    timeout = stream.spec.sequences.timeout if stream.spec.sequences else None
    return timeout.timedelta if timeout and select.sequences and select.sequences.or_overdue else None


def _held_back(stream: MessageStream) -> Literal["Retrying", "Failed"] | None:
    """Which failed messages hold back the others of their group; exhausted and dead-lettered ones never do."""
    retry = stream.spec.retry
    if retry.order == "None":
        return None
    return "Failed" if retry.policy == "Retry" else "Retrying"


def _destinations(
    job: ReplayJob, target: MessageStream | None, addresses: Reach, routes: Routes
) -> destinations.Destination | contract.RoutesDestination:
    namespace = job.metadata.namespace
    if job.spec.destination is not None:
        return _destination(namespace, job.spec.destination, target, addresses)
    # The others decide what is left to the one with otherwise.
    resets = resets_by_name(job)
    several = sorted(job.spec.destinations, key=lambda to: (to.name in routes.last, to.otherwise))
    return contract.RoutesDestination(
        routes=tuple(
            contract.Route(
                name=to.name,
                where=to.where,
                otherwise=to.otherwise,
                start=as_document(contract.StartPoint, to.start) if to.start else None,
                reset=resets.get(to.name),
                rests=to.name in routes.resting,
                destination=_destination(namespace, to, target, addresses),
            )
            for to in several
        )
    )


def _destination(
    namespace: str, to: Destination, target: MessageStream | None, addresses: Reach
) -> destinations.Destination:
    files, kafka, envelope = to.files, to.kafka, to.envelope
    if files is not None:
        return as_document(destinations.FilesDestination, files, uri=job_uri(files.uri.rstrip("/")), envelope=envelope)
    if kafka is not None:
        cluster = kafka_access(namespace, kafka.bootstrap_servers, kafka.security).cluster
        named = as_document(destinations.TopicFrom, kafka.topic_from) if kafka.topic_from is not None else None
        return as_document(
            destinations.KafkaDestination,
            kafka,
            cluster=cluster,
            topic_from=named,
            create=kafka.create_topic,
            envelope=envelope,
        )
    if to.http is not None:
        return http_destination(namespace, to, addresses)
    assert target is not None
    return destinations.StreamDestination(table=table_of(target, adopts_from(target)), ingest=ingest_task(target))


def _mark_headers(job: ReplayJob) -> dict[str, str]:
    """The marks, with the job's name for people."""
    headers = job.spec.mark.headers if job.spec.mark else {}
    return {name: template.replace("{job}", job.metadata.name) for name, template in headers.items()}
