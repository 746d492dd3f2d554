"""From a record's bytes to its canonical fields as text, and from these to typed columns.

As text there is one column per field, named by ``wire``: strings, but headers map, payload and result binary. Then
wire_unknown, the name of a field that the Native format doesn't define, and wire_reason and wire_detail, why the record
can't be read. A typed column is null if its text is absent or invalid; ``problems`` tells which.
"""

from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.bounds import LARGEST_VERSION, LAST_MOMENT, LONGEST_ERROR, LONGEST_TEXT
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import Envelope, FieldMapping, FileFormat, TimeUnit, ValueMapping
from messagestore_core.envelope import MAPPED
from messagestore_core.json_values import steps
from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.dead_letters import NAME_COLUMNS
from messagestore_jobs import native
from messagestore_jobs.ingest import cloud_events
from messagestore_jobs.lifecycle.transitions import STATUSES
from messagestore_jobs.source import kafka_envelope
from messagestore_jobs.source.columns import (
    Projections,
    duration_microseconds,
    json_envelope,
    no_time,
    time_of,
    true_or_false,
    whole_number,
    with_headers,
)
from messagestore_jobs.source.file_envelope import names_of, of_document, of_file, paths_of, place, problem
from messagestore_jobs.source.kafka_envelope import binary_event, is_binary_event, of_record, with_record_headers

DOCUMENT_FIELDS = ("metadata", "result", "headers", "payload")
TEXT_FIELDS = tuple(field.name for field in MAPPED if field.name not in DOCUMENT_FIELDS)
REPLAYED_FIELDS = ("position", "globalPosition")
"""Further fields of a replayed record: its old positions."""
FIELDS = (*TEXT_FIELDS, *REPLAYED_FIELDS, *DOCUMENT_FIELDS)
_READ_TEXTS = (*TEXT_FIELDS, "payloadBase64", *REPLAYED_FIELDS)
_READ_FIELDS = ("reason", "detail", *DOCUMENT_FIELDS, "unknown", *_READ_TEXTS)
"""The fields of ``messagestore.envelope``, in order."""

_AS_DOCUMENTS = "; source.files.format JSON reads documents one after the other, and the elements of arrays"
_LONGEST_NAME = 8_192
"""Bytes. The longest id of a CloudEvent has half of them, each character of its parts escaped."""
_COMPUTED = ("stream_name", "category", "content_type", "status")
"""Texts that depend on more than the field of their name."""
_AS_GIVEN = [f for f in MAPPED if f.stored and f.type in ("string", "binary") and f.column not in _COMPUTED]


def default_content_type(file_format: FileFormat) -> str:
    """The content type of a payload whose record has none."""
    return "text/plain" if file_format == "Text" else "application/json"


def wire(name: str) -> str:
    """The column of a field's text."""
    return f"wire_{name}"


def envelope_columns(envelope: Envelope, file_format: FileFormat, *, of_kafka: bool = False) -> Projections:
    """Columns ``wire`` of all fields, wire_unknown, wire_reason and wire_detail, for the records of ``read_planned``.

    Fields that this envelope can't have are literal nulls, so that Spark computes nothing for them.
    """
    if file_format == "Text":
        read = _text_line(envelope.fields)
        mapped = frozenset({*TEXT_FIELDS, "payload"})
    elif of_kafka and not _every_path(envelope) and not envelope.unwrap:
        # No field is read from the value, so it need not be JSON.
        read, mapped = F.struct(*(F.lit(None).cast("string").alias(name) for name in ("reason", "detail"))), frozenset()
    else:
        read = _json_record(envelope, of_line=file_format == "JSONLines" and not of_kafka)
        mapped = frozenset(_paths(envelope)).union(*_outer_paths(envelope).values())
    if envelope.format == "CloudEvents":
        mapped |= {"headers"}
        if of_kafka:
            read = F.when(is_binary_event(), binary_event(cloud_events.PATHS, _READ_FIELDS)).otherwise(read)
    columns = {name: F.col(f"envelope.{name}") if name in mapped else _absent(name) for name in FIELDS}
    columns |= {name: _outside(m, name) for name, m in envelope.fields.items() if _is_outside(m, of_kafka)}
    columns |= {name: _with_default(name, columns[name], m) for name, m in envelope.fields.items()}
    if envelope.format == "CloudEvents":
        columns = cloud_events.event_columns(columns)
    if of_kafka:
        of_events = envelope.format == "CloudEvents"
        columns["headers"] = with_record_headers(columns["headers"], cloud_events=of_events)
    if envelope.add_headers:
        added = {name: _added(name, m, file_format, of_kafka) for name, m in envelope.add_headers.items()}
        columns["headers"] = with_headers(columns["headers"], added)
    columns["unknown"] = F.col("envelope.unknown") if tells_unknown(envelope, file_format) else _absent("unknown")
    columns |= _with_problems(envelope)
    return (read.alias("envelope"),), tuple(column.alias(wire(name)) for name, column in columns.items())


