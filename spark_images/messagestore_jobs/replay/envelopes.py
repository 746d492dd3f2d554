"""The form in which a replay sends messages, by what its destination asks for.

A topic needs more than a text: other forms than Native are staged as one JSON object a record, with the record's key,
value and headers. It names its message as a Native record does, so that it is found if that is erased.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core import envelope
from messagestore_core.contract.destinations import (
    Destination,
    FilesDestination,
    HttpDestination,
    KafkaDestination,
    StreamDestination,
)
from messagestore_core.contract.stores import Owner
from messagestore_core.store.offsets import GENERATION
from messagestore_jobs.native import LineBreaks, rfc3339, with_native
from messagestore_jobs.replay.cloud_events import ATTRIBUTES, headers, with_attributes, with_event

_EVENT = "application/cloudevents+json; charset=utf-8"
CONTENT_TYPE = "content-type"
TOPIC = "_topic"
"""The column with the topic that a message names."""
PREFIX = "ce_"
"""How the headers of a topic's record begin that are attributes of an event in binary mode."""
_COLUMNS = {field.name: field.column for field in envelope.COLUMNS}


def with_value(rows: DataFrame, destination: Destination, owner: Owner, line_breaks: LineBreaks) -> DataFrame:
    """The messages, with payloads of claim checks, and what is staged of them in string column ``value``.

    ``line_breaks`` are those of records that are lines.
    """
    if isinstance(destination, KafkaDestination) and destination.topic_from and destination.envelope == "Native":
        native = with_native(rows, "Keep")
        every = F.transform(F.map_entries(headers()), lambda entry: _header(entry["key"], entry["value"]))
        return _staged(native, destination, F.col("value").cast("binary"), every)
    if isinstance(destination, StreamDestination) or destination.envelope == "Native":
        return with_native(rows, line_breaks)
    if destination.envelope == "Original":
        return _as_it_came(rows)
    events = with_attributes(rows, owner)
    if isinstance(destination, FilesDestination):
        return with_event(events, line_breaks)
    if destination.envelope == "CloudEventsBinary":
        return _staged(events, destination, F.col("payload"), F.concat(_binary(), _other_headers()))
    structured = F.concat(F.array(_header(F.lit(CONTENT_TYPE), F.lit(_EVENT))), _other_headers())
    # A record is staged in base64, so its line breaks may stay.
    return _staged(with_event(events, "Keep"), destination, F.col("value").cast("binary"), structured)


def with_topic(rows: DataFrame, destination: Destination) -> DataFrame:
    """The rows, with column ``TOPIC`` if messages name their topics."""
    named = destination.topic_from if isinstance(destination, KafkaDestination) else None
    if named is None:
        return rows
    topic = F.col("reply_to") if named.header is None else F.col("headers")[F.lit(named.header)]
    return rows.withColumn(TOPIC, topic)


def is_original(rows: DataFrame) -> Column:
    """Whether a message has its record as it came; a scrub takes that away.

    One field tells that it is there, so that the others need not be read.
    """
    return rows["record"]["value_is_payload"].isNotNull() & rows["scrubbed_at"].isNull()


def _as_it_came(rows: DataFrame) -> DataFrame:
    """One JSON object a record, with the partition that it was in; bytes in it are base64."""
    kept = F.col("record")
    record = F.struct(
        *_named(),
        F.col("source.partition").alias("partition"),
        *_place(),
        F.when(kept["timestamp"] >= 0, kept["timestamp"]).alias("timestamp"),
        kept["key"].alias("key"),
        F.when(kept["value_is_payload"], F.col("payload")).otherwise(kept["value"]).alias("value"),
        kept["headers"].alias("headers"),
    )
    return rows.withColumn("value", F.when(is_original(rows), F.to_json(record)))


def _place() -> tuple[Column, Column]:
    """Where a record was: which topic of its name, and its offset."""
    # Spark splits by a regular expression, which it compiles for each row, and a failed cast costs an exception a row.
    uri = F.col("source.uri")
    number = F.when(uri.contains(GENERATION), F.substring_index(uri, GENERATION, -1).try_cast("int"))
    return F.coalesce(number, F.lit(1)).alias("generation"), F.col("source.offset").alias("offset")


def _staged(rows: DataFrame, to: KafkaDestination | HttpDestination, value: Column, every_header: Column) -> DataFrame:
    """One JSON object a record; bytes in it are base64."""
    # The key of a request says which others it has to wait for.
    key = to.key if isinstance(to, KafkaDestination) else "streamName"
    record = F.struct(
        *_named(),
        *([F.col(TOPIC).alias("topic")] if TOPIC in rows.columns else []),
        F.col(_COLUMNS[key]).cast("binary").alias("key"),
        value.alias("value"),
        every_header.alias("headers"),
    )
    return rows.withColumn("value", F.to_json(record))


def _named() -> tuple[Column, ...]:
    """The members by which a staged record is found if its message is erased, or expires."""
    return (
        F.col("message_id").alias("messageId"),
        F.col("global_position").alias("globalPosition"),
        rfc3339(F.col("expires_at")).alias("expiresAt"),
    )


def _binary() -> Column:
    """The headers of an event in binary mode."""

    def header(attribute: Column) -> Column:
        name = F.when(attribute["key"] == "datacontenttype", CONTENT_TYPE).otherwise(
            F.concat(F.lit(PREFIX), attribute["key"])
        )
        return _header(name, attribute["value"])

    return F.transform(F.map_entries(ATTRIBUTES), header)


def _other_headers() -> Column:
    """The message's headers, without those that are attributes, or that would change what an event is."""

    def is_other(name: Column, value: Column) -> Column:
        is_attribute = F.coalesce(F.col(ATTRIBUTES)[name] == value, F.lit(False))
        of_events = (name == "specversion") | name.startswith(PREFIX) | (F.lower(name) == CONTENT_TYPE)
        return ~is_attribute & ~of_events

    return F.transform(
        F.map_entries(F.map_filter(headers(), is_other)), lambda entry: _header(entry["key"], entry["value"])
    )


def _header(name: Column, value: Column) -> Column:
    return F.struct(name.alias("name"), value.cast("binary").alias("value"))
