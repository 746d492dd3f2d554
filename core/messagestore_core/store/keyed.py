"""Keyed hashes in place of erased names, by a key in the store."""

import hashlib
import hmac

KEY_OBJECT = "_tombstone_key"


def message_key(uri_key: bytes, message_id: str) -> str:
    """The hash of a message id in a tombstone: HMAC-SHA256 in hex."""
    return hmac.new(uri_key, message_id.encode(), hashlib.sha256).hexdigest()


def stream_key(uri_key: bytes, stream_name: str) -> str:
    """The hash in ``heads`` of the name of a stream that only erased messages had."""
    return message_key(uri_key, f"stream {stream_name}")
