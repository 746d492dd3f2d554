"""The tables of a store: their columns and properties."""

import pyarrow as pa

from messagestore_core import envelope

UTC = pa.timestamp("us", tz="UTC")

_REFUSALS = "array<struct<failed_at:timestamp,reason:string,detail:string,batch:string>>"
_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
    "timestamp": UTC,
    "array<string>": pa.list_(pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    envelope.HEADERS: pa.map_(pa.string(), pa.string()),
}
"""By their names in Spark SQL."""


def table(columns: str) -> pa.Schema:
    """The columns of a table, as they are declared in Spark SQL."""
    declared = (column.split(maxsplit=2) for column in columns.split(", "))
    return pa.schema([pa.field(name, _TYPES[kind], nullable=not rest) for name, kind, *rest in declared])


SOURCE = pa.struct(list(table("kind string, uri string, partition int, offset bigint")))
REFUSAL = pa.struct(list(table("failed_at timestamp, reason string, detail string, batch string")))
RECORD = pa.struct(
    [
        *table("key binary, value binary, value_is_payload boolean"),
        pa.field("headers", pa.list_(pa.struct(list(table("name string, value binary"))))),
        *table("timestamp bigint, timestamp_type string"),
    ]
)
_TYPES |= {envelope.SOURCE: SOURCE, envelope.RECORD: RECORD, _REFUSALS: pa.list_(REFUSAL)}

MESSAGES = pa.schema(
    [pa.field(field.column, _TYPES[field.type], nullable=not field.required) for field in envelope.COLUMNS]
)

DEAD_LETTERS = table(
    f"raw binary, source {envelope.SOURCE}, reason string NOT NULL, detail string, failed_at timestamp NOT NULL, "
    f"redriven_at timestamp, redriven_by string, batch string, headers {envelope.HEADERS}, tries int, "
    f"earlier {_REFUSALS}, cut boolean, message_id string, stream_name string, correlation_id string"
)
"""``batch`` is the ingest batch that set the record aside, so that a repeated batch recognizes its own.

``headers`` has a Kafka record's headers, key and time. ``tries`` is how often it was set aside, null for once;
``earlier`` has the refusals before the last, oldest first. ``cut`` says whether ``raw`` has only a part of the record's
bytes; null where an earlier release set it aside. ``message_id``, ``stream_name`` and ``correlation_id`` are those of
its message, as far as the record tells them; rows of earlier releases have none.
"""

HEADS = table("stream_name string, next_position bigint, next_global_position bigint, stream_key string")
"""One row for each stream that a purge took messages from, as of then; ``messages`` may have later ones.

``next_global_position`` is set in the one row that has neither stream_name nor stream_key. ``stream_key`` is the hash
of the name of a stream that only erased messages had: see ``keyed.stream_key``.
"""

PENDING_UPDATES = table(
    "message_id string NOT NULL, status string NOT NULL, result binary, error string, time timestamp, "
    f"received_at timestamp NOT NULL, source {envelope.SOURCE}, attempt bigint, raw binary, after bigint, "
    "source_id string, batch bigint, row bigint, taken bigint"
)
"""``after`` is the last global position when its message was not found: only later messages can be it.

``source_id``, ``batch`` and ``row`` are the batch that brought it, and its row there. ``taken`` is the number of the
step that applies it.
"""

TOMBSTONES = table("message_key string NOT NULL, erased_at timestamp NOT NULL, run string, global_position bigint")
"""``global_position`` is that of the erased message: by it a replay that selected the message knows why it is gone."""

AUDIT = table(
    "at timestamp NOT NULL, action string NOT NULL, run string NOT NULL, refers_to string, actor string, "
    "resource string, generation bigint, rules string, table_version_before bigint, table_version_after bigint, "
    "counts map<string,bigint>, bytes bigint, requested_by string"
)
"""``rules`` is JSON; ``refers_to`` is the run whose row an erasure completes.

``requested_by`` is who asked, where known: ``fieldManager:NAME`` of Kubernetes, ``user:NAME`` of a local run.
"""

FILES = table(
    "source_id string NOT NULL, batch bigint NOT NULL, at timestamp NOT NULL, uri string NOT NULL, "
    "size bigint NOT NULL, modified_at timestamp NOT NULL, start bigint NOT NULL, end bigint NOT NULL, "
    "cut boolean, judged_by string, digest string, generation int, compression string, from bigint, to bigint"
)
"""One row for each range of a source file in a batch; written before the batch, in force once it is committed.

``cut`` says whether the batch set aside a record of the file with only a part of its bytes, so that the file must stay;
null where an earlier release read it. ``judged_by`` is a digest of all that the batch's verdicts depend on besides the
records and the store; null where an earlier release planned the batch. ``digest`` is the SHA-256 of the range's bytes,
where records are identified by their places; null elsewhere, and where an earlier release planned the batch.
``generation`` counts the contents that the store has read at this URI; null in rows of earlier releases, which count as
the first. ``compression`` is gzip, zstd, bzip2 or none, by the file's first bytes; null where no batch had to know it,
and in rows of earlier releases, which read by the name. Of a file that can't be cut by its bytes and has more than a
batch holds, the batch read the records that begin in [``from``, ``to``) of what the file unpacks to; ``start`` and
``end`` then tell about which part of the stored bytes that is. ``from`` is null where the file was read at once, ``to``
where it was read to its end.
"""

