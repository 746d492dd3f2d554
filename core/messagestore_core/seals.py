"""The seal of a message. It covers ``COLUMNS``: all that never changes but by Scrub.

A seal is ``v2=``, the key's id, ``=`` and the HMAC-SHA256, in hex, of the concatenated values: each its length in
bytes, ``:`` and its text in UTF-8, or ``-`` for null. Numbers are decimal, times in microseconds since 1970, booleans
true or false; headers are their number and ``;``, then names and values in the order of the names' bytes. Size and
SHA-256 cover the payload. The seal does not cover lifecycle columns and ``payload_uri``.

Column ``record`` adds nothing where it is null. Elsewhere it is last: its key and value as their SHA-256 in hex,
whether the value is the payload, the number of headers and ``;``, of each header the name and the SHA-256 of the value
in their order, the timestamp and its type.

A key's id is the first 8 digits of its HMAC-SHA256 of the text ``messagestore seal``. Seals of earlier releases are
``v1=`` and the HMAC alone.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from messagestore_core import envelope

PREFIX, EARLIER = "v2=", "v1="
_SEALED = {field.column: field.type for field in envelope.COLUMNS if field.sealed}
TEXTS = tuple(column for column, kind in _SEALED.items() if kind == "string")
NUMBERS = tuple(column for column, kind in _SEALED.items() if kind in ("bigint", "int", "boolean"))
TIMES = tuple(column for column, kind in _SEALED.items() if kind == "timestamp")
HEADERS = "headers"
RECORD = "record"
COLUMNS = (*TEXTS, *NUMBERS, *TIMES, HEADERS, RECORD)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def prefix(key: str) -> str:
    """How the seals of a key begin."""
    return f"{PREFIX}{_hmac(key, b'messagestore seal')[:8]}="


def seal(key: str, row: Mapping[str, Any]) -> str:
    """The seal of a row of ``messages``; headers are a mapping or pairs."""
    return prefix(key) + _hmac(key, _text(row))


def is_sealed(keys: Sequence[str], row: Mapping[str, Any]) -> bool:
    """Whether a row matches its seal, by one of the keys; False without a seal."""
    given = row["hmac"] or ""
    own = [(begin, key) for key in keys for begin in (prefix(key), EARLIER) if given.startswith(begin)]
    if not own:
        return False
    text = _text(row)
    return any(hmac.compare_digest(given.encode(), (begin + _hmac(key, text)).encode()) for begin, key in own)


def _hmac(key: str, text: bytes) -> str:
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()


def _text(row: Mapping[str, Any]) -> bytes:
    own = {HEADERS: _headers, RECORD: _record}
    return b"".join(own.get(name, _counted)(row[name]) for name in COLUMNS)


def _headers(headers: Any) -> bytes:
    if headers is None:
        return b"-"
    pairs = sorted(dict(headers).items(), key=lambda pair: pair[0].encode())
    return b"%d;" % len(pairs) + b"".join(_counted(name) + _counted(value) for name, value in pairs)


def _record(record: Any) -> bytes:
    if record is None:
        return b""
    digests = [_digest(record["key"]), _digest(record["value"]), _counted(record["value_is_payload"])]
    headers = [_counted(header["name"]) + _digest(header["value"]) for header in record["headers"]]
    about = [_counted(record["timestamp"]), _counted(record["timestamp_type"])]
    return b"".join([*digests, b"%d;" % len(headers), *headers, *about])


def _digest(content: bytes | None) -> bytes:
    return _counted(None if content is None else hashlib.sha256(content).hexdigest())


def _counted(value: Any) -> bytes:
    if value is None:
        return b"-"
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, datetime):
        value = (value - _EPOCH) // timedelta(microseconds=1)
    content = str(value).encode()
    return b"%d:" % len(content) + content
