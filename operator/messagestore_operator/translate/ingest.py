"""A MessageStream's ingest run."""

from __future__ import annotations

from datetime import datetime

from messagestore_jobs.contract import run_document as contract
from messagestore_operator.api import MessageStream
from messagestore_operator.api.envelope import Envelope
from messagestore_operator.api.messagestream import Filter, MessageStreamSpec
from messagestore_operator.translate.common import resource_of, table_of
from messagestore_operator.translate.names import source_id
from messagestore_operator.translate.storage import ingest_access, job_uri
from messagestore_operator.translate.unsupported import ensure_supported


def ingest_document(stream: MessageStream, run: str, at: datetime | None, *, adopt: bool) -> contract.RunDocument:
    """Take what has arrived into the stream's store.

    Raises:
        NotSupportedError: the stream asks for what this release can't do.
    """
    return contract.RunDocument(
        run=run,
        resource=resource_of(stream),
        table=table_of(stream, adopt=adopt),
        at=at,
        storage=ingest_access(stream).entries,
        task=ingest_task(stream),
    )


def ingest_task(stream: MessageStream) -> contract.IngestTask:
    """How a stream takes records in.

    Raises:
        NotSupportedError: the stream asks for what this release can't do.
    """
    ensure_supported(stream)
    spec = stream.spec
    return contract.IngestTask(
        source_id=source_id(stream),
        source=_source(spec),
        envelope=_envelope(spec.envelope),
        filter=_filter(spec.filter),
        deduplication_window=spec.deduplication.window.timedelta if spec.deduplication else None,
        on_arrival_expired=spec.expiration.on_arrival_expired,
        default_ttl=spec.expiration.default_ttl.timedelta if spec.expiration.default_ttl else None,
        retry=contract.Retry(
            max_retries=spec.retry.max_retries,
            backoff_base=spec.retry.backoff_base,
            max_backoff=spec.retry.max_backoff.timedelta,
        ),
        max_payload_bytes=spec.payload.max_size.bytes,
        claim_check_bytes=spec.payload.claim_check_threshold.bytes if spec.payload.claim_check_threshold else None,
        compression=spec.payload.compression,
    )


def _source(spec: MessageStreamSpec) -> contract.FilesSource:
    files = spec.source.files
    assert files is not None
    return contract.FilesSource(
        uri=job_uri(files.uri),
        format=files.format,
        max_files_per_batch=files.files_per_batch,
        max_bytes_per_batch=files.max_bytes_per_batch.bytes if files.max_bytes_per_batch else None,
    )


def _envelope(envelope: Envelope) -> contract.Envelope:
    fields = envelope.fields.given() if envelope.fields else {}
    return contract.Envelope(
        format=envelope.format,
        fields={
            name: contract.FieldMapping(path=mapping.path, default=mapping.default, value=mapping.value)
            for name, mapping in fields.items()
        },
        required=envelope.required,
    )


def _filter(wanted: Filter | None) -> contract.Filter:
    if wanted is None:
        return contract.Filter()
    return contract.Filter(types=wanted.types, where=wanted.where or None, unmatched=wanted.unmatched)
