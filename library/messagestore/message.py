"""A message for applications."""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message; the attributes are the columns of ``messages``, times are in UTC.

    ``payload`` has the exact bytes that were stored, also of a claim check.
    """

    message_id: str
    stream_name: str
    category: str
    position: int
    global_position: int
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
    headers: Mapping[str, str | None] = field(default_factory=dict)
    metadata: str | None = None
    payload: bytes | None = None
    content_type: str | None = None
    payload_encoding: str | None = None
    payload_uri: str | None = None
    payload_size: int | None = None
    payload_sha256: str | None = None
    schema_version: int | None = None
    status: str
    result: bytes | None = None
    error: str | None = None
    retries: int = 0
    next_retry_at: datetime | None = None
    ttl: str | None = None
    expires_at: datetime | None = None
    time: datetime
    inserted_at: datetime
    updated_at: datetime | None = None
    scrubbed_at: datetime | None = None
    source: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """Message-db's name of the message's id."""
        return self.message_id

    @property
    def data(self) -> str | None:
        """Message-db's name of the payload, as text.

        Raises:
            UnicodeDecodeError: the payload is no text.
        """
        return None if self.payload is None else self.payload.decode()

    def json(self) -> Any:
        """The payload as JSON; None without one.

        Raises:
            ValueError: the payload is no JSON.
            RecursionError: it is nested more deeply than Python's own reader takes.
        """
        return None if self.payload is None else json.loads(self.payload)


_SETTERS = {f.name: getattr(Message, f.name).__set__ for f in fields(Message)}


def messages_of(rows: pa.Table) -> Iterator[Message]:
    """The messages of rows with the columns of ``messages``; further columns are ignored."""
    messages = [object.__new__(Message) for _ in range(rows.num_rows)]
    # Set attributes column by column: calling the constructor takes five times as long.
    for name, put in _SETTERS.items():
        deque(map(put, messages, _values(name, rows[name])), maxlen=0)
    return iter(messages)


def _values(name: str, column: pa.ChunkedArray) -> list[Any]:
    if name == "headers":
        return [dict(pairs or ()) for pairs in column.to_pylist()]
    # Most columns of most messages have no value.
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_timestamp(column.type):
        # Arrow would look up the time zone for each value.
        microseconds = column.cast(pa.int64()).to_pylist()
        return [None if at is None else _EPOCH + timedelta(0, 0, at) for at in microseconds]
    values: list[Any] = column.to_pylist()
    return values
