"""The base of the contract's models, a run's error, and scalars with the limits and descriptions of resources."""

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from messagestore_core.bounds import MOST_IDS


class ContractModel(BaseModel):
    """A part of a run document or run report: camelCase JSON, no unknown fields, immutable."""

    # A process needs the validators of few models.
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, defer_build=True
    )


class RunError(ContractModel):
    """Why a run failed: a constant reason, and a message that says what to do."""

    reason: str
    message: str


MAX_COUNT = 2**53
"""Up to this number every JSON reader keeps whole numbers exact."""

Flag = Annotated[bool, Field(strict=True)]
Integer = Annotated[int, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=10**12)]
Value = Annotated[str, Field(strict=True, max_length=1024)]

StreamName = Annotated[str, Field(strict=True, max_length=1024, pattern="^[^-]")]
Category = Annotated[str, Field(strict=True, max_length=512, pattern="^[^-]+$")]
MessageType = Annotated[str, Field(strict=True, min_length=1, max_length=512)]
Identifier = Annotated[str, Field(strict=True, min_length=1, max_length=1024)]
MessageStatus = Literal["RECEIVED", "PROCESSING", "COMPLETED", "FAILED", "EXPIRED"]

StreamNames = Annotated[tuple[StreamName, ...], Field(max_length=1000, description="Stream names, any of them.")]
Categories = Annotated[tuple[Category, ...], Field(max_length=100, description="Categories, any of them.")]
MessageTypes = Annotated[tuple[MessageType, ...], Field(max_length=100, description="Message types, any of them.")]
Statuses = Annotated[tuple[MessageStatus, ...], Field(max_length=5, description="Statuses, any of them.")]
CorrelationIds = Annotated[
    tuple[Identifier, ...], Field(max_length=1000, description="Correlation identifiers, any of them.")
]
MessageIds = Annotated[
    tuple[Identifier, ...], Field(max_length=MOST_IDS, description="Message identifiers, any of them.")
]
Headers = Annotated[dict[str, Value], Field(max_length=32, description="Headers with their values, all of them.")]
Where = Annotated[
    str, Field(strict=True, max_length=4096, description="A predicate over the canonical columns. If empty, none.")
]
Predicate = Annotated[Where | None, BeforeValidator(lambda text: text or None)]
"""A ``Where`` in a document, where null stands for the empty one."""


class CheckedText(str):
    """A string that is checked. Subclasses have a pattern and may have more checks."""

    pattern: ClassVar[str]
    max_length: ClassVar[int]
    expected: ClassVar[str]
    """The expected form, in words that follow "must be"."""

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Check the text and return it as this type."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise PydanticCustomError("form", f"must be a string: {cls.expected}")
        if len(value) > cls.max_length:
            raise PydanticCustomError("form", f"must be at most {cls.max_length} characters long")
        if not re.search(cls.pattern.removesuffix("$") + (r"\Z" if cls.pattern.endswith("$") else ""), value):
            raise PydanticCustomError("form", f"must be {cls.expected}")
        text = cls(value)
        text.check_meaning()
        return text

    def check_meaning(self) -> None:
        """Refuse a text that matches the pattern but is invalid, with a PydanticCustomError."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "maxLength": cls.max_length, "pattern": cls.pattern}


class JsonPath(CheckedText):
    """A path into a JSON document: ``$``, ``.name``, ``['name']`` and ``[n]``, nothing else."""

    pattern = r"^\$(\.[A-Za-z_][A-Za-z0-9_-]*|\['([^'\\]|\\['\\])*'\]|\[[0-9]{1,9}\])*$"
    max_length = 512
    expected = "a path of $, .name, ['name'] and [n], such as $.headers['X-Id']; no wildcards, filters or recursion"


class MemberPath(JsonPath):
    """A path of names alone into a JSON document."""

    pattern = r"^\$(\.[A-Za-z_][A-Za-z0-9_-]*|\['([^'\\]|\\['\\])*'\])*$"
    expected = "a path of $, .name and ['name'], such as $.Records; $ is the document itself"


class MessagePath(JsonPath):
    """A path into a message: one of its headers, or a place in its payload or metadata."""

    pattern = (
        r"^\$\.(headers(\.[A-Za-z_][A-Za-z0-9_-]*|\['([^'\\]|\\['\\])*'\])"
        r"|(payload|metadata)(\.[A-Za-z_][A-Za-z0-9_-]*|\['([^'\\]|\\['\\])*'\]|\[[0-9]{1,9}\])*)$"
    )
    expected = "a path that begins with $.payload, $.metadata or one of $.headers, such as $.headers['X-Id']"


RecordsPaths = Annotated[tuple[MemberPath, ...], Field(max_length=4)]
JsonPaths = Annotated[tuple[JsonPath, ...], Field(max_length=64)]