OFFSETS = table(
    "source_id string NOT NULL, batch bigint NOT NULL, at timestamp NOT NULL, topic string NOT NULL, "
    "topic_id string NOT NULL, partition int NOT NULL, start bigint NOT NULL, end bigint NOT NULL, "
    "latest bigint NOT NULL, lost string, judged_by string, generation int"
)
"""One row for each range of Kafka offsets in a batch, like ``files``.

``latest`` is the end of the partition when the batch was planned. ``lost`` says why a range could not be read, and is
null for ranges that were read. ``generation`` counts the topics of this name that the store has read; null in rows of
earlier releases.
"""

PURGED_IDS = table("message_key binary NOT NULL, purged_at timestamp NOT NULL, purged_date date NOT NULL")
"""``message_key`` is the first 16 bytes of the hash of a tombstone; ``purged_date`` (UTC) partitions the table.

The rows of a purge that broke off may be there twice.
"""

HISTORY_ROWS = table(
    "message_id string NOT NULL, global_position bigint NOT NULL, inserted_date date NOT NULL, "
    "at timestamp NOT NULL, attempt int NOT NULL, from_status string NOT NULL, to_status string NOT NULL, "
    "next_retry_at timestamp, error string, run string NOT NULL, step_id string NOT NULL, step bigint NOT NULL, "
    "table_version bigint NOT NULL, row bigint NOT NULL"
)
"""One row for each change of a message's lifecycle; ``inserted_date`` is the message's, and partitions the table.

``attempt`` is the one that failed, or else the one that the message is in. ``step_id`` and ``step`` are the transaction
of the commit on ``messages`` that makes the change: until then the row doesn't count. Rows are in order by the version
of ``messages`` before it, and by their place in the step, ``row``.
"""

TABLES: dict[str, pa.Schema] = {
    "messages": MESSAGES,
    "dead_letters": DEAD_LETTERS,
    "heads": HEADS,
    "pending_updates": PENDING_UPDATES,
    "tombstones": TOMBSTONES,
    "audit": AUDIT,
    "files": FILES,
    "offsets": OFFSETS,
}
"""The tables that every store has."""

REMEMBERED = "purged_ids"
"""The table of stores that remember purged ids."""
HISTORY = "history"
"""The table of stores whose messages have changed; it is made with its first row."""
OPTIONAL = {REMEMBERED: PURGED_IDS, HISTORY: HISTORY_ROWS}
"""The tables that not every store has."""
EVERY_TABLE = TABLES | OPTIONAL
PARTITIONS = {"messages": "inserted_date", REMEMBERED: "purged_date", HISTORY: "inserted_date"}
"""The column that a table is partitioned by."""

GROWN = ("messages", "dead_letters", "heads", "pending_updates", "tombstones", "audit", "files", "offsets")
"""The tables with columns that are newer than format 1; an upgrade adds them: see ``folder``."""

_CHECKPOINTS = "delta.checkpointInterval"
PROPERTIES = {
    # Checkpoints delete no entries of the log, as only maintenance knows which are still needed.
    "delta.enableExpiredLogCleanup": "false",
    # Whoever opens a table reads each commit since the last checkpoint; each run commits to each table.
    _CHECKPOINTS: "10",
}
"""Of every table."""

_STATISTICS = "delta.dataSkippingStatsColumns"
_EARLIER_STATISTICS = "global_position,position,stream_name,time,inserted_at,expires_at,status,sequence_id"

MESSAGES_PROPERTIES = PROPERTIES | {
    # The columns that reads filter by. By default 32 columns would have statistics, at a fifth of a write's time.
    _STATISTICS: f"{_EARLIER_STATISTICS},category,message_id,correlation_id",
}


_PLANNED_IN = ("files", "offsets")
"""The tables of plans: each run commits to one, and to open it reads each commit since the last checkpoint twice."""


def properties(name: str) -> dict[str, str]:
    """The properties that a table is made with."""
    if name == "messages":
        return MESSAGES_PROPERTIES
    return PROPERTIES | {_CHECKPOINTS: "5"} if name in _PLANNED_IN else PROPERTIES


def checkpoint_interval(name: str) -> int:
    """How many versions of a table have one checkpoint."""
    return int(properties(name)[_CHECKPOINTS])


def earlier_properties(name: str) -> dict[str, tuple[str, ...]]:
    """The properties that earlier releases made a table with, each with its values; it has them until an upgrade."""
    if name == "messages":
        return {_STATISTICS: (_EARLIER_STATISTICS,), _CHECKPOINTS: ("50", "20")}
    return {_CHECKPOINTS: ("10",)} if name in _PLANNED_IN else {}


def literal(text: str) -> str:
    """A text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"
