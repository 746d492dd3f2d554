"""How the canonical fields of a message are found in a record, and how those of older versions are translated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model
from pydantic.alias_generators import to_camel

from messagestore_core.contract import records
from messagestore_core.contract.base import Integer, MessagePath, Value
from messagestore_core.envelope import COLUMNS
from messagestore_operator.api import stream_rules
from messagestore_operator.api.model import Model
from messagestore_operator.api.scalars import GroupPattern, UniqueNames


class FieldMapping(records.ValueMapping, Model):
    """Where one value comes from: a path in the record, a part of a Kafka record, the record's file, or a constant."""

    validations = stream_rules.FIELD_MAPPING

    pattern: GroupPattern | None = Field(
        default=None, description=records.ValueMapping.model_fields["pattern"].description
    )


class TimeMapping(records.FieldMapping, Model):
    """Where a time comes from."""

    validations = stream_rules.TIME_MAPPING

    pattern: GroupPattern | None = Field(
        default=None, description=records.ValueMapping.model_fields["pattern"].description
    )


def _mapping(description: str) -> FieldMapping | None:
    field: FieldMapping | None = Field(default=None, description=description)
    return field


def _time_mapping(description: str) -> TimeMapping | None:
    field: TimeMapping | None = Field(default=None, description=description)
    return field


class EnvelopeFields(Model):
    """The canonical fields of a Custom envelope."""

    validations = (stream_rules.ENVELOPE_FIELDS,)

    message_id: FieldMapping | None = _mapping(
        "Unique identifier. Required unless the source's format is Text; then it is URI#offset of the line."
    )
    stream_name: FieldMapping | None = _mapping(
        "Name of the stream. If absent or null, it is the category, followed by -streamId if there is one."
    )
    category: FieldMapping | None = _mapping("Category of the stream, without hyphens.")
    stream_id: FieldMapping | None = _mapping("Identifier of the stream within its category.")
    type: FieldMapping | None = _mapping("Type of the message.")
    type_namespace: FieldMapping | None = _mapping("Namespace of the type.")
    type_revision: FieldMapping | None = _mapping("Revision of the type.")
    correlation_id: FieldMapping | None = _mapping("Identifier that a request and its replies share.")
    causation_id: FieldMapping | None = _mapping("Identifier of the message that caused this one.")
    reply_to: FieldMapping | None = _mapping("Return address for replies.")
    sequence_id: FieldMapping | None = _mapping("Identifier of the message's sequence.")
    sequence_number: FieldMapping | None = _mapping("Number in the sequence, from one.")
    sequence_size: FieldMapping | None = _mapping("Number of messages in the sequence.")
    sequence_end: FieldMapping | None = _mapping("Whether the message is the last of its sequence.")
    headers: FieldMapping | None = _mapping("Transport headers, an object.")
    metadata: FieldMapping | None = _mapping("Application metadata, an object.")
    payload: FieldMapping | None = _mapping("The payload. Its bytes are stored exactly.")
    content_type: FieldMapping | None = _mapping("Media type of the payload.")
    payload_encoding: FieldMapping | None = _mapping("Serialization of the payload, as the producer names it.")
    schema_version: FieldMapping | None = _mapping("Version of the envelope.")
    time: TimeMapping | None = _time_mapping("When the message was created.")
    ttl: FieldMapping | None = _mapping("How long the message is of use, an ISO 8601 duration.")
    expires_at: TimeMapping | None = _time_mapping("Until when the message is of use.")
    expected_version: FieldMapping | None = _mapping("Position that the stream's last message must have.")
    status: FieldMapping | None = _mapping("Status of the message's processing.")
    result: FieldMapping | None = _mapping("Result of the message's processing.")
    error: FieldMapping | None = _mapping("Error of the message's processing.")


# pydantic alone needs the names as literals.
if TYPE_CHECKING:
    CanonicalField = str
    TranslatedField = str
else:
    CanonicalField = Literal[tuple(field.alias for field in EnvelopeFields.model_fields.values())]
    TranslatedField = Literal[tuple(field.name for field in COLUMNS if field.translated)]


class FieldSource(records.FieldSource, Model):
    """Where a field of the next version comes from in the older message."""

    validations = (stream_rules.ONE_SOURCE,)

    rename: TranslatedField | None = Field(
        default=None, description="Name of the field in the older message. It is emptied there."
    )


class HeaderSource(Model):
    """Where a header of the next version comes from."""

    validations = (stream_rules.ONE_SOURCE,)

    name: Annotated[str, Field(strict=True, min_length=1, max_length=1024)] = Field(
        description="Name of the header in the next version."
    )
    path: MessagePath | None = Field(default=None, description="Path in the older message.")
    rename: Value | None = Field(
        default=None, description="Name of the header in the older message. It is removed there."
    )
    value: Value | None = Field(default=None, description="A constant, the same for every message.")
    default: Value | None = Field(
        default=None,
        description="Default if nothing was found. Given alone, it applies if the header itself is absent.",
    )


def _translated(column: str) -> Any:
    return FieldSource | None, Field(default=None, description=EnvelopeFields.model_fields[column].description)


if TYPE_CHECKING:
    TranslatedFields = Model
else:
    TranslatedFields = create_model(
        "TranslatedFields",
        __base__=Model,
        __doc__="Fields that differ in the next version. All others stay.",
        **{field.column: _translated(field.column) for field in COLUMNS if field.translated},
    )


class Translator(Model):
    """Translates messages from one schemaVersion to the next."""

    from_version: Annotated[Integer, Field(ge=0, le=1_000_000)] = Field(
        description="The schemaVersion to translate from; the result has the next one. Messages without one have 0."
    )
    fields: TranslatedFields = Field(
        default=TranslatedFields(), description="Fields that differ in the next version. All others stay."
    )
    headers: Annotated[tuple[HeaderSource, ...], Field(max_length=32), UniqueNames()] = Field(
        default=(), description="Headers that differ in the next version. All others stay."
    )


class Unwrap(records.Unwrap, Model):
    """One step from a record to the record within it."""


class Envelope(Model):
    """Format of the records, and which fields they must have."""

    validations = stream_rules.envelope({to_camel(name): name for name in EnvelopeFields.model_fields})

    format: Literal["Native", "CloudEvents", "Custom"] = Field(
        default="Native",
        description="Native is the store's own format. CloudEvents is version 1.0; messageId is source#id. Custom "
        "needs fields.",
    )
    fields: EnvelopeFields | None = Field(
        default=None, description="Where each canonical field comes from. Only with format Custom."
    )
    required: Annotated[tuple[CanonicalField, ...], Field(max_length=len(EnvelopeFields.model_fields))] = Field(
        default=(), description="Required fields, besides messageId and the stream's name."
    )
    unknown_fields: Literal["Ignore", "Refuse"] = Field(
        default="Ignore",
        description="How to treat a Native record with an unknown field. Ignore stores it without that field and "
        "counts it; Refuse makes it a dead letter.",
    )
    unwrap: Annotated[tuple[Unwrap, ...], Field(max_length=3)] = Field(
        default=(),
        description="Steps from a record to the record within it that has the fields, outer to inner. A dead letter "
        "has the outermost.",
    )
    add_headers: Annotated[dict[str, FieldMapping], Field(max_length=16)] = Field(
        default={},
        description="Headers by name, with where each comes from, in any format. A header of the record itself counts "
        "more.",
    )
    translators: Annotated[tuple[Translator, ...], Field(max_length=32), UniqueNames("fromVersion")] = Field(
        default=(),
        description="Translators of older schemaVersions for reading and sending. Stored messages don't change.",
    )
