"""The columns that a predicate may read, by where it is used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from re import sub
from types import MappingProxyType


class Kind(Enum):
    """The type of an expression, as coarse as predicates need; the value is its name in error messages."""

    BOOLEAN = "a condition"
    NUMBER = "a number"
    TEXT = "text"
    BINARY = "bytes"
    DATE = "a date"
    TIMESTAMP = "a time"
    INTERVAL = "an interval"
    MAP = "a map"
    LIST = "a list"
    STRUCT = "a struct"
    NULL = "NULL"
    UNKNOWN = "refused"


SOURCE_FIELDS: Mapping[str, Kind] = MappingProxyType(
    {"kind": Kind.TEXT, "uri": Kind.TEXT, "partition": Kind.NUMBER, "offset": Kind.NUMBER}
)


@dataclass(frozen=True)
class ColumnSet:
    """The columns for one use. json() reads `documents`; `absent` are columns that exist only later."""

    place: str
    kinds: Mapping[str, Kind]
    documents: frozenset[str]
    absent: frozenset[str] = field(default=frozenset())

    def explain(self, name: str) -> str:
        """Say why `name` cannot be read, and which column was probably meant."""
        snake = sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        if snake in self.absent:
            return f"{snake} is not known yet {self.place}"
        near = [snake] if snake in self.kinds else get_close_matches(snake[:64], self.kinds, n=1)
        hint = f"did you mean {near[0]}?" if near else f"columns are {', '.join(self.kinds)}"
        return f"there is no such column {self.place}; {hint}"


_MESSAGES: Mapping[str, Kind] = MappingProxyType(
    {
        "message_id": Kind.TEXT,
        "stream_name": Kind.TEXT,
        "category": Kind.TEXT,
        "position": Kind.NUMBER,
        "global_position": Kind.NUMBER,
        "type": Kind.TEXT,
        "type_namespace": Kind.TEXT,
        "type_revision": Kind.TEXT,
        "correlation_id": Kind.TEXT,
        "causation_id": Kind.TEXT,
        "reply_to": Kind.TEXT,
        "sequence_id": Kind.TEXT,
        "sequence_number": Kind.NUMBER,
        "sequence_size": Kind.NUMBER,
        "sequence_end": Kind.BOOLEAN,
        "headers": Kind.MAP,
        "metadata": Kind.TEXT,
        "payload": Kind.BINARY,
        "content_type": Kind.TEXT,
        "payload_encoding": Kind.TEXT,
        "payload_uri": Kind.TEXT,
        "payload_size": Kind.NUMBER,
        "payload_sha256": Kind.TEXT,
        "schema_version": Kind.NUMBER,
        "status": Kind.TEXT,
        "result": Kind.BINARY,
        "error": Kind.TEXT,
        "retries": Kind.NUMBER,
        "next_retry_at": Kind.TIMESTAMP,
        "ttl": Kind.TEXT,
        "expires_at": Kind.TIMESTAMP,
        "time": Kind.TIMESTAMP,
        "inserted_at": Kind.TIMESTAMP,
        "updated_at": Kind.TIMESTAMP,
        "scrubbed_at": Kind.TIMESTAMP,
        "source": Kind.STRUCT,
    }
)

# Columns that the store sets after the filter. `inserted_at` is the clock of the run: a repeated batch would be
# filtered differently.
_ADDED_BY_STORE = frozenset(
    {
        "position",
        "global_position",
        "payload_uri",
        "retries",
        "next_retry_at",
        "inserted_at",
        "updated_at",
        "scrubbed_at",
    }
)
_DOCUMENTS = frozenset({"payload", "metadata", "result"})

MESSAGE_COLUMNS = ColumnSet("in messages", _MESSAGES, _DOCUMENTS)

FILTER_COLUMNS = ColumnSet(
    "when a message arrives",
    MappingProxyType({name: kind for name, kind in _MESSAGES.items() if name not in _ADDED_BY_STORE}),
    _DOCUMENTS,
    _ADDED_BY_STORE,
)

DEAD_LETTER_COLUMNS = ColumnSet(
    "in dead letters",
    MappingProxyType(
        {
            "raw": Kind.BINARY,
            "source": Kind.STRUCT,
            "reason": Kind.TEXT,
            "detail": Kind.TEXT,
            "failed_at": Kind.TIMESTAMP,
            "redriven_at": Kind.TIMESTAMP,
            "redriven_by": Kind.TEXT,
            "message_id": Kind.TEXT,
            "stream_name": Kind.TEXT,
            "correlation_id": Kind.TEXT,
        }
    ),
    frozenset({"raw"}),
)
