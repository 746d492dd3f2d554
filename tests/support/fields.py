"""Fields of the envelope by what they may have."""

from messagestore_core.envelope import MAPPED

_OF_A_FORM = ("message_id", "stream_name", "category", "metadata", "content_type", "status", "error", "ttl")
TEXTS = {
    field.column: field.name
    for field in MAPPED
    if field.stored and field.type == "string" and field.column not in _OF_A_FORM
}
"""The columns that have any text, and their fields in records."""
