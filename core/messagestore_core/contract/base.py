"""The base of the contract's models, and their scalars with the limits and descriptions that resources have too."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ContractModel(BaseModel):
    """A part of a run document or run report: camelCase JSON, no unknown fields, immutable."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


MAX_COUNT = 2**53
"""Up to this number every JSON reader keeps whole numbers exact."""

Flag = Annotated[bool, Field(strict=True)]
Integer = Annotated[int, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]
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
MessageIds = Annotated[tuple[Identifier, ...], Field(max_length=1000, description="Message identifiers, any of them.")]
Headers = Annotated[dict[str, Value], Field(max_length=32, description="Headers with their values, all of them.")]
Where = Annotated[
    str, Field(strict=True, max_length=4096, description="A predicate over the canonical columns. If empty, none.")
]
Predicate = Annotated[Where | None, BeforeValidator(lambda text: text or None)]
"""A ``Where`` in a document, where null stands for the empty one."""
