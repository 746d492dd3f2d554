"""The records of a writer: Native messages and status updates, one JSON object per line."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from messagestore.errors import RecordError
from messagestore.jsontext import JSON, MOST_LEVELS, check_record, dumped, is_json_type, is_strict, stands_alone
from messagestore_core.bounds import (
    LARGEST_NUMBER,
    LARGEST_VERSION,
    LAST_MOMENT,
    LONGEST_ERROR,
    LONGEST_TEXT,
    MOST_ATTEMPTS,
    MOST_HEADERS,
)

Status = Literal["PROCESSING", "COMPLETED", "FAILED", "RETRY", "PAUSE", "RESUME"]

_RANGES = {
    "sequenceNumber": (1, LARGEST_NUMBER),
    "sequenceSize": (1, LARGEST_NUMBER),
    "schemaVersion": (0, LARGEST_VERSION),
    "attempt": (1, MOST_ATTEMPTS),
    "expectedVersion": (-LARGEST_NUMBER, LARGEST_NUMBER),
}
"""The least and the largest value of numbers; others may be negative."""
_TYPES: Mapping[str, type] = {
    **dict.fromkeys(_RANGES, int),
    "time": datetime,
    "expiresAt": datetime,
    "sequenceEnd": bool,
    "headers": Mapping,
}
"""What else than a text makes a field that the store can read."""


@dataclass(frozen=True)
class Record:
    """One record for a sink; records with the same key stay in order."""

    key: str
    line: bytes


def message_record(
    message_id: str, stream_name: str, payload: JSON | bytes, fields: Mapping[str, Any], metadata: JSON | bytes
) -> Record:
    """Make a Native record.

    Args:
        payload: bytes are kept as they are; anything else is written as JSON, or as its text where
            ``contentType`` names no JSON type.
        fields: further members by their names in the record, without those that are None.
        metadata: a JSON value, or its text as bytes; None: no member.

    Raises:
        RecordError: the store would make a dead letter of it.
    """
    if not stream_name or stream_name.startswith("-"):
        raise RecordError(f"streamName {stream_name!r} has no category")
    head = _head({"messageId": message_id, "streamName": stream_name, **fields})
    _check_sequence(fields)
    _check_expiry(fields)
    members = [payload_member(payload, fields.get("contentType")), json_member("metadata", metadata)]
    return _record(stream_name, dumped(head, "the record"), members)


def update_record(
    message_id: str,
    status: Status,
    at: datetime,
    attempt: int | None,
    result: JSON | bytes = None,
    error: str | None = None,
) -> Record:
    """Make a status update of a message, or of one attempt at it.

    Raises:
        RecordError: the store would make a dead letter of it.
    """
    head = _head({"messageId": message_id, "status": status, "time": at, "attempt": attempt})
    if error is not None:
        # A name of a file that is in no encoding has halves of surrogate pairs, and an error tells it.
        head["error"] = error.encode(errors="backslashreplace").decode()[:LONGEST_ERROR]
    return _record(message_id, dumped(head, "the update"), [json_member("result", result)])


def _head(fields: Mapping[str, Any]) -> dict[str, JSON]:
    """The members of a record that are no documents of their own."""
    if not fields["messageId"]:
        raise RecordError("messageId is empty")
    return {name: _plain(name, value) for name, value in fields.items() if value is not None}


def _record(key: str, head: bytes, members: list[bytes]) -> Record:
    line = joined(head, members)
    check_record(line)
    return Record(key, line)


def time_to_live(seconds: float) -> timedelta:
    """The length of so many seconds.

    Raises:
        RecordError: it is no length that a message can live.
    """
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise RecordError(f"ttl is {seconds} seconds, which lie behind the year 9999") from None
    except (TypeError, ValueError):
        raise RecordError(f"ttl is {seconds!r}, and no number of seconds") from None


def joined(head: bytes, members: list[bytes]) -> bytes:
    """Add members to an object's text; empty ones are left out."""
    return b",".join([head[:-1], *(member for member in members if member)]) + b"}"


