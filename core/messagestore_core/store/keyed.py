"""Keyed hashes in place of erased names. Readers of a store import this alone, as they need no numpy."""

import hashlib
import hmac


def message_key(key: bytes, message_id: str) -> str:
    """The hash of a message id in a tombstone: HMAC-SHA256 in hex."""
    return hmac.new(key, message_id.encode(), hashlib.sha256).hexdigest()


def stream_key(key: bytes, stream_name: str) -> str:
    """The hash in ``heads`` of the name of a stream that only erased messages had."""
    return message_key(key, f"stream {stream_name}")
