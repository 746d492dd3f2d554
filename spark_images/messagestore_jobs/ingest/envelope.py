"""From a record's bytes to its canonical fields, still as text.

One column a field, named by :func:`wire`: strings, but headers map, payload and result binary; wire_unknown, the name
of a field that a Native record can't have; and wire_reason and wire_detail where the record can't be read.
"""

import json

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_jobs import native
from messagestore_jobs.contract.run_document import Envelope, FieldMapping, FileFormat
from messagestore_jobs.ingest import cloud_events
from messagestore_jobs.paths import steps
from messagestore_jobs.source.kafka_envelope import binary_event, is_binary_event, of_record, with_record_headers
from messagestore_jobs.source.projections import Projections

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
REPLAYED_FIELDS = ("position", "globalPosition")
"""What a replayed record also carries: where it stood."""
DOCUMENT_FIELDS = ("metadata", "result", "headers", "payload")
FIELDS = (*TEXT_FIELDS, *REPLAYED_FIELDS, *DOCUMENT_FIELDS)
_READ_FIELDS = (
    *("reason", "detail", *TEXT_FIELDS, "payloadBase64", *REPLAYED_FIELDS),
    *("metadata", "result", "headers", "payload", "unknown"),
)
"""What ``messagestore.envelope`` gives, in its order."""


def default_content_type(file_format: FileFormat) -> str:
    """Of a payload whose record names none."""
    return "text/plain" if file_format == "Text" else "application/json"


def wire(name: str) -> str:
    """The column that holds a field as it came."""
    return f"wire_{name}"


def envelope_columns(envelope: Envelope, file_format: FileFormat, *, of_kafka: bool = False) -> Projections:
    """A ``wire`` column a field, and wire_unknown, wire_reason and wire_detail, for the records of ``read_planned``.

    Fields that this envelope never has are literal nulls, so that nothing is computed of them.
    """
    if file_format == "Text":
        read = _text_line(envelope.fields)
        there = frozenset({*TEXT_FIELDS, "payload"})
    elif of_kafka and not _paths(envelope):
        # Nothing is looked for in the value, which need not be JSON.
        read, there = F.struct(*(F.lit(None).cast("string").alias(name) for name in ("reason", "detail"))), frozenset()
    else:
        read = _json_record(envelope)
        there = frozenset(_paths(envelope))
    if envelope.format == "CloudEvents":
        there |= {"headers"}
        if of_kafka:
            read = F.when(is_binary_event(), binary_event(cloud_events.PATHS, _READ_FIELDS)).otherwise(read)
    columns = {name: F.col(f"envelope.{name}") if name in there else _absent(name) for name in FIELDS}
    columns |= {name: of_record(m, name) for name, m in envelope.fields.items() if of_kafka and (m.header or m.record)}
    columns |= {name: _with_default(name, columns[name], m) for name, m in envelope.fields.items()}
    if envelope.format == "CloudEvents":
        columns = cloud_events.event_columns(columns)
    if of_kafka:
        of_events = envelope.format == "CloudEvents"
        columns["headers"] = with_record_headers(columns["headers"], cloud_events=of_events)
    columns["unknown"] = F.col("envelope.unknown") if tells_unknown(envelope, file_format) else _absent("unknown")
    columns |= {name: F.col(f"envelope.{name}") for name in ("reason", "detail")}
    return (read.alias("envelope"),), tuple(column.alias(wire(name)) for name, column in columns.items())


def can_carry(envelope: Envelope, file_format: FileFormat, name: str) -> bool:
    """Whether a record can have a field at all."""
    return name in envelope.fields or (file_format != "Text" and name in _paths(envelope))


def tells_unknown(envelope: Envelope, file_format: FileFormat) -> bool:
    """Whether a record can have a field that is none of its envelope's; those of the others may hold anything."""
    return envelope.format == "Native" and file_format != "Text"


def _absent(name: str) -> Column:
    types = {"headers": "map<string,string>", "payload": "binary", "result": "binary"}
    return F.lit(None).cast(types.get(name, "string"))


def _json_record(envelope: Envelope) -> Column:
    content_type = envelope.fields.get("contentType")
    spec = {
        "paths": {name: steps(path) for name, path in _paths(envelope).items()},
        "contentType": (content_type and (content_type.value or content_type.default)) or default_content_type("JSON"),
        "restAsHeaders": envelope.format == "CloudEvents",
        "known": sorted(native.NAMES) if envelope.format == "Native" else [],
    }
    return F.call_function("messagestore.envelope", F.col("value"), F.lit(json.dumps(spec)))


def _paths(envelope: Envelope) -> dict[str, str]:
    match envelope.format:
        case "Native":
            return {name: f"$.{name}" for name in (*FIELDS, "payloadBase64")}
        case "CloudEvents":
            return cloud_events.PATHS
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
        F.col("value").alias("payload"),
    )


def _with_default(name: str, found: Column, mapping: FieldMapping) -> Column:
    text = mapping.value if mapping.value is not None else mapping.default
    if text is None:
        return found
    constant = F.lit(text)
    if name in ("payload", "result"):
        constant = constant.cast("binary")
    elif name == "headers":
        constant = F.from_json(constant, "map<string,string>")
    return constant if mapping.value is not None else F.coalesce(found, constant)
