"""What a stream's store holds, read without Spark and without a lock."""

from __future__ import annotations

from datetime import datetime

from deltalake.exceptions import DeltaError

from messagestore_core.contract.run_document import Owner, Table
from messagestore_core.store.delta_log import committed_batch, last_note, table_state
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.files import planned_batch
from messagestore_core.store.folder import MARKER, owner_of
from messagestore_core.store.objects import LARGEST_DOCUMENT, Objects
from messagestore_core.store.offsets import ReadOffsets
from messagestore_operator.api import MessageStream
from messagestore_operator.status.facts import StoreFacts
from messagestore_operator.translate import source_id


def store_facts(stream: MessageStream) -> StoreFacts | None:
    """What is in the stream's own store; None where there is none, or it can't be read."""
    uri = stream.spec.table.uri
    try:
        if not _is_own(stream, uri):
            return None
        return StoreFacts(table_state(uri), last_note(uri).totals, _last_batch_at(uri, source_id(stream)))
    except (OSError, DeltaError, ValueError, RunFailedError):
        return None


def _is_own(stream: MessageStream, uri: str) -> bool:
    marker = Objects(uri).read(MARKER, LARGEST_DOCUMENT)
    own = Owner(namespace=stream.metadata.namespace, name=stream.metadata.name)
    return marker is not None and owner_of(Table(uri=uri, owner=own), marker) == own


def _last_batch_at(uri: str, source: str) -> datetime | None:
    number = committed_batch(uri, source)
    batch = planned_batch(uri, source, number) or ReadOffsets(uri, source).planned(number)
    return batch.at if batch else None
