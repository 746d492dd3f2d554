"""A MessageStream's ingest run."""

from datetime import datetime, timedelta

from messagestore_core.contract import ingest as contract
from messagestore_core.contract import records as record_contract
from messagestore_core.contract import stores as store_contract
from messagestore_core.contract.run_document import RunDocument
from messagestore_operator.api import MessageStream
from messagestore_operator.api.envelope import Envelope
from messagestore_operator.api.messagestream import Retry
from messagestore_operator.api.sources import FilesSource, Source
from messagestore_operator.translate.common import as_document, integrity_of, resource_of, table_of, translators_of
from messagestore_operator.translate.kafka import kafka_source
from messagestore_operator.translate.names import source_id, updates_id
from messagestore_operator.translate.storage import ingest_access, job_uri
from messagestore_operator.translate.unsupported import ensure_supported

_LAST_LINE_AFTER = timedelta(minutes=1)


def ingest_document(
    stream: MessageStream, run: str, at: datetime | None, adopt_from: tuple[store_contract.FormerOwner, ...] = ()
) -> RunDocument:
    """Ingest what has arrived into the stream's store, which may be adopted from ``adopt_from``."""
    return RunDocument(
        run=run,
        resource=resource_of(stream),
        table=table_of(stream, adopt_from),
        at=at,
        storage=ingest_access(stream).entries,
        task=ingest_task(stream),
    )


def ingest_task(stream: MessageStream) -> contract.IngestTask:
    """The ingest task of a stream."""
    ensure_supported(stream)
    spec = stream.spec
    window = spec.deduplication.window if spec.deduplication else None
    return as_document(
        contract.IngestTask,
        spec,
        source_id=source_id(stream),
        source=_source(stream, spec.source),
        envelope=_envelope(spec.envelope),
        translators=translators_of(stream),
        integrity=integrity_of(stream),
        deduplication_window=window.timedelta if window else None,
        on_arrival_expired=spec.expiration.on_arrival_expired,
        default_ttl=spec.expiration.default_ttl.timedelta if spec.expiration.default_ttl else None,
        retry=_retry(spec.retry),
        lifecycle=_lifecycle(stream),
        sequence_timeout=spec.sequences.timeout.timedelta if spec.sequences else None,
        max_payload_bytes=spec.payload.max_size.bytes,
        claim_check_bytes=spec.payload.claim_check_threshold.bytes if spec.payload.claim_check_threshold else None,
        compression=spec.payload.compression,
        messages_per_second=spec.rate_limit.messages_per_second if spec.rate_limit else None,
    )


def _retry(retry: Retry) -> contract.Retry:
    most = 0 if retry.policy == "Drop" else retry.max_retries
    return as_document(contract.Retry, retry, max_retries=most, set_aside=retry.policy == "DeadLetter")


def _lifecycle(stream: MessageStream) -> contract.Lifecycle | None:
    lifecycle = stream.spec.lifecycle
    if lifecycle is None:
        return None
    source = _source(stream, lifecycle.source)
    return as_document(contract.Lifecycle, lifecycle, source_id=updates_id(stream), source=source)


def _source(stream: MessageStream, source: Source) -> record_contract.FilesSource | record_contract.KafkaSource:
    files = source.files
    if source.kafka is not None:
        return kafka_source(stream.metadata.namespace, source.kafka)
    assert files is not None
    return as_document(
        record_contract.FilesSource,
        files,
        uri=job_uri(files.uri),
        max_files_per_batch=files.files_per_batch,
        archive_uri=job_uri(files.archive_uri.rstrip("/")) if files.archive_uri else None,
        last_line_after=_last_line_after(files),
        read_again=files.reread_nonce,
        records_path=files.records_paths,
    )


def _last_line_after(files: FilesSource) -> timedelta | None:
    """On object storage an object is complete when it is there, and a JSON document is no file of lines."""
    if files.last_line_timeout is not None:
        return files.last_line_timeout.timedelta
    return _LAST_LINE_AFTER if files.uri.startswith("file:") and files.format != "JSON" else None


def _envelope(envelope: Envelope) -> record_contract.Envelope:
    given = envelope.fields.given() if envelope.fields else {}
    fields = {name: as_document(record_contract.FieldMapping, mapping) for name, mapping in given.items()}
    added = {name: as_document(record_contract.ValueMapping, one) for name, one in envelope.add_headers.items()}
    return as_document(record_contract.Envelope, envelope, fields=fields, add_headers=added)
