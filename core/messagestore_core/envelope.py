"""The fields of a message: one list, from which tables, records, predicates, seals and translators take theirs.

Their order is that of the columns of ``messages``, and of the members of a seal.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from pydantic.alias_generators import to_camel

SOURCE = "struct<kind:string,uri:string,partition:int,offset:bigint>"
HEADERS = "map<string,string>"
RECORD = (
    "struct<key:binary,value:binary,value_is_payload:boolean,headers:array<struct<name:string,value:binary>>,"
    "timestamp:bigint,timestamp_type:string>"
)


@dataclass(frozen=True)
class Field:
    """A field of a message: a column of ``messages``, and most also a field of a record.

    Attributes:
        column: its column.
        type: of the column, as Spark SQL calls it.
        of: where its value comes from. Record: from a field of the record, which a Custom envelope can map. Arrival:
            known as the record is read. Store: set when the message is stored, or later. Internal: as Store, but no
            reader has it.
        stored: whether there is such a column; if not, only ingest reads the record's field.
        required: whether the column is never null.
        translated: whether a translator can change it; only of texts.
        sealed: whether seals cover it; a further one would make all seals of before wrong.
        lasting: whether it never changes, neither by the lifecycle nor by a scrub.
        omitted: whether files lack the column if no record of their stream can have the field.
    """

    column: str
    type: str = "string"
    of: Literal["Record", "Arrival", "Store", "Internal"] = "Record"
    _: KW_ONLY
    stored: bool = True
    required: bool = False
    translated: bool = False
    sealed: bool = False
    lasting: bool = True
    omitted: bool = False

    @property
    def name(self) -> str:
        """Its name in records and manifests."""
        return to_camel(self.column)


FIELDS = (
    Field("message_id", required=True, sealed=True),
    Field("stream_name", required=True, sealed=True),
    Field("category", required=True),
    Field("stream_id", stored=False),
    Field("position", "bigint", "Store", required=True, sealed=True),
    Field("global_position", "bigint", "Store", required=True, sealed=True),
    Field("type", translated=True, sealed=True),
    Field("type_namespace", translated=True, sealed=True, omitted=True),
    Field("type_revision", translated=True, sealed=True, omitted=True),
    Field("correlation_id", translated=True, sealed=True),
    Field("causation_id", translated=True, sealed=True, omitted=True),
    Field("reply_to", translated=True, sealed=True, omitted=True),
    Field("sequence_id", translated=True, sealed=True),
    Field("sequence_number", "bigint", sealed=True, omitted=True),
    Field("sequence_size", "bigint", sealed=True, omitted=True),
    Field("sequence_end", "boolean", sealed=True, omitted=True),
    Field("headers", HEADERS, sealed=True, lasting=False),
    Field("metadata", sealed=True, lasting=False, omitted=True),
    Field("payload", "binary", lasting=False),
    Field("content_type", translated=True, sealed=True),
    Field("payload_encoding", translated=True, sealed=True, omitted=True),
    Field("payload_uri", "string", "Store", lasting=False),
    Field("payload_size", "bigint", "Arrival", sealed=True, lasting=False),
    Field("payload_sha256", "string", "Arrival", sealed=True, lasting=False),
    Field("schema_version", "int", sealed=True, omitted=True),
    Field("status", required=True, lasting=False),
    Field("result", "binary", lasting=False, omitted=True),
    Field("error", lasting=False, omitted=True),
    Field("retries", "int", "Store", required=True, lasting=False),
    Field("next_retry_at", "timestamp", "Store", lasting=False),
    Field("ttl", sealed=True, omitted=True),
    Field("expires_at", "timestamp", sealed=True),
    Field("time", "timestamp", required=True, sealed=True),
    Field("inserted_at", "timestamp", "Store", required=True, sealed=True),
    Field("updated_at", "timestamp", "Store", lasting=False),
    Field("scrubbed_at", "timestamp", "Store", lasting=False),
    Field("source", SOURCE, "Arrival"),
    Field("inserted_date", "date", "Internal", required=True),
    Field("hmac", "string", "Internal", lasting=False),
    Field("scrubs", "array<string>", "Internal", lasting=False, omitted=True),
    Field("record", RECORD, "Internal", sealed=True, lasting=False, omitted=True),
    Field("expected_version", "bigint", stored=False),
)
"""``inserted_date`` (UTC, of inserted_at) partitions the table, so that whole days are deleted without being read.

``scrubs`` says what scrubs have removed from the row, and how. ``hmac`` is the message's seal, where its stream has a
key. ``record`` is the Kafka record as it came, where its source keeps it; its ``value`` is null if there was none, and
where ``value_is_payload``. Seals cover a record that is there. A new column comes behind the last one, as an upgrade
adds it there to the tables of before.
"""
COLUMNS = tuple(field for field in FIELDS if field.stored)
"""The columns of ``messages``."""
READ = tuple(field for field in COLUMNS if field.of != "Internal")
"""The columns that readers have: attributes of a message, and names in predicates."""
MAPPED = tuple(field for field in FIELDS if field.of == "Record")
"""The fields of a record, which a Custom envelope maps."""
