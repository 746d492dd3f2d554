"""What a seal covers, in this order: all that is given to a message once, but by Scrub.

A seal is ``v1=`` and the HMAC-SHA256, in hex, of the values one after the other: each its length in bytes, ``:`` and
its text in UTF-8, or ``-`` where it is null. Numbers are decimal, times in microseconds since 1970, booleans true or
false; headers are their number and ``;``, then names and values in the order of the names' bytes. The payload is
covered by its size and SHA-256. What a lifecycle changes, and where a payload lies, is not covered.
"""

PREFIX = "v1="
TEXTS = (
    "message_id",
    "stream_name",
    "type",
    "type_namespace",
    "type_revision",
    "correlation_id",
    "causation_id",
    "reply_to",
    "sequence_id",
    "metadata",
    "content_type",
    "payload_encoding",
    "payload_sha256",
    "ttl",
)
NUMBERS = (
    "position",
    "global_position",
    "sequence_number",
    "sequence_size",
    "sequence_end",
    "payload_size",
    "schema_version",
)
TIMES = ("expires_at", "time", "inserted_at")
HEADERS = "headers"
COLUMNS = (*TEXTS, *NUMBERS, *TIMES, HEADERS)
