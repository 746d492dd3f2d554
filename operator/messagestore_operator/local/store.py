"""Reads a stream's store for its status, without Spark and without a lock."""

from __future__ import annotations

from datetime import datetime

from deltalake.exceptions import DeltaError

from messagestore_core.contract.stores import Owner
from messagestore_core.store.delta_log import committed_batch, last_note, table_state
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.files import planned_batch
from messagestore_core.store.folder import parsed_marker
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import MARKER
from messagestore_core.store.objects import LARGEST_DOCUMENT
from messagestore_core.store.offsets import ReadOffsets
from messagestore_operator.api import MessageStream
from messagestore_operator.status.facts import StoreFacts
from messagestore_operator.translate import source_id


def store_facts(stream: MessageStream) -> StoreFacts | None:
    """The facts of the stream's store; None if there is none or it can't be read."""
    owner = Owner(namespace=stream.metadata.namespace, name=stream.metadata.name)
    store = Store(stream.spec.table.uri, owner=owner)
    try:
        if not _is_own(store):
            return None
        note = last_note(store)
        state = table_state(store, note, count_reasons=True)
        return StoreFacts(state, note.totals, _last_batch_at(store, source_id(stream)))
    except (OSError, DeltaError, ValueError, RunFailedError):
        return None


def _is_own(store: Store) -> bool:
    marker = store.objects().read(MARKER, LARGEST_DOCUMENT)
    return marker is not None and parsed_marker(store, marker).owner == store.owner


def _last_batch_at(store: Store, source: str) -> datetime | None:
    number = committed_batch(store, source)
    batch = planned_batch(store, source, number) or ReadOffsets(store, source).planned(number)
    return batch.at if batch else None
