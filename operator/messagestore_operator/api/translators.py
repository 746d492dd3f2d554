"""How messages of an older envelope version are translated to the next one when they are read."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from messagestore_core.contract.base import Integer, JsonPath, Value
from messagestore_operator.api.model import Model
from messagestore_operator.api.rules import ValidationRule
from messagestore_operator.api.scalars import UniqueNames

TranslatedField = Literal[
    "type",
    "typeNamespace",
    "typeRevision",
    "correlationId",
    "causationId",
    "replyTo",
    "sequenceId",
    "contentType",
    "payloadEncoding",
]
_ONE_SOURCE = ValidationRule(
    message="give exactly one of path, rename and value, or default alone; default goes beside path and rename too",
    cel=(
        "has(self.value) ? !has(self.path) && !has(self.rename) && !has(self.default)"
        " : (has(self.path) || has(self.rename) ? has(self.path) != has(self.rename) : has(self.default))"
    ),
    holds=lambda source: _is_one(source),
)


def _is_one(source: Any) -> bool:
    given = [part is not None for part in (source.path, source.rename, source.default)]
    if source.value is not None:
        return not any(given)
    return given[0] != given[1] if given[0] or given[1] else given[2]


class MessagePath(JsonPath):
    """A path into a message: one of its headers, or a place in its payload or metadata."""

    pattern = (
        r"^\$\.(headers(\.[A-Za-z_][A-Za-z0-9_-]*|\['([^'\\]|\\['\\])*'\])"
        r"|(payload|metadata)(\.[A-Za-z_][A-Za-z0-9_-]*|\['([^'\\]|\\['\\])*'\]|\[[0-9]{1,9}\])*)$"
    )
    expected = "a path that begins with $.payload, $.metadata or one of $.headers, such as $.headers['X-Id']"

    __slots__ = ()


class FieldSource(Model):
    """Where a field of the next version comes from in the older message."""

    validations: ClassVar[tuple[ValidationRule, ...]] = (_ONE_SOURCE,)

    path: MessagePath | None = Field(default=None, description="Path in the older message.")
    rename: TranslatedField | None = Field(
        default=None, description="Name of the field in the older message. It is emptied there."
    )
    value: Value | None = Field(default=None, description="A constant, the same for every message.")
    default: Value | None = Field(
        default=None, description="Default if nothing was found. Given alone, it applies if the field itself is absent."
    )


class HeaderSource(Model):
    """Where a header of the next version comes from."""

    validations: ClassVar[tuple[ValidationRule, ...]] = (_ONE_SOURCE,)

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


def _source(description: str) -> FieldSource | None:
    field: FieldSource | None = Field(default=None, description=description)
    return field


class TranslatedFields(Model):
    """Fields that differ in the next version. All others stay."""

    type: FieldSource | None = _source("Type of the message.")
    type_namespace: FieldSource | None = _source("Namespace of the type.")
    type_revision: FieldSource | None = _source("Revision of the type.")
    correlation_id: FieldSource | None = _source("Identifier that a request and its replies share.")
    causation_id: FieldSource | None = _source("Identifier of the message that caused this one.")
    reply_to: FieldSource | None = _source("Return address for replies.")
    sequence_id: FieldSource | None = _source("Identifier of the message's sequence.")
    content_type: FieldSource | None = _source("Media type of the payload.")
    payload_encoding: FieldSource | None = _source("Serialization of the payload, as the producer names it.")


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
