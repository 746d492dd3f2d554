"""What a record of Kafka says beside its value: headers, key and time, and CloudEvents in binary mode.

Columns of ``read_kafka``: record_headers, key, record_time.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_jobs.native import rfc3339

KEY_HEADER = "kafka-key"
TIME_HEADER = "kafka-timestamp"
_PREFIX = "ce_"
_OF_VALUE = ("payload", "payloadBase64", "contentType")
_MAP = "map<string,string>"


def is_binary_event() -> Column:
    """Whether a record is a CloudEvent in binary mode: its attributes are headers, its value is the data."""
    return F.coalesce(_header(f"{_PREFIX}specversion").isNotNull(), F.lit(False))


def binary_event(names: dict[str, str], fields: Sequence[str]) -> Column:
    """A CloudEvent in binary mode as a struct of the fields that ``messagestore.envelope`` gives.

    Args:
        names: the attribute of each canonical field, as a JSONPath of one step.
        fields: all of the struct's, in its order.
    """
    attributes = {field: path.removeprefix("$.") for field, path in names.items() if field not in _OF_VALUE}
    values = {field: _header(f"{_PREFIX}{attribute}") for field, attribute in attributes.items()}
    values["contentType"] = _header("content-type")
    values["payload"] = F.col("value")
    values["headers"] = _extensions(set(attributes.values()))
    types = {"payload": "binary", "result": "binary", "headers": _MAP}
    return F.struct(*(values.get(name, F.lit(None)).cast(types.get(name, "string")).alias(name) for name in fields))


def with_record_headers(own: Column, *, cloud_events: bool) -> Column:
    """A message's headers with those of its record, its key and its time; its own stand before the record's."""
    record = F.coalesce(F.col("record_headers"), F.create_map().cast(_MAP))
    if cloud_events:
        # The attributes have become fields and headers already.
        used = F.when(is_binary_event(), F.lit("content-type"))
        record = F.map_filter(record, lambda name, _: ~name.startswith(_PREFIX) & (used.isNull() | (name != used)))
    about = F.map_filter(_about(), lambda _, value: value.isNotNull())
    return reduce(F.map_concat, [record, about, F.coalesce(own, F.create_map().cast(_MAP))])


def key_text() -> Column:
    """The record's key: its text, or base64 where it is none."""
    key = F.col("key")
    text = key.cast("string")
    return F.when(F.is_valid_utf8(text), text).otherwise(F.replace(F.base64(key), F.lit("\r\n"), F.lit("")))


def record_time() -> Column:
    """The record's time as text."""
    return rfc3339(F.col("record_time"))


def _about() -> Column:
    names = F.array(F.lit(KEY_HEADER), F.lit(TIME_HEADER))
    return F.map_from_arrays(names, F.array(key_text(), record_time()))


def _extensions(attributes: set[str]) -> Column:
    """Attributes that are no canonical field, as structured mode has them: without the prefix."""
    prefixed = [f"{_PREFIX}{attribute}" for attribute in sorted(attributes)]
    headers = F.coalesce(F.col("record_headers"), F.create_map().cast(_MAP))
    others = F.map_filter(headers, lambda name, _: name.startswith(_PREFIX) & ~name.isin(*prefixed))
    return F.transform_keys(others, lambda name, _: F.substring(name, F.lit(len(_PREFIX) + 1), F.length(name)))


def _header(name: str) -> Column:
    return F.col("record_headers").getItem(name)
