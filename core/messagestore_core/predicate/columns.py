"""The columns that a predicate may read, by where it is used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from re import sub
from types import MappingProxyType

from messagestore_core import envelope


class Kind(Enum):
    """The type of an expression, as coarse as predicates need; the value is its name in error messages."""

    BOOLEAN = "a condition"
    NUMBER = "a number"
    TEXT = "text"
    BINARY = "bytes"
    TIMESTAMP = "a time"
    INTERVAL = "an interval"
    MAP = "a map"
    STRUCT = "a struct"
    REFUSED = "refused"


SOURCE_FIELDS: Mapping[str, Kind] = MappingProxyType(
    {"kind": Kind.TEXT, "uri": Kind.TEXT, "partition": Kind.NUMBER, "offset": Kind.NUMBER}
)


@dataclass(frozen=True)
class ColumnSet:
    """The columns for one use. json() reads ``documents``; ``absent`` are columns that exist only later."""

    location: str
    kinds: Mapping[str, Kind]
    documents: frozenset[str]
    absent: frozenset[str] = field(default=frozenset())

    def explain(self, name: str) -> str:
        """Say why ``name`` cannot be read, and which column was probably meant."""
        snake = sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        if snake in self.absent:
            return f"{snake} is not known yet {self.location}"
        near = [snake] if snake in self.kinds else get_close_matches(snake[:64], self.kinds, n=1)
        hint = f"did you mean {near[0]}?" if near else f"columns are {', '.join(self.kinds)}"
        return f"there is no such column {self.location}; {hint}"


_KINDS = {
    "string": Kind.TEXT,
    "binary": Kind.BINARY,
    "boolean": Kind.BOOLEAN,
    "int": Kind.NUMBER,
    "bigint": Kind.NUMBER,
    "timestamp": Kind.TIMESTAMP,
    envelope.HEADERS: Kind.MAP,
    envelope.SOURCE: Kind.STRUCT,
}
_MESSAGES = MappingProxyType({field.column: _KINDS[field.type] for field in envelope.READ})
# Columns that the store sets after the filter. `inserted_at` is the clock of the run: a repeated batch would be
# filtered differently.
_ADDED_BY_STORE = frozenset(field.column for field in envelope.READ if field.of == "Store")
_DOCUMENTS = frozenset({"payload", "metadata", "result"})

MESSAGE_COLUMNS = ColumnSet("in messages", _MESSAGES, _DOCUMENTS)

_OF_LIFECYCLE = frozenset({"status", "result", "error", "retries", "next_retry_at", "updated_at", "scrubbed_at"})

SUBSCRIPTION_COLUMNS = ColumnSet(
    "for a subscription, which looks at a message once",
    MappingProxyType({name: kind for name, kind in _MESSAGES.items() if name not in _OF_LIFECYCLE}),
    _DOCUMENTS - _OF_LIFECYCLE,
)
"""Those that neither the lifecycle nor an update changes."""

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
            "reason": Kind.TEXT,
            "detail": Kind.TEXT,
            "redriven_by": Kind.TEXT,
            "message_id": Kind.TEXT,
            "stream_name": Kind.TEXT,
            "correlation_id": Kind.TEXT,
            "failed_at": Kind.TIMESTAMP,
            "redriven_at": Kind.TIMESTAMP,
            "raw": Kind.BINARY,
            "source": Kind.STRUCT,
        }
    ),
    frozenset({"raw"}),
)
