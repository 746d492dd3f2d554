"""Keyed hashes that stand for what was erased, by a key that lies in the store."""

import hashlib
import hmac

KEY_OBJECT = "_tombstone_key"


def message_key(uri_key: bytes, message_id: str) -> str:
    """What stands in a tombstone for a message id: HMAC-SHA256, hex."""
    return hmac.new(uri_key, message_id.encode(), hashlib.sha256).hexdigest()


def stream_key(uri_key: bytes, stream_name: str) -> str:
    """What stands in ``heads`` for a stream that only erased messages had."""
    return message_key(uri_key, f"stream {stream_name}")
