"""From text to types: the canonical columns that are known on arrival.

A column is null where its text is absent, and also where it is none of its type; :func:`problems` tells the two apart.
"""

from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import IngestTask
from messagestore_jobs.ingest.envelope import default_content_type, wire
from messagestore_jobs.source.projections import Projections
from messagestore_jobs.source.values import duration_microseconds, time_of, true_or_false, whole_number

STATUSES = ("RECEIVED", "PROCESSING", "COMPLETED", "FAILED", "EXPIRED")

_LAST_MOMENT = "9999-12-31 23:59:59.999999"
_TEXTS = {
    "message_id": "messageId",
    "type": "type",
    "type_namespace": "typeNamespace",
    "type_revision": "typeRevision",
    "correlation_id": "correlationId",
    "causation_id": "causationId",
    "reply_to": "replyTo",
    "sequence_id": "sequenceId",
    "payload_encoding": "payloadEncoding",
    "ttl": "ttl",
    "error": "error",
    "metadata": "metadata",
    "result": "result",
    "payload": "payload",
}


def field_columns(task: IngestTask, at: Column) -> Projections:
    """The canonical columns known on arrival, from those of ``envelope_columns``.

    Also ``own_time``: the record's own time, null where it has none. ``at`` is the batch's clock.
    """
    return (
        (
            *(_text(wire).alias(name) for name, wire in _TEXTS.items()),
            time_of(_text("time")).alias("own_time"),
            _stream_name().alias("stream_name"),
            F.when(_text("ttl").isNotNull(), duration_microseconds(_text("ttl"))).alias("ttl_microseconds"),
            F.when(_text("expiresAt").isNotNull(), time_of(_text("expiresAt"))).alias("own_expires_at"),
        ),
        (
            F.substring_index("stream_name", "-", 1).alias("category"),
            F.coalesce("own_time", at).alias("time"),
        ),
        (_expires_at(task.default_ttl).alias("expires_at"),),
        (
            _whole("sequenceNumber").alias("sequence_number"),
            _whole("sequenceSize").alias("sequence_size"),
            true_or_false(_text("sequenceEnd")).alias("sequence_end"),
            _whole("schemaVersion").cast("int").alias("schema_version"),
            F.coalesce(_text("contentType"), F.lit(default_content_type(task.source.format))).alias("content_type"),
            _headers(task).alias("headers"),
            F.octet_length("payload").cast("bigint").alias("payload_size"),
            F.sha2("payload", 256).alias("payload_sha256"),
            F.coalesce(F.col("expires_at") <= at, F.lit(False)).alias("expired"),
            F.coalesce(_text("status"), F.lit("RECEIVED")).alias("status"),
            F.struct("kind", "uri", "partition", "offset").alias("source"),
        ),
    )


def problems() -> list[tuple[Column, str]]:
    """What is there and not of its type or form: a condition over :func:`field_columns`, and words for people."""
    return [
        (_text("messageId") == "", "messageId is empty"),
        (_wrong("time", F.col("own_time")), "time is no RFC 3339 time in the years 1 to 9999"),
        (_wrong("expiresAt", F.col("own_expires_at")), "expiresAt is no RFC 3339 time in the years 1 to 9999"),
        (_wrong("ttl", F.col("ttl_microseconds")), "ttl is no ISO 8601 duration in weeks or smaller"),
        (_wrong("ttl", F.col("expires_at")), "time + ttl lies behind the year 9999"),
        (_wrong("sequenceNumber", _from(1, "sequence_number")), "sequenceNumber is no whole number from 1"),
        (_wrong("sequenceSize", _from(1, "sequence_size")), "sequenceSize is no whole number from 1"),
        (_wrong("sequenceEnd", F.col("sequence_end")), "sequenceEnd is neither true nor false"),
        (F.col("sequence_number") > F.col("sequence_size"), "sequenceNumber is larger than sequenceSize"),
        (
            F.col("sequence_end") & (F.col("sequence_number") != F.col("sequence_size")),
            "sequenceEnd stands on a record that is not the last of its sequenceSize",
        ),
        (_wrong("schemaVersion", _from(0, "schema_version")), "schemaVersion is no whole number from 0 to 2147483647"),
        (_wrong("expectedVersion", _whole("expectedVersion")), "expectedVersion is no whole number"),
        (~F.col("status").isin(*STATUSES), f"status is none of {', '.join(STATUSES)}"),
        (F.length("error") > 32_768, "error is longer than 32768 characters"),
        (F.length("stream_name") > 1024, "the stream's name is longer than 1024 characters"),
    ]


def _text(name: str) -> Column:
    return F.col(wire(name))


def _whole(name: str) -> Column:
    return whole_number(_text(name))


def _stream_name() -> Column:
    """The record's own; otherwise the category, followed by -streamId where there is one."""
    composed = F.concat_ws("-", _text("category"), _text("streamId"))
    return F.coalesce(_text("streamName"), F.when(_text("category").isNotNull(), composed))


def _expires_at(default_ttl: timedelta | None) -> Column:
    """Absolute where it is there, otherwise time + ttl, otherwise time + the stream's default."""
    choices = [F.col("own_expires_at"), F.when(_text("ttl").isNotNull(), _after_time(F.col("ttl_microseconds")))]
    if default_ttl is not None:
        # A ttl that is no duration must not be taken for none.
        default = _after_time(F.lit(round(default_ttl.total_seconds() * 1_000_000)))
        choices.append(F.when(_text("ttl").isNull(), default))
    return F.coalesce(*choices)


def _after_time(microseconds: Column) -> Column:
    moment = F.timestamp_micros(F.unix_micros("time") + microseconds)
    return F.when(moment <= F.lit(_LAST_MOMENT).cast("timestamp"), moment)


def _headers(task: IngestTask) -> Column:
    """The record's headers; a replayed record's old positions stay among them."""
    own = _text("headers")
    if task.envelope.format != "Native" or task.source.format == "Text":
        return own
    old = F.map_from_arrays(
        F.array(F.lit("x-original-position"), F.lit("x-original-global-position")),
        F.array(_text("position"), _text("globalPosition")),
    )
    known = F.map_filter(old, lambda _, value: value.isNotNull())
    merged = F.map_concat(known, F.coalesce(own, F.create_map().cast("map<string,string>")))
    return F.when(_text("position").isNull() & _text("globalPosition").isNull(), own).otherwise(merged)


def _from(least: int, column: str) -> Column:
    return F.when(F.col(column) >= least, F.col(column))


def _wrong(name: str, parsed: Column) -> Column:
    return _text(name).isNotNull() & parsed.isNull()
