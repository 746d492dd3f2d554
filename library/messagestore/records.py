"""The records that a writer writes: Native messages and status updates, one JSON object a line."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from messagestore.errors import RecordError
from messagestore.jsontext import JSON, dumped, is_json_type, is_strict, stands_alone

Status = Literal["PROCESSING", "COMPLETED", "FAILED"]

LONGEST_TEXT = 1024
"""Bytes of an id, a name or another short field."""
LONGEST_ERROR = 32_768
"""Characters of an error; what is longer is cut."""

_LONG = 10**18


@dataclass(frozen=True)
class Record:
    """One record for a sink; records with one key stay in order."""

    key: str
    line: bytes


def message_record(
    message_id: str, stream_name: str, payload: JSON | bytes, fields: Mapping[str, Any], metadata: JSON | bytes
) -> Record:
    """A Native record.

    Args:
        message_id: the message's id.
        stream_name: its stream.
        payload: bytes are kept as they are; anything else is written as JSON, or as its text where
            ``contentType`` names no JSON type.
        fields: further members by their names in the record; None is left out.
        metadata: a JSON value, or its text as bytes; None is left out.

    Raises:
        RecordError: the store would set it aside.
    """
    if not message_id:
        raise RecordError("messageId is empty")
    _check_stream_name(stream_name)
    plain = {"messageId": message_id, "streamName": stream_name, **fields}
    head = {name: _plain(name, value) for name, value in plain.items() if value is not None}
    members = [_payload_member(payload, fields.get("contentType")), _json_member("metadata", metadata)]
    return Record(stream_name, _joined(dumped(head, "the record"), members))


def update_record(
    message_id: str, status: Status, at: datetime, result: JSON | bytes = None, error: str | None = None
) -> Record:
    """A status update.

    Raises:
        RecordError: the store would set it aside.
    """
    if not message_id:
        raise RecordError("messageId is empty")
    plain = {"messageId": message_id, "status": status, "time": at}
    head = {name: _plain(name, value) for name, value in plain.items()}
    if error is not None:
        head["error"] = error[:LONGEST_ERROR]
    return Record(message_id, _joined(dumped(head, "the update"), [_json_member("result", result)]))


def _joined(head: bytes, members: list[bytes]) -> bytes:
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


def _payload_member(payload: JSON | bytes, content_type: str | None) -> bytes:
    if payload is None:
        return b""
    if not isinstance(payload, bytes):
        if not is_json_type(content_type) and not isinstance(payload, str):
            raise RecordError(f"a payload of type {content_type} is given as text or bytes")
        return b'"payload":' + dumped(payload, "payload")
    if is_json_type(content_type):
        return b'"payload":' + payload if stands_alone(payload) else _base64_member(payload)
    try:
        return b'"payload":' + json.dumps(payload.decode(), ensure_ascii=False).encode()
    except UnicodeDecodeError:
        return _base64_member(payload)


def _base64_member(payload: bytes) -> bytes:
    return b'"payloadBase64":"' + base64.b64encode(payload) + b'"'


def _json_member(name: str, value: JSON | bytes) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        if not is_strict(value):
            raise RecordError(f"{name} is no JSON text")
        # Line breaks stand between its tokens only.
        text = value.strip().replace(b"\r", b" ").replace(b"\n", b" ")
    else:
        text = dumped(value, name)
    return json.dumps(name).encode() + b":" + text
