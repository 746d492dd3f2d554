"""The records of a writer: Native messages and status updates, one JSON object per line."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from messagestore.errors import RecordError
from messagestore.jsontext import JSON, dumped, is_json_type, is_strict, stands_alone

Status = Literal["PROCESSING", "COMPLETED", "FAILED", "RETRY"]

LONGEST_TEXT = 1024
"""The most bytes of an id, a name or another short field."""
LONGEST_ERROR = 32_768
"""The most characters of an error; a longer one is cut."""

_LONG = 10**18


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
        message_id: the message's id.
        stream_name: its stream.
        payload: bytes are kept as they are; anything else is written as JSON, or as its text where
            ``contentType`` names no JSON type.
        fields: further members by their names in the record, without those that are None.
        metadata: a JSON value, or its text as bytes; None: no member.

    Raises:
        RecordError: the store would make a dead letter of it.
    """
    if not message_id:
        raise RecordError("messageId is empty")
    _check_stream_name(stream_name)
    plain = {"messageId": message_id, "streamName": stream_name, **fields}
    head = {name: _plain(name, value) for name, value in plain.items() if value is not None}
    members = [payload_member(payload, fields.get("contentType")), json_member("metadata", metadata)]
    return Record(stream_name, joined(dumped(head, "the record"), members))


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
    if not message_id:
        raise RecordError("messageId is empty")
    plain = {"messageId": message_id, "status": status, "time": at, "attempt": from_one("attempt", attempt)}
    head = {name: _plain(name, value) for name, value in plain.items() if value is not None}
    if error is not None:
        head["error"] = error[:LONGEST_ERROR]
    return Record(message_id, joined(dumped(head, "the update"), [json_member("result", result)]))


def from_one(name: str, number: int | None) -> int | None:
    """Return a number that counts from 1 as it is.

    Raises:
        RecordError: it is smaller.
    """
    if number is not None and number < 1:
        raise RecordError(f"{name} is {number}; numbers begin at 1")
    return number


def joined(head: bytes, members: list[bytes]) -> bytes:
    """Add members to an object's text; empty ones are left out."""
    return b",".join([head[:-1], *(member for member in members if member)]) + b"}"


def _check_stream_name(name: str) -> None:
    if not name or name.startswith("-"):
        raise RecordError(f"streamName {name!r} has no category")


def _plain(name: str, value: Any) -> JSON:
    match value:
        case datetime():
            return _time(name, value)
        case timedelta():
            return _duration(name, value)
        case str() if len(value.encode(errors="surrogatepass")) > LONGEST_TEXT:
            raise RecordError(f"{name} is longer than {LONGEST_TEXT} bytes")
        case int() if abs(value) >= _LONG:
            raise RecordError(f"{name} is out of range")
        case Mapping():
            return dict(value)
        case _:
            return value


def _time(name: str, moment: datetime) -> str:
    if moment.tzinfo is None:
        raise RecordError(f"{name} has no time zone")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _duration(name: str, duration: timedelta) -> str:
    if duration < timedelta():
        raise RecordError(f"{name} is negative")
    whole = duration // timedelta(seconds=1)
    part = (duration % timedelta(seconds=1)) // timedelta(microseconds=1)
    return f"PT{whole}.{part:06}S" if part else f"PT{whole}S"


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
            raise RecordError(f"{name} is no JSON text")
        # In strict JSON line breaks are only between tokens.
        text = value.strip().replace(b"\r", b" ").replace(b"\n", b" ")
    else:
        text = dumped(value, name)
    return f'"{name}":'.encode() + text