def says_more(envelope: Envelope, *, of_kafka: bool) -> bool:
    """Whether records say more than their bytes: column record_says, which dead letters keep as their headers."""
    return of_kafka or bool(names_of(envelope.mappings()) or paths_of(envelope.mappings()))


def record_says(*, of_kafka: bool) -> Column:
    """What a record says beside its bytes; see ``says_more``."""
    return kafka_envelope.record_says() if of_kafka else F.col("about")


def name_columns() -> tuple[Column, ...]:
    """Columns message_id, stream_name and correlation_id of a dead letter, null where its record doesn't tell them.

    A text of bytes that are not UTF-8 is none, and neither is one that is too long, as the start of a large line is.
    """
    names = (F.col(name) for name in NAME_COLUMNS)
    return tuple(F.when(F.is_valid_utf8(name) & (F.octet_length(name) <= _LONGEST_NAME), name) for name in names)


def can_carry(envelope: Envelope, file_format: FileFormat, name: str) -> bool:
    """Whether a record can have a field at all."""
    if name == "headers" and envelope.add_headers:
        return True
    return name in envelope.fields or (file_format != "Text" and name in _paths(envelope))


def tells_unknown(envelope: Envelope, file_format: FileFormat) -> bool:
    """Whether unknown fields of a record are reported: only the Native format defines all fields."""
    return envelope.format == "Native" and file_format != "Text"


