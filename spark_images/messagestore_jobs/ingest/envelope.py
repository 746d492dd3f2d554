"""From a record's bytes to its canonical fields, still as text: one struct column ``e``.

The struct has the wire names of TEXT_FIELDS as strings, metadata string, result binary, headers map, payload binary,
and reason and detail where the record can't be read.
"""

import json

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Envelope, FieldMapping, FileFormat
from messagestore_jobs.paths import steps

TEXT_FIELDS = (
    "messageId",
    "streamName",
    "streamId",
    "category",
    "type",
    "typeNamespace",
    "typeRevision",
    "correlationId",
    "causationId",
    "replyTo",
    "sequenceId",
    "sequenceNumber",
    "sequenceSize",
    "sequenceEnd",
    "contentType",
    "payloadEncoding",
    "schemaVersion",
    "ttl",
    "expiresAt",
    "expectedVersion",
    "status",
    "error",
    "time",
)
DOCUMENT_FIELDS = ("metadata", "result", "headers", "payload")
FIELDS = (*TEXT_FIELDS, *DOCUMENT_FIELDS)

CLOUDEVENTS_PATHS = {
    "messageId": "$.id",
    "streamName": "$.streamname",
    "category": "$.source",
    "streamId": "$.subject",
    "type": "$.type",
    "correlationId": "$.correlationid",
    "causationId": "$.causationid",
    "time": "$.time",
    "expiresAt": "$.expirytime",
    "contentType": "$.datacontenttype",
    "payload": "$.data",
    "payloadBase64": "$.data_base64",
}
"""CloudEvents 1.0, JSON format; the extensions are those the CloudEvents community documents. Other attributes become
headers. A stream is what an event is about: its source (each "-" as "_") and its subject."""


def default_content_type(file_format: FileFormat) -> str:
    """Of a payload whose record names none."""
    return "text/plain" if file_format == "Text" else "application/json"


def read_envelope(records: DataFrame, envelope: Envelope, file_format: FileFormat) -> DataFrame:
    """``records`` with column ``e``."""
    fields = envelope.fields if envelope.format == "Custom" else {}
    read = _text_line(fields) if file_format == "Text" else _json_record(envelope)
    raw = records.withColumn("e", read)
    return raw.withColumn("e", _completed(envelope, fields)) if fields or envelope.format == "CloudEvents" else raw


def _json_record(envelope: Envelope) -> Column:
    content_type = envelope.fields.get("contentType")
    spec = {
        "paths": {name: steps(path) for name, path in _paths(envelope).items()},
        "contentType": (content_type and (content_type.value or content_type.default)) or default_content_type("JSON"),
        "restAsHeaders": envelope.format == "CloudEvents",
    }
    return F.call_function("messagestore.envelope", F.col("value"), F.lit(json.dumps(spec)))


def _paths(envelope: Envelope) -> dict[str, str]:
    match envelope.format:
        case "Native":
            names = (*FIELDS, "payloadBase64", "position", "globalPosition")
            return {name: f"$.{name}" for name in names}
        case "CloudEvents":
            return CLOUDEVENTS_PATHS
        case "Custom":
            return {name: m.path for name, m in envelope.fields.items() if m.path is not None}


def _text_line(fields: dict[str, FieldMapping]) -> Column:
    """A line is the payload, and what each path ``$`` is; other paths find nothing in it."""
    line = F.col("value").cast("string")
    utf8 = F.is_valid_utf8(line)
    whole = {name for name, m in fields.items() if m.path is not None and steps(m.path) == []}
    place = F.concat(F.col("uri"), F.lit("#"), F.col("offset").cast("string"))
    texts = [
        (line if name in whole else place if name == "messageId" and name not in fields else F.lit(None).cast("string"))
        for name in TEXT_FIELDS
    ]
    return F.struct(
        F.when(~utf8, "Unparseable").alias("reason"),
        F.when(~utf8, "the bytes are not UTF-8").alias("detail"),
        *(text.alias(name) for text, name in zip(texts, TEXT_FIELDS, strict=True)),
        F.lit(None).cast("string").alias("metadata"),
        F.lit(None).cast("binary").alias("result"),
        F.lit(None).cast("map<string,string>").alias("headers"),
        F.col("value").alias("payload"),
    )


def _completed(envelope: Envelope, fields: dict[str, FieldMapping]) -> Column:
    """Constants, defaults, and CloudEvents' rule for categories put in."""
    column = F.col("e")
    for name, mapping in fields.items():
        if mapping.value is not None or mapping.default is not None:
            column = column.withField(name, _with_default(name, mapping))
    if envelope.format == "CloudEvents":
        column = column.withField("category", F.translate(F.col("e.category"), "-", "_"))
    return column


def _with_default(name: str, mapping: FieldMapping) -> Column:
    constant = F.lit(mapping.value if mapping.value is not None else mapping.default)
    if name in ("payload", "result"):
        constant = constant.cast("binary")
    elif name == "headers":
        constant = F.from_json(constant, "map<string,string>")
    return constant if mapping.value is not None else F.coalesce(F.col(f"e.{name}"), constant)
