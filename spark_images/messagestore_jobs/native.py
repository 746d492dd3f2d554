"""The Native record: a message row as one JSON object, made by column expressions alone.

Payload, metadata and result that are JSON are put into the record byte for byte; a JSON library would rewrite numbers
and escapes. A payload that could not be read back unchanged goes to ``payloadBase64`` instead, so that a store that
reads the record has the same bytes.
"""

from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.envelope import READ

LineBreaks = Literal["Keep", "Space", "Base64"]
"""What happens to line breaks between a payload's tokens: they are kept, become spaces (the same JSON, on one line), or
the payload goes to ``payloadBase64`` (the same bytes, on one line)."""

_SCALARS = ("string", "bigint", "int", "boolean")
_DOCUMENTS = ("metadata", "payload", "result")
_MEMBERS = [field for field in READ if field.column not in (*_DOCUMENTS, "payload_uri")]
_PLAIN = [field for field in _MEMBERS if field.type in _SCALARS]
_TIMES = [field for field in _MEMBERS if field.type == "timestamp"]
_STRUCTURES = ("source", "headers")
NAMES = frozenset({*(field.name for field in _MEMBERS), *_DOCUMENTS, "payloadBase64"})
"""The names of all members of a record."""
FORM = "_form"
"""The column with ``payload_form``."""
_JSON_TYPE = r"(?is)^[^;]*[/+]json[\x00-\x20]*(;.*)?$"
_DEFAULT_TYPE = "application/json"
_WHITE_SPACE = (b" ", b"\t", b"\r", b"\n")


def to_native(rows: DataFrame, line_breaks: LineBreaks = "Keep") -> DataFrame:
    """Message rows as Native records in string column ``value``; ``payload`` must have claimed payloads too."""
    return with_native(rows, line_breaks).select("value")


def with_native(rows: DataFrame, line_breaks: LineBreaks = "Keep") -> DataFrame:
    """The rows and their Native record in column ``value``."""
    # Two projections, so that columns which the second uses twice are computed once.
    with_form = rows.select("*", _head().alias("_head"), payload_form(line_breaks).alias(FORM))
    value = F.concat(
        F.substring("_head", F.lit(1), F.octet_length("_head") - 1),
        _json_member("metadata", F.col("metadata").cast("binary"), line_breaks),
        payload_member(line_breaks, "payload", "payloadBase64"),
        _json_member("result", F.col("result"), line_breaks),
        F.lit(b"}"),
    )
    return with_form.select("*", value.cast("string").alias("value")).drop("_head", FORM)


def is_json_type(content_type: Column) -> Column:
    """Whether a content type is JSON: …/json or …+json; null counts as application/json."""
    return content_type.isNull() | (content_type == _DEFAULT_TYPE) | content_type.rlike(_JSON_TYPE)


def rfc3339(moment: Column) -> Column:
    """A time in UTC without trailing zeros of its fraction; the session's time zone is UTC."""
    return F.concat(F.replace(moment.cast("string"), F.lit(" "), F.lit("T")), F.lit("Z"))


def json_string(text: Column) -> Column:
    """A text as a JSON string, with its quotes, as bytes."""
    wrapped = F.to_json(F.struct(text.alias("v"))).cast("binary")
    return F.substring(wrapped, F.lit(6), F.octet_length(wrapped) - 6)


def base64_string(content: Column) -> Column:
    """Bytes as a JSON string of base64, as bytes; on one line, unlike Spark's own base64."""
    text = F.replace(F.base64(content), F.lit("\r\n"), F.lit(""))
    return F.concat(F.lit(b'"'), text.cast("binary"), F.lit(b'"'))


def _head() -> Column:
    """All members but metadata, payload and result; nulls are left out."""
    members = [F.col(field.column).alias(field.name) for field in _PLAIN]
    members += [rfc3339(F.col(field.column)).alias(field.name) for field in _TIMES]
    members += [F.col(column) for column in _STRUCTURES]
    return F.to_json(F.struct(*members)).cast("binary")


def payload_form(line_breaks: LineBreaks) -> Column:
    """The payload's form in a record: J as it is, S as a string, B in base64; null without a payload."""
    payload = F.col("payload")
    json_form = F.when(_comes_back_from_json(payload, line_breaks), "J").otherwise("B")
    text_form = F.when(F.is_valid_utf8(payload.cast("string")), "S").otherwise("B")
    return F.when(payload.isNotNull(), F.when(is_json_type(F.col("content_type")), json_form).otherwise(text_form))


def _comes_back_from_json(payload: Column, line_breaks: LineBreaks) -> Column:
    """Whether the bytes are one JSON value that a reader of the record gets back byte for byte.

    White space around the value would be lost, and null would mean no payload.
    """
    bare = ~F.substring(payload, 1, 1).isin(*_WHITE_SPACE) & ~F.substring(payload, -1, 1).isin(*_WHITE_SPACE)
    exact = _is_json_member(payload) & bare & (payload != b"null")
    if line_breaks == "Base64":
        text = payload.cast("string")
        exact = exact & ~F.contains(text, F.lit("\n")) & ~F.contains(text, F.lit("\r"))
    return exact


def payload_member(line_breaks: LineBreaks, name: str, base64_name: str) -> Column:
    """The member with the payload, after others, by column ``FORM``; empty without a payload."""
    payload, form, key = F.col("payload"), F.col(FORM), F.lit(f',"{name}":'.encode())
    return (
        F.when(form == "J", F.concat(key, _on_one_line(payload, line_breaks)))
        .when(form == "S", F.concat(key, json_string(payload.cast("string"))))
        .when(form == "B", F.concat(F.lit(f',"{base64_name}":'.encode()), base64_string(payload)))
        .otherwise(F.lit(b""))
    )


def _json_member(name: str, text: Column, line_breaks: LineBreaks) -> Column:
    """A member with JSON text; a text that is no JSON becomes a string."""
    key = F.lit(f',"{name}":'.encode())
    return (
        F.when(text.isNull(), F.lit(b""))
        .when(_is_json_member(text), F.concat(key, _on_one_line(text, line_breaks)))
        .when(F.is_valid_utf8(text.cast("string")), F.concat(key, json_string(text.cast("string"))))
        .otherwise(F.concat(key, base64_string(text)))
    )


def _on_one_line(text: Column, line_breaks: LineBreaks) -> Column:
    """Replace line breaks, which JSON has only between tokens, by spaces, unless they are kept."""
    if line_breaks == "Keep":
        return text
    for line_break in ("\n", "\r"):
        text = F.replace(text.cast("string"), F.lit(line_break), F.lit(" "))
    return text.cast("binary")


def _is_json_member(text: Column) -> Column:
    return F.call_function("messagestore.is_json_member", text)