def field_columns(task: IngestTask, at: Column) -> Projections:
    """The canonical columns that are known on arrival, from those of ``envelope_columns``.

    Also ``own_time``: the record's own time, or null. ``at`` is the batch's clock.
    """
    return (
        (
            *(_text(field.name).alias(field.column) for field in _AS_GIVEN),
            _time(task.envelope, "time").alias("own_time"),
            _stream_name().alias("stream_name"),
            F.when(_text("ttl").isNotNull(), duration_microseconds(_text("ttl"))).alias("ttl_microseconds"),
            F.when(_text("expiresAt").isNotNull(), _time(task.envelope, "expiresAt")).alias("own_expires_at"),
        ),
        (F.substring_index("stream_name", "-", 1).alias("category"), F.coalesce("own_time", at).alias("time")),
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


def problems(envelope: Envelope) -> list[tuple[Column, str]]:
    """All rules for values of fields: the condition of a violation, over ``field_columns``, and its text."""
    return [
        (_text("messageId") == "", "messageId is empty"),
        (_wrong("time", F.col("own_time")), f"time {no_time(_unit(envelope, 'time'))}"),
        (_wrong("expiresAt", F.col("own_expires_at")), f"expiresAt {no_time(_unit(envelope, 'expiresAt'))}"),
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
        (
            _wrong("schemaVersion", _from(0, "schema_version")),
            f"schemaVersion is no whole number from 0 to {LARGEST_VERSION}",
        ),
        (_wrong("expectedVersion", _whole("expectedVersion")), "expectedVersion is no whole number"),
        (~F.col("status").isin(*STATUSES), f"status is none of {', '.join(STATUSES)}"),
        (F.length("error") > LONGEST_ERROR, f"error is longer than {LONGEST_ERROR} characters"),
        (F.length("stream_name") > LONGEST_TEXT, f"the stream's name is longer than {LONGEST_TEXT} characters"),
    ]


def _absent(name: str) -> Column:
    types = {"headers": "map<string,string>", "payload": "binary", "result": "binary"}
    return F.lit(None).cast(types.get(name, "string"))


def _json_record(envelope: Envelope, *, of_line: bool) -> Column:
    content_type = envelope.fields.get("contentType")
    spec = {
        "paths": {name: steps(path) for name, path in _every_path(envelope).items()},
        "contentType": (content_type and (content_type.value or content_type.default)) or default_content_type("JSON"),
        "restAsHeaders": envelope.format == "CloudEvents",
        "known": sorted(native.NAMES) if envelope.format == "Native" else [],
        "otherwise": _AS_DOCUMENTS if of_line else "",
        "outer": [
            {"level": level, "paths": {name: steps(path) for name, path in paths.items()}}
            for level, paths in _outer_paths(envelope).items()
        ],
        "unwrap": [
            {"path": steps(one.path), "text": one.path, "base64": one.encoding == "Base64"} for one in envelope.unwrap
        ],
    }
    return json_envelope(spec, (*_READ_TEXTS, *_added_texts(envelope)))


def _paths(envelope: Envelope) -> dict[str, str]:
    match envelope.format:
        case "Native":
            return {name: f"$.{name}" for name in (*FIELDS, "payloadBase64")}
        case "CloudEvents":
            return cloud_events.PATHS
        case "Custom":
            return _paths_in(envelope.fields, 0)


def _every_path(envelope: Envelope) -> dict[str, str]:
    """Those of headers that are added, too."""
    return _paths(envelope) | _paths_in(_added_texts(envelope), 0)


def _outer_paths(envelope: Envelope) -> dict[int, dict[str, str]]:
    """The paths in each record around the unwrapped one, by its level."""
    mappings = {**envelope.fields, **_added_texts(envelope)}
    by_level = {level: _paths_in(mappings, level) for level in range(1, len(envelope.unwrap) + 1)}
    return {level: paths for level, paths in by_level.items() if paths}


def _paths_in(mappings: Mapping[str, ValueMapping], level: int) -> dict[str, str]:
    own = {name: m for name, m in mappings.items() if m.outer == level and not m.of_document}
    return {name: m.path for name, m in own.items() if m.path is not None}


def _added_texts(envelope: Envelope) -> dict[str, ValueMapping]:
    mapped = {name: m for name, m in envelope.add_headers.items() if m.path is not None and not m.of_document}
    return {_header_text(name): m for name, m in mapped.items()}


def _with_problems(envelope: Envelope) -> dict[str, Column]:
    """Columns reason and detail of the envelope, or of a value of the document."""
    mapped = {**envelope.fields, **{_header_text(name): m for name, m in envelope.add_headers.items()}}
    words = [F.concat(F.lit(f"{name} "), problem(m)) for name, m in mapped.items() if m.of_document]
    reason, detail = F.col("envelope.reason"), F.col("envelope.detail")
    if words:
        detail = F.when(reason.isNull(), F.coalesce(*words)).otherwise(detail)
        reason = F.coalesce(reason, F.when(detail.isNotNull(), str(DeadLetterReason.INVALID_FIELD)))
    return {"reason": reason, "detail": detail}


def _header_text(name: str) -> str:
    """The name of a header that is added, among the texts of a record."""
    return f"addHeaders.{name}"


def _is_outside(mapping: ValueMapping, of_kafka: bool) -> bool:
    """Whether a value is outside of the record's bytes, or all of them."""
    return mapping.of_file or mapping.of_document or bool(of_kafka and (mapping.header or mapping.record))


def _outside(mapping: ValueMapping, name: str) -> Column:
    """The canonical field ``name``, from outside of the record's bytes."""
    if mapping.of_document:
        return of_document(mapping)
    value = of_file(mapping) if mapping.of_file else of_record(mapping, name)
    return value.cast("binary") if name == "payload" else value


def _added(name: str, mapping: ValueMapping, file_format: FileFormat, of_kafka: bool) -> Column:
    """A header that is added, as text."""
    if _is_outside(mapping, of_kafka):
        own = _outside(mapping, "")
    elif mapping.path is None:
        own = _absent("")
    elif file_format == "Text":
        own = F.col("envelope.payload").cast("string") if steps(mapping.path) == [] else _absent("")
    else:
        own = F.col("envelope").getField(_header_text(name))
    return _with_default("", own, mapping)


def _text_line(fields: dict[str, FieldMapping]) -> Column:
    """A line is the payload, and the value of each field with path ``$``; other paths find nothing."""
    line = F.col("value").cast("string")
    utf8 = F.is_valid_utf8(line)
    texts = {name: line for name, m in fields.items() if m.path is not None and steps(m.path) == []}
    if "messageId" not in fields:
        texts["messageId"] = place()
    return F.struct(
        F.when(~utf8, "Unparseable").alias("reason"),
        F.when(~utf8, "the bytes are not UTF-8").alias("detail"),
        *(texts.get(name, _absent(name)).alias(name) for name in TEXT_FIELDS),
        F.col("value").alias("payload"),
    )


def _with_default(name: str, own: Column, mapping: ValueMapping) -> Column:
    text = mapping.value if mapping.value is not None else mapping.default
    if text is None:
        return own
    constant = F.lit(text)
    if name in ("payload", "result"):
        constant = constant.cast("binary")
    elif name == "headers":
        constant = F.from_json(constant, "map<string,string>")
    return constant if mapping.value is not None else F.coalesce(own, constant)


def _text(name: str) -> Column:
    return F.col(wire(name))


def _time(envelope: Envelope, name: str) -> Column:
    return time_of(_text(name), _unit(envelope, name))


def _unit(envelope: Envelope, name: str) -> TimeUnit | None:
    return envelope.fields[name].unit if name in envelope.fields else None


def _whole(name: str) -> Column:
    return whole_number(_text(name))


def _stream_name() -> Column:
    """The record's streamName, otherwise its category, with -streamId if there is one."""
    composed = F.concat_ws("-", _text("category"), _text("streamId"))
    return F.coalesce(_text("streamName"), F.when(_text("category").isNotNull(), composed))


def _expires_at(default_ttl: timedelta | None) -> Column:
    """The given expiresAt, otherwise time + ttl, otherwise time + the stream's default ttl."""
    choices = [F.col("own_expires_at"), F.when(_text("ttl").isNotNull(), _after_time(F.col("ttl_microseconds")))]
    if default_ttl is not None:
        # Not for a ttl that is given and invalid.
        default = _after_time(F.lit(round(default_ttl.total_seconds() * 1_000_000)))
        choices.append(F.when(_text("ttl").isNull(), default))
    return F.coalesce(*choices)


def _after_time(microseconds: Column) -> Column:
    moment = F.timestamp_micros(F.unix_micros("time") + microseconds)
    return F.when(moment <= F.lit(LAST_MOMENT.isoformat()).cast("timestamp"), moment)


def _headers(task: IngestTask) -> Column:
    """The record's headers, with the old positions of a replayed record."""
    own = _text("headers")
    if task.envelope.format != "Native" or task.source.format == "Text":
        return own
    old = {"x-original-position": _text("position"), "x-original-global-position": _text("globalPosition")}
    has_none = _text("position").isNull() & _text("globalPosition").isNull()
    return F.when(has_none, own).otherwise(with_headers(own, old))


def _from(least: int, column: str) -> Column:
    return F.when(F.col(column) >= least, F.col(column))


def _wrong(name: str, parsed: Column) -> Column:
    return _text(name).isNotNull() & parsed.isNull()
