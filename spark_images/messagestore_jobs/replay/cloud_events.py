"""Messages as CloudEvents 1.0: the attributes of an event, and its JSON format.

A message that came as an event has its id, source, subject and schema again, as far as its headers have them.
"""

from urllib.parse import unquote_plus

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.stores import Owner
from messagestore_jobs.ingest.cloud_events import UNPRINTABLE
from messagestore_jobs.native import FORM, LineBreaks, payload_form, payload_member, rfc3339
from messagestore_jobs.source.columns import headers_of

ATTRIBUTES = "_attributes"
"""The column with the attributes of ``with_attributes``."""
BEGINNING = '{"specversion":'
"""Of each event in JSON format."""
POSITION = "globalposition"
"""The attribute with the global position."""
_NO_TYPE = "dev.messagestore.message"
"""The type of messages without one, as an event must have one."""
_JSON = "application/json"
_URI_REFERENCE = r"^[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+\z"
_REQUIRED = ("specversion", "id", "source", "type")
_EXTENSIONS = {
    name.replace("_", ""): name
    for name in (
        *("stream_name", "position", "global_position", "type_namespace", "type_revision", "correlation_id"),
        *("causation_id", "reply_to", "sequence_id", "sequence_number", "sequence_size", "sequence_end"),
        *("payload_encoding", "schema_version"),
    )
}
"""Attributes with a column's text. Streams that read events know some of them; others become headers there."""


def with_attributes(rows: DataFrame, owner: Owner) -> DataFrame:
    """The rows and the attributes of their events, a map of texts in column ``ATTRIBUTES``.

    The rows are messages, with payloads of claim checks. Their stream is the source of those that name none.
    """
    own = _own(owner)
    names, values = F.array(*map(F.lit, own)), F.array(*own.values())
    known = F.map_filter(F.map_from_arrays(names, values), lambda name, value: name.isin(*_REQUIRED) | _is_text(value))
    others = F.map_filter(
        headers(),
        lambda name, value: name.rlike(r"^[a-z0-9]+\z") & ~name.isin("data", *own) & _is_text(value),
    )
    return rows.withColumn(ATTRIBUTES, F.map_concat(known, others))


def with_event(rows: DataFrame, line_breaks: LineBreaks) -> DataFrame:
    """The rows of ``with_attributes``, and their events in JSON format in string column ``value``."""
    head = F.to_json(ATTRIBUTES).cast("binary")
    formed = rows.select("*", head.alias("_head"), payload_form(line_breaks).alias(FORM))
    value = F.concat(
        F.substring("_head", F.lit(1), F.octet_length("_head") - 1),
        payload_member(line_breaks, "data", "data_base64"),
        F.lit(b"}"),
    )
    return formed.select("*", value.cast("string").alias("value")).drop("_head", FORM)


def identities(event: dict[str, object]) -> tuple[tuple[str, ...], int | None]:
    """The ids that the message of an event may have, which ``_printable`` may have encoded, and its global position."""
    event_id, source, position = event.get("id"), event.get("source"), str(event.get(POSITION))
    if not isinstance(event_id, str):
        return (), None
    ids, sources = ({text, unquote_plus(text)} for text in (event_id, str(source)))
    # As ``ingest.cloud_events.message_id``.
    of_events = {f"{one}#{i.replace('%', '%25').replace('#', '%23')}" for one in sources for i in ids}
    return (*ids, *of_events), int(position) if position.isdecimal() and len(position) < 19 else None


def _own(owner: Owner) -> dict[str, Column]:
    """All attributes that an event has by itself; those of headers of the same names don't count."""
    source, event_id = _source(owner)
    kind = F.coalesce(_given(F.col("content_type")), F.lit(_JSON))
    return {
        "specversion": F.lit("1.0"),
        "id": _printable(event_id),
        "source": _printable(source),
        "type": _printable(F.coalesce(_given(F.col("type")), F.lit(_NO_TYPE))),
        "subject": _given(headers().getItem("subject")),
        "time": rfc3339(F.col("time")),
        # A stored message has this type also if its record named none.
        "datacontenttype": F.when(F.col("payload").isNotNull() | (kind != _JSON), kind),
        "dataschema": _given(headers().getItem("dataschema")),
        "expirytime": rfc3339(F.col("expires_at")),
        # Between the tokens of JSON, line breaks and tabs mean nothing.
        "metadata": F.translate("metadata", "\n\r\t", "   "),
        **{name: F.col(column).cast("string") for name, column in _EXTENSIONS.items()},
    }


def _source(owner: Owner) -> tuple[Column, Column]:
    """Source and id of an event: those with which it came, if it came as one."""
    named = _given(headers().getItem("source"))
    within = F.substring("message_id", F.length(named) + 2, F.length("message_id"))
    came = F.startswith("message_id", F.concat(named, F.lit("#"))) & ~F.contains(within, F.lit("#"))
    came = F.coalesce(came & (within != ""), F.lit(False))
    event_id = F.replace(F.replace(within, F.lit("%23"), F.lit("#")), F.lit("%25"), F.lit("%"))
    stream = F.lit(f"/namespaces/{owner.namespace}/messagestreams/{owner.name}")
    source = F.when(came | named.rlike(_URI_REFERENCE), named).otherwise(stream)
    return source, F.when(came, event_id).otherwise(F.col("message_id"))


def headers() -> Column:
    """The message's headers; an empty map for none."""
    return headers_of(F.col("headers"))


def _given(text: Column) -> Column:
    return F.when(text != "", text)


def _is_text(value: Column) -> Column:
    """Whether a value is there, and has no character that an attribute can't have."""
    return value.isNotNull() & ~F.coalesce(value.rlike(UNPRINTABLE), F.lit(False))


def _printable(text: Column) -> Column:
    """The text, percent-encoded if an attribute can't have it."""
    return F.when(text.rlike(UNPRINTABLE), F.url_encode(text)).otherwise(text)
