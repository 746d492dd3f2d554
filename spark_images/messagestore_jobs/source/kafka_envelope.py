"""Headers, key and time of Kafka records, and CloudEvents in binary mode.

Columns of ``read_kafka``: record_headers, key, record_time.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.contract.records import ValueMapping
from messagestore_core.store.offsets import GENERATION, URI
from messagestore_jobs.native import rfc3339
from messagestore_jobs.source.columns import headers_of, time_of, with_headers

KEY_HEADER = "kafka-key"
TIME_HEADER = "kafka-timestamp"
_PREFIX = "ce_"
_STRUCTURED = "application/cloudevents"
_OF_VALUE = ("payload", "payloadBase64", "contentType")
_MAP = "map<string,string>"


def is_binary_event() -> Column:
    """Whether a record is a CloudEvent in binary mode, with attributes in headers and data in the value.

    A content type of CloudEvents tells structured mode, whatever the headers (Kafka binding, section 3).
    """
    structured = F.coalesce(F.lower(F.trim(_header("content-type"))).startswith(_STRUCTURED), F.lit(False))
    return _header(f"{_PREFIX}specversion").isNotNull() & ~structured


def binary_event(names: dict[str, str], fields: Sequence[str]) -> Column:
    """A CloudEvent in binary mode as a struct with the fields of ``messagestore.envelope``, in their order.

    ``names`` has the attribute of each canonical field, as a JSONPath of one step.
    """
    attributes = {field: path.removeprefix("$.") for field, path in names.items() if field not in _OF_VALUE}
    values = {field: _header(f"{_PREFIX}{attribute}") for field, attribute in attributes.items()}
    values["contentType"] = _header("content-type")
    values["payload"] = F.col("value")
    values["headers"] = _extensions(set(attributes.values()))
    types = {"payload": "binary", "result": "binary", "headers": _MAP}
    return F.struct(*(values.get(name, F.lit(None)).cast(types.get(name, "string")).alias(name) for name in fields))


def with_record_headers(own: Column, *, cloud_events: bool) -> Column:
    """A message's headers, with headers, key and time of its record; its own take precedence."""
    record = headers_of(F.col("record_headers"))
    if cloud_events:
        # The attributes are fields and headers already.
        used = F.when(is_binary_event(), F.lit("content-type"))
        record = F.map_filter(record, lambda name, _: ~name.startswith(_PREFIX) & (used.isNull() | (name != used)))
    about = {KEY_HEADER: _text("key"), TIME_HEADER: rfc3339(F.col("record_time"))}
    return F.map_concat(record, with_headers(own, about))


def record_says() -> Column:
    """A record's headers, key and time, as headers; dead letters keep them."""
    return with_record_headers(F.lit(None).cast(_MAP), cloud_events=False)


def said_before(headers: Column) -> tuple[Column, ...]:
    """Columns record_headers, key and record_time of a dead letter that has ``record_says``."""
    return (
        F.map_filter(headers, lambda name, _: ~name.isin(KEY_HEADER, TIME_HEADER)).alias("record_headers"),
        headers.getItem(KEY_HEADER).cast("binary").alias("key"),
        time_of(headers.getItem(TIME_HEADER)).alias("record_time"),
    )


def of_record(mapping: ValueMapping, name: str) -> Column:
    """The canonical field ``name``, from a header or another part of the record."""
    if mapping.header is not None:
        value = _header(mapping.header)
    elif mapping.record == "Value":
        value = F.col("value") if name == "payload" else _text("value")
    elif mapping.record == "Key":
        value = F.col("key") if name == "payload" else _text("key")
    elif mapping.record == "Timestamp":
        value = rfc3339(F.col("record_time"))
    elif mapping.record == "Topic":
        value = F.substring_index(F.replace("uri", F.lit(URI), F.lit("")), GENERATION, 1)
    else:
        value = F.concat(
            "uri", F.lit("/"), F.col("partition").cast("string"), F.lit("#"), F.col("offset").cast("string")
        )
    return value


def _text(column: str) -> Column:
    """A column's text, or base64 of bytes that are not UTF-8."""
    text = F.col(column).cast("string")
    base64 = F.replace(F.base64(F.col(column)), F.lit("\r\n"), F.lit(""))
    return F.when(F.is_valid_utf8(text), text).otherwise(base64)


def _extensions(attributes: set[str]) -> Column:
    """Attributes that are no canonical field, without the prefix, as in structured mode."""
    prefixed = [f"{_PREFIX}{attribute}" for attribute in sorted(attributes)]
    others = F.map_filter(
        headers_of(F.col("record_headers")), lambda name, _: name.startswith(_PREFIX) & ~name.isin(*prefixed)
    )
    return F.transform_keys(others, lambda name, _: F.substring(name, F.lit(len(_PREFIX) + 1), F.length(name)))


def _header(name: str) -> Column:
    return F.col("record_headers").getItem(name)
