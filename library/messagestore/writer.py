"""Write to a message store's sources: message-db's write_message and the Message Store pattern's operations.

>>> from messagestore.writer import Writer
>>> with Writer("s3a://landing/orders/", lifecycle="s3a://landing/orders-status/") as writer:
...     writer.write_message("4d1a…", "order-123", "Placed", {"total": "9.90"})
...     writer.mark_completed("4d1a…", {"ok": True})

Records are kept in memory until there are enough for a file or a transaction, or ``Writer.flush`` is called. The
stream's next run stores them, and gives them positions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from messagestore.errors import MessageStoreError, RecordError
from messagestore.jsontext import JSON
from messagestore.kafka import KafkaSink
from messagestore.records import Record, Status, message_record, time_to_live, update_record
from messagestore.sinks import FilesSink, Sink, sink_of
from messagestore_core.contract.records import KafkaCertificate, KafkaCluster, KafkaCredentials, KafkaOauth
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.envelope import MAPPED

if TYPE_CHECKING:
    from messagestore.outcomes import Outcome
    from messagestore.reader import Reader

__all__ = [
    "FilesSink",
    "KafkaCertificate",
    "KafkaCluster",
    "KafkaCredentials",
    "KafkaOauth",
    "KafkaSink",
    "NewMessage",
    "Sink",
    "Writer",
]

BATCH_RECORDS = 10_000
BATCH_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class NewMessage:
    """A message for a store; each field has the name and the meaning of its column, but for those below.

    Attributes:
        payload: bytes, kept as they are, or a JSON value; a text where ``content_type`` names no JSON type.
        metadata: a JSON value, or the exact text of one as bytes.
        ttl_seconds: how long after its ``time`` it expires.
        expected_version: the stream's version that the message follows; -1 for a stream that does not exist yet. It is
            checked when the message is ingested; a wrong one makes a dead letter, WrongExpectedVersion.
    """

    message_id: str
    stream_name: str
    type: str | None = None
    type_namespace: str | None = None
    type_revision: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    reply_to: str | None = None
    sequence_id: str | None = None
    sequence_number: int | None = None
    sequence_size: int | None = None
    sequence_end: bool | None = None
    headers: Mapping[str, str] | None = None
    metadata: JSON | bytes = None
    payload: JSON | bytes = None
    content_type: str | None = None
    payload_encoding: str | None = None
    schema_version: int | None = None
    time: datetime | None = None
    expires_at: datetime | None = None
    ttl_seconds: float | None = None
    expected_version: int | None = None


_OWN = ("message_id", "stream_name", "metadata", "payload")
_PLAIN = [field for field in MAPPED if field.column in NewMessage.__annotations__ and field.column not in _OWN]
"""The fields of a record that a new message gives as they are."""


@dataclass
class _Batch:
    """Records that wait for their sink."""

    sink: Sink
    records: list[Record] = field(default_factory=list)
    bytes: int = 0

    def flush(self) -> None:
        """Write them to the sink; if that fails, they stay."""
        if self.records:
            self.sink.write(self.records)
            self.records, self.bytes = [], 0


class Writer:
    """Writes messages to a stream's landing folder or topic, and status updates to that of its lifecycle source.

    Threads may share a writer. Records that were not flushed are lost with the process. If a batch can't be written,
    the call that completed it raises StorageError, and its records wait for the next flush.

    Args:
        messages: the landing folder's URI (``spec.source.files.uri``), or a sink, such as ``KafkaSink``.
        lifecycle: the same for status updates (``spec.lifecycle.source``); absent: the writer writes none.
        storage: how buckets are reached; absent: by AWS' environment variables. Credentials always come from the
            environment.
        batch_records: how many records complete a file or a transaction.
        batch_bytes: how many bytes complete one.
        clock: the source of an update's time.
    """

    def __init__(
        self,
        messages: Sink | str,
        lifecycle: Sink | str | None = None,
        *,
        storage: Sequence[StorageEntry] | None = None,
        batch_records: int = BATCH_RECORDS,
        batch_bytes: int = BATCH_BYTES,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        # A sink that was given stays the caller's until there is a writer.
        with ExitStack() as made:
            self._messages = _Batch(sink_of(messages, storage, made))
            self._updates = None if lifecycle is None else _Batch(sink_of(lifecycle, storage, made))
            made.pop_all()
        self._batch_records, self._batch_bytes = batch_records, batch_bytes
        self._clock = clock
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def writes_updates(self) -> bool:
        """Whether it has a place for status updates."""
        return self._updates is not None

    def close(self) -> None:
        """Write waiting records, and close the sinks."""
        with ExitStack() as sinks:
            for batch in self._batches():
                sinks.callback(batch.sink.close)
            self.flush()

    def flush(self) -> None:
        """Write waiting records, messages before updates.

        Raises:
            StorageError: a batch can't be written; its records keep waiting.
        """
        with self._lock:
            for batch in self._batches():
                batch.flush()

    def wait(self, message_id: str, timeout: timedelta, *, store: Reader | str) -> list[Outcome]:
        """Write waiting records, then wait until a message is stored or set aside.

        Args:
            timeout: how long at most.
            store: the store's URI, reached like the landing folder's bucket by default; or a reader of it.

        Returns:
            What became of the message; NotSeen alone if nothing did in time. An earlier record with its id counts, too.

        Raises:
            StorageError: records can't be written, or the store can't be read.
        """
        from messagestore.reader import Reader

        self.flush()
        if not isinstance(store, str):
            return store.wait(message_id, timeout)
        with Reader(store) as reader:
            return reader.wait(message_id, timeout)

    def write_message(
        self,
        id: str | None,
        stream_name: str,
        type: str,
        data: JSON | bytes,
        metadata: JSON | bytes = None,
        expected_version: int | None = None,
    ) -> str:
        """Write a message like message-db's function of that name; it gets its position when it is stored.

        Args:
            id: the message's id; a second message with the same id is a duplicate, and is not stored. None: a new one
                is made, so that a write that is repeated is another message.
            data: its payload; the other arguments are as in `NewMessage`.

        Returns:
            The message's id.

        Raises:
            RecordError: the store would make a dead letter of it, or it has no type.
        """
        if type is None:
            raise RecordError("type is None")
        message_id = str(uuid4()) if id is None else id
        self.write(
            NewMessage(
                message_id=message_id,
                stream_name=stream_name,
                type=type,
                payload=data,
                metadata=metadata,
                expected_version=expected_version,
            )
        )
        return message_id

    def store_received(
        self,
        message_id: str,
        correlation_id: str | None = None,
        sequence_id: str | None = None,
        sequence_no: int | None = None,
        headers: Mapping[str, str] | None = None,
        payload: JSON | bytes = None,
        ttl_seconds: float | None = None,
        *,
        stream_name: str,
    ) -> None:
        """Write a received message, like the pattern's ``storeReceived``; its status becomes RECEIVED.

        Args:
            sequence_no: its number in the sequence, from 1; the other arguments are as in `NewMessage`.

        Raises:
            RecordError: the store would make a dead letter of it.
        """
        self.write(
            NewMessage(
                message_id=message_id,
                stream_name=stream_name,
                correlation_id=correlation_id,
                sequence_id=sequence_id,
                sequence_number=sequence_no,
                headers=headers,
                payload=payload,
                ttl_seconds=ttl_seconds,
            )
        )

    def write(self, message: NewMessage) -> None:
        """Write a message with any of its fields.

        Raises:
            RecordError: the store would make a dead letter of it.
        """
        fields = {field.name: getattr(message, field.column) for field in _PLAIN}
        if message.ttl_seconds is not None:
            fields["ttl"] = time_to_live(message.ttl_seconds)
        self._add(
            self._messages,
            message_record(message.message_id, message.stream_name, message.payload, fields, message.metadata),
        )

    def mark_processing(self, message_id: str, *, attempt: int | None = None) -> None:
        """Say that a message is being processed.

        Args:
            attempt: which attempt this is, from 1; a redelivered message has the number. An update with an attempt
                counts once, however often it is repeated.

        Raises:
            MessageStoreError: the writer has no sink for updates.
        """
        self._update(message_id, "PROCESSING", attempt)

    def mark_completed(self, message_id: str, result: JSON | bytes = None, *, attempt: int | None = None) -> None:
        """Say that a message was processed, with a result: a JSON value, or its text as bytes.

        Raises:
            RecordError: the result is no JSON.
            MessageStoreError: the writer has no sink for updates.
        """
        self._update(message_id, "COMPLETED", attempt, result=result)

    def mark_failed(self, message_id: str, error: str, *, attempt: int | None = None) -> None:
        """Say that processing a message failed, and why; the stream's ``retry`` says when it is due again.

        Raises:
            MessageStoreError: the writer has no sink for updates.
        """
        self._update(message_id, "FAILED", attempt, error=error)

    def retry(self, message_id: str, *, at: datetime | None = None) -> None:
        """Make a message that has failed due at a time, absent: now; one that is out of retries gets one more try.

        Raises:
            MessageStoreError: the writer has no sink for updates.
        """
        self._update(message_id, "RETRY", None, at=at)

    def pause(self, message_id: str) -> None:
        """Let a message that has failed and is to be retried wait until ``resume`` or ``retry``.

        Raises:
            MessageStoreError: the writer has no sink for updates.
        """
        self._update(message_id, "PAUSE", None)

    def resume(self, message_id: str) -> None:
        """Make a message due that ``pause`` made wait.

        Raises:
            MessageStoreError: the writer has no sink for updates.
        """
        self._update(message_id, "RESUME", None)

    def _update(
        self,
        message_id: str,
        status: Status,
        attempt: int | None,
        result: JSON | bytes = None,
        error: str | None = None,
        at: datetime | None = None,
    ) -> None:
        if self._updates is None:
            raise MessageStoreError(
                "this writer has no place for status updates: give it a folder or a sink as lifecycle"
            )
        self._add(self._updates, update_record(message_id, status, at or self._clock(), attempt, result, error))

    def _add(self, batch: _Batch, record: Record) -> None:
        with self._lock:
            batch.records.append(record)
            batch.bytes += len(record.line) + 1
            if len(batch.records) >= self._batch_records or batch.bytes >= self._batch_bytes:
                batch.flush()

    def _batches(self) -> list[_Batch]:
        return [self._messages] if self._updates is None else [self._messages, self._updates]
