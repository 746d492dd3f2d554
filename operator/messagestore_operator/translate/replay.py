"""A ReplayJob's run."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from messagestore_core.contract import run_document as contract
from messagestore_operator.api import MessageStream, ReplayJob
from messagestore_operator.api.replayjob import Select
from messagestore_operator.translate.annotations import adopts_from, reset_to
from messagestore_operator.translate.common import as_document, integrity_of, resource_of, table_of, translators_of
from messagestore_operator.translate.ingest import ingest_task
from messagestore_operator.translate.kafka import destination_access
from messagestore_operator.translate.names import job_id, request_digest
from messagestore_operator.translate.storage import job_uri, replay_access
from messagestore_operator.translate.unsupported import ensure_supported


def replay_document(
    job: ReplayJob, stream: MessageStream, target: MessageStream | None, run: str, at: datetime | None
) -> contract.RunDocument:
    """Send the job's selection of a stream; ``target`` is the destination's stream, if it is one.

    A store is adopted only for writing, if the target asks for that.

    Raises:
        NotSupportedError: the job or its target asks for something that this release can't do.
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
        destination=_destination(job, target),
        messages_per_second=spec.rate_limit.messages_per_second if spec.rate_limit else None,
        mark_headers=_mark_headers(job),
    )
    own = target is not None and target.identity == stream.identity
    table = table_of(stream, adopts_from(stream) if own else ())
    storage = replay_access(job, stream, target).entries
    return contract.RunDocument(run=run, resource=resource_of(job), table=table, at=at, storage=storage, task=task)


def _subscription(job: ReplayJob) -> contract.Subscription | None:
    if job.spec.start is None:
        return None
    return contract.Subscription(start=as_document(contract.StartPoint, job.spec.start), reset=reset_to(job))


def _selection(select: Select, stream: MessageStream) -> contract.Selection:
    return as_document(contract.Selection, select, held_back=_held_back(stream) if select.due_for_retry else None)


def _held_back(stream: MessageStream) -> Literal["Retrying", "Failed"] | None:
    """Which failed messages hold back the others of their correlation id; exhausted and dead-lettered ones never do."""
    retry = stream.spec.retry
    if retry.order == "None":
        return None
    return "Failed" if retry.policy == "Retry" else "Retrying"


def _destination(
    job: ReplayJob, target: MessageStream | None
) -> contract.FilesDestination | contract.KafkaDestination | contract.StreamDestination:
    files = job.spec.destination.files
    if files is not None:
        return as_document(contract.FilesDestination, files, uri=job_uri(files.uri.rstrip("/")))
    kafka, access = job.spec.destination.kafka, destination_access(job)
    if kafka is not None and access is not None:
        return as_document(contract.KafkaDestination, kafka, cluster=access.cluster)
    assert target is not None
    return contract.StreamDestination(table=table_of(target, adopts_from(target)), ingest=ingest_task(target))


def _mark_headers(job: ReplayJob) -> dict[str, str]:
    """The marks, with the job's name for people."""
    headers = job.spec.mark.headers if job.spec.mark else {}
    return {name: template.replace("{job}", job.metadata.name) for name, template in headers.items()}
