"""The tables of a store: their columns and properties."""

import pyarrow as pa

from messagestore_core import envelope

UTC = pa.timestamp("us", tz="UTC")

SOURCE = pa.struct(
    [
        pa.field("kind", pa.string()),
        pa.field("uri", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
    ]
)

RECORD = pa.struct(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("value_is_payload", pa.bool_()),
        pa.field("headers", pa.list_(pa.struct([pa.field("name", pa.string()), pa.field("value", pa.binary())]))),
        pa.field("timestamp", pa.int64()),
        pa.field("timestamp_type", pa.string()),
    ]
)

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
    "timestamp": UTC,
    "array<string>": pa.list_(pa.string()),
    envelope.HEADERS: pa.map_(pa.string(), pa.string()),
    envelope.SOURCE: SOURCE,
    envelope.RECORD: RECORD,
}
"""By their names in Spark SQL."""

MESSAGES = pa.schema(
    [pa.field(field.column, _TYPES[field.type], nullable=not field.required) for field in envelope.COLUMNS]
)

REFUSAL = pa.struct(
    [
        pa.field("failed_at", UTC),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("batch", pa.string()),
    ]
)

DEAD_LETTERS = pa.schema(
    [
        pa.field("raw", pa.binary()),
        pa.field("source", SOURCE),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
        pa.field("failed_at", UTC, nullable=False),
        pa.field("redriven_at", UTC),
        pa.field("redriven_by", pa.string()),
        pa.field("batch", pa.string()),
        pa.field("headers", pa.map_(pa.string(), pa.string())),
        pa.field("tries", pa.int32()),
        pa.field("earlier", pa.list_(REFUSAL)),
        pa.field("cut", pa.bool_()),
        pa.field("message_id", pa.string()),
        pa.field("stream_name", pa.string()),
        pa.field("correlation_id", pa.string()),
    ]
)
"""``batch`` is the ingest batch that set the record aside, so that a repeated batch recognizes its own.

``headers`` has a Kafka record's headers, key and time. ``tries`` is how often it was set aside, null for once;
``earlier`` has the refusals before the last, oldest first. ``cut`` says whether ``raw`` has only a part of the record's
bytes; null where an earlier release set it aside. ``message_id``, ``stream_name`` and ``correlation_id`` are those of
its message, as far as the record tells them; rows of earlier releases have none.
"""

HEADS = pa.schema(
    [
        pa.field("stream_name", pa.string()),
        pa.field("next_position", pa.int64()),
        pa.field("next_global_position", pa.int64()),
        pa.field("stream_key", pa.string()),
    ]
)
"""One row for each stream that a purge took messages from, as of then; ``messages`` may have later ones.

``next_global_position`` is set in the one row that has neither stream_name nor stream_key. ``stream_key`` is the hash
of the name of a stream that only erased messages had: see ``keyed.stream_key``.
"""

PENDING_UPDATES = pa.schema(
    [
        pa.field("message_id", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("result", pa.binary()),
        pa.field("error", pa.string()),
        pa.field("time", UTC),
        pa.field("received_at", UTC, nullable=False),
        pa.field("source", SOURCE),
        pa.field("attempt", pa.int64()),
        pa.field("raw", pa.binary()),
        pa.field("after", pa.int64()),
        pa.field("source_id", pa.string()),
        pa.field("batch", pa.int64()),
        pa.field("row", pa.int64()),
        pa.field("taken", pa.int64()),
    ]
)
"""``after`` is the last global position when its message was not found: only later messages can be it.

``source_id``, ``batch`` and ``row`` are the batch that brought it, and its row there. ``taken`` is the number of the
step that applies it.
"""

TOMBSTONES = pa.schema(
    [
        pa.field("message_key", pa.string(), nullable=False),
        pa.field("erased_at", UTC, nullable=False),
        pa.field("run", pa.string()),
        pa.field("global_position", pa.int64()),
    ]
)
"""``global_position`` is that of the erased message: by it a replay that selected the message knows why it is gone."""

AUDIT = pa.schema(
    [
        pa.field("at", UTC, nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("refers_to", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("resource", pa.string()),
        pa.field("generation", pa.int64()),
        pa.field("rules", pa.string()),
        pa.field("table_version_before", pa.int64()),
        pa.field("table_version_after", pa.int64()),
        pa.field("counts", pa.map_(pa.string(), pa.int64())),
        pa.field("bytes", pa.int64()),
        pa.field("requested_by", pa.string()),
    ]
)
"""``rules`` is JSON; ``refers_to`` is the run whose row an erasure completes.

``requested_by`` is who asked, where known: ``fieldManager:NAME`` of Kubernetes, ``user:NAME`` of a local run.
"""

FILES = pa.schema(
    [
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("at", UTC, nullable=False),
        pa.field("uri", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified_at", UTC, nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("cut", pa.bool_()),
        pa.field("judged_by", pa.string()),
        pa.field("digest", pa.string()),
        pa.field("generation", pa.int32()),
        pa.field("compression", pa.string()),
        pa.field("from", pa.int64()),
        pa.field("to", pa.int64()),
    ]
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

OFFSETS = pa.schema(
    [
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("at", UTC, nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("topic_id", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("latest", pa.int64(), nullable=False),
        pa.field("lost", pa.string()),
        pa.field("judged_by", pa.string()),
        pa.field("generation", pa.int32()),
    ]
)
"""One row for each range of Kafka offsets in a batch, like ``files``.

``latest`` is the end of the partition when the batch was planned. ``lost`` says why a range could not be read, and is
null for ranges that were read. ``generation`` counts the topics of this name that the store has read; null in rows of
earlier releases.
"""

PURGED_IDS = pa.schema(
    [
        pa.field("message_key", pa.binary(), nullable=False),
        pa.field("purged_at", UTC, nullable=False),
        pa.field("purged_date", pa.date32(), nullable=False),
    ]
)
"""``message_key`` is the first 16 bytes of the hash of a tombstone; ``purged_date`` (UTC) partitions the table.

The rows of a purge that broke off may be there twice.
"""

HISTORY_ROWS = pa.schema(
    [
        pa.field("message_id", pa.string(), nullable=False),
        pa.field("global_position", pa.int64(), nullable=False),
        pa.field("inserted_date", pa.date32(), nullable=False),
        pa.field("at", UTC, nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("from_status", pa.string(), nullable=False),
        pa.field("to_status", pa.string(), nullable=False),
        pa.field("next_retry_at", UTC),
        pa.field("error", pa.string()),
        pa.field("run", pa.string(), nullable=False),
        pa.field("step_id", pa.string(), nullable=False),
        pa.field("step", pa.int64(), nullable=False),
        pa.field("table_version", pa.int64(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
    ]
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
