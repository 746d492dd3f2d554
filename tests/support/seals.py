"""Seals of rows in Python."""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from messagestore_jobs.integrity import COLUMNS, HEADERS, PREFIX

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seal(key: str, row: Mapping[str, Any]) -> str:
    """The seal of a message, from the columns of ``messages``; headers are a mapping or pairs."""
    text = b"".join(_headers(row[name]) if name == HEADERS else _counted(row[name]) for name in COLUMNS)
    return PREFIX + hmac.new(key.encode(), text, hashlib.sha256).hexdigest()


def is_sealed(key: str, row: Mapping[str, Any]) -> bool:
    """Whether a row matches its seal; False without a seal."""
    return row["hmac"] is not None and hmac.compare_digest(row["hmac"].encode(), seal(key, row).encode())


def _headers(headers: Any) -> bytes:
    if headers is None:
        return b"-"
    pairs = sorted(dict(headers).items(), key=lambda pair: pair[0].encode())
    return b"%d;" % len(pairs) + b"".join(_counted(name) + _counted(value) for name, value in pairs)


def _counted(value: Any) -> bytes:
    if value is None:
        return b"-"
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, datetime):
        value = (value - _EPOCH) // timedelta(microseconds=1)
    content = str(value).encode()
    return b"%d:" % len(content) + content
