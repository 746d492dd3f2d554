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
    """The columns for one use. json() reads `documents`; `absent` are columns that exist only later."""

    location: str
    kinds: Mapping[str, Kind]
    documents: frozenset[str]
    absent: frozenset[str] = field(default=frozenset())

    def explain(self, name: str) -> str:
        """Say why `name` cannot be read, and which column was probably meant."""
        snake = sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        if snake in self.absent:
            return f"{snake} is not known yet {self.location}"
        near = [snake] if snake in self.kinds else get_close_matches(snake[:64], self.kinds, n=1)
        hint = f"did you mean {near[0]}?" if near else f"columns are {', '.join(self.kinds)}"
        return f"there is no such column {self.location}; {hint}"


def _kinds(**names: str) -> Mapping[str, Kind]:
    """The kind of each column, by the names of each kind."""
    return MappingProxyType({name: Kind[kind] for kind, of in names.items() for name in of.split()})


_MESSAGES = _kinds(
    TEXT="message_id stream_name category type type_namespace type_revision correlation_id causation_id reply_to "
    "sequence_id metadata content_type payload_encoding payload_uri payload_sha256 status error ttl",
    NUMBER="position global_position sequence_number sequence_size payload_size schema_version retries",
    BOOLEAN="sequence_end",
    TIMESTAMP="time expires_at next_retry_at inserted_at updated_at scrubbed_at",
    BINARY="payload result",
    MAP="headers",
    STRUCT="source",
)
# Columns that the store sets after the filter. `inserted_at` is the clock of the run: a repeated batch would be
# filtered differently.
_ADDED_BY_STORE = _kinds(
    TEXT="payload_uri",
    NUMBER="position global_position retries",
    TIMESTAMP="next_retry_at inserted_at updated_at scrubbed_at",
)
_DOCUMENTS = frozenset({"payload", "metadata", "result"})

MESSAGE_COLUMNS = ColumnSet("in messages", _MESSAGES, _DOCUMENTS)

FILTER_COLUMNS = ColumnSet(
    "when a message arrives",
    MappingProxyType({name: kind for name, kind in _MESSAGES.items() if name not in _ADDED_BY_STORE}),
    _DOCUMENTS,
    frozenset(_ADDED_BY_STORE),
)

DEAD_LETTER_COLUMNS = ColumnSet(
    "in dead letters",
    _kinds(
        TEXT="reason detail redriven_by message_id stream_name correlation_id",
        TIMESTAMP="failed_at redriven_at",
        BINARY="raw",
        STRUCT="source",
    ),
    frozenset({"raw"}),
)
