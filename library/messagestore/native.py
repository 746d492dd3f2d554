"""A message as a Native record: the JSON that replays send and streams ingest."""

from datetime import datetime
from typing import Any

from messagestore.jsontext import dumped, is_strict
from messagestore.message import Message
from messagestore.records import base64_member, joined, json_member, payload_member, string_member
from messagestore_core.clock import rfc3339
from messagestore_core.envelope import READ

_MEMBERS = [field for field in READ if field.column not in ("metadata", "payload", "payload_uri", "result")]


def native_record(message: Message) -> bytes:
    """One JSON object on one line; payload, metadata and result are the exact text that was stored.

    Absent fields are left out. So is ``payload_uri``: the record has the payload itself.
    """
    members = [
        _document("metadata", None if message.metadata is None else message.metadata.encode()),
        payload_member(message.payload, message.content_type),
        _document("result", message.result),
    ]
    return joined(dumped(head(message), "message"), members)


def head(message: Message) -> dict[str, Any]:
    """All members but metadata, payload and result, by their names in the record."""
    values = {field.name: getattr(message, field.column) for field in _MEMBERS}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if one is not None}
    return value


def _document(name: str, content: bytes | None) -> bytes:
    """A member with JSON text; content that is no JSON becomes a string."""
    if content is None:
        return b""
    if is_strict(content):
        return json_member(name, content)
    try:
        return string_member(name, content.decode())
    except UnicodeDecodeError:
        return base64_member(name, content)