def _check_sequence(fields: Mapping[str, Any]) -> None:
    number, size, last = (fields.get(name) for name in ("sequenceNumber", "sequenceSize", "sequenceEnd"))
    # The store judges texts.
    if not (isinstance(number, int) and isinstance(size, int)):
        return
    if number > size:
        raise RecordError(f"sequenceNumber is {number}, and sequenceSize {size}")
    if last and number != size:
        raise RecordError(f"sequenceEnd is set on number {number} of {size}")


def _check_expiry(fields: Mapping[str, Any]) -> None:
    ttl, time = fields.get("ttl"), fields.get("time") or datetime.now(UTC)
    if ttl is not None and isinstance(time, datetime) and ttl > LAST_MOMENT - time:
        raise RecordError("time and ttl lie behind the year 9999")


def _plain(name: str, value: Any) -> JSON:
    _check_type(name, value)
    match value:
        case datetime():
            return _time(name, value)
        case timedelta():
            return _duration(name, value)
        case str() if len(value.encode(errors="surrogatepass")) > LONGEST_TEXT:
            raise RecordError(f"{name} is longer than {LONGEST_TEXT} bytes")
        case int():
            least, largest = _RANGES.get(name, (-LARGEST_NUMBER, LARGEST_NUMBER))
            if not least <= value <= largest:
                raise RecordError(f"{name} is {value}, allowed are {least} to {largest}")
            return value
        case Mapping():
            if len(value) > MOST_HEADERS:
                raise RecordError(f"{name} has {len(value)} entries, at most {MOST_HEADERS} are allowed")
            return dict(value)
        case _:
            return value


def _check_type(name: str, value: Any) -> None:
    wanted = _TYPES.get(name, object)
    if not isinstance(value, (wanted, str)) or (wanted is int and isinstance(value, bool)):
        raise RecordError(f"{name} is of type {type(value).__name__}, not {wanted.__name__}")


def _time(name: str, moment: datetime) -> str:
    if moment.tzinfo is None:
        raise RecordError(f"{name} has no time zone")
    try:
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise RecordError(f"{name} is {moment.isoformat()}, allowed are the years 1 to 9999 in UTC") from None


def _duration(name: str, duration: timedelta) -> str:
    if duration < timedelta():
        raise RecordError(f"{name} is negative")
    part = f".{duration.microseconds:06}" if duration.microseconds else ""
    return f"P{duration.days}DT{duration.seconds}{part}S" if duration.days else f"PT{duration.seconds}{part}S"


def payload_member(payload: JSON | bytes, content_type: str | None) -> bytes:
    """The member of a payload in a record; empty without a payload.

    Raises:
        RecordError: the content type is not JSON, and the payload neither bytes nor text; or it is no JSON value.
    """
    if payload is None:
        return b""
    if not isinstance(payload, bytes):
        if not is_json_type(content_type) and not isinstance(payload, str):
            raise RecordError(f"a payload of type {content_type} is given as text or bytes")
        return b'"payload":' + dumped(payload, "payload")
    if is_json_type(content_type):
        return b'"payload":' + payload if stands_alone(payload) else base64_member("payloadBase64", payload)
    try:
        return string_member("payload", payload.decode())
    except UnicodeDecodeError:
        return base64_member("payloadBase64", payload)


def base64_member(name: str, content: bytes) -> bytes:
    """A member with the base64 of bytes."""
    return f'"{name}":"'.encode() + base64.b64encode(content) + b'"'


def string_member(name: str, text: str) -> bytes:
    """A member with a text as a JSON string."""
    return f'"{name}":'.encode() + dumped(text, name)


def json_member(name: str, value: JSON | bytes) -> bytes:
    """A member with a JSON value, or its text as bytes; empty without one.

    Raises:
        RecordError: the value is no JSON.
    """
    if value is None:
        return b""
    if isinstance(value, bytes):
        if not is_strict(value):
            raise RecordError(f"{name} is no JSON text of at most {MOST_LEVELS} levels")
        # In strict JSON line breaks are only between tokens.
        text = value.strip().replace(b"\r", b" ").replace(b"\n", b" ")
    else:
        text = dumped(value, name)
    return f'"{name}":'.encode() + text
