"""Names, notes and lists with limits: every value in a resource has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

MAX_NAME = 253
LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
TOPIC_PATTERN = r"^[A-Za-z0-9._-]+$"

Name = Annotated[str, Field(strict=True, max_length=MAX_NAME, pattern=NAME_PATTERN)]
Label = Annotated[str, Field(strict=True, max_length=63, pattern=LABEL_PATTERN)]
SecretKey = Annotated[str, Field(strict=True, max_length=MAX_NAME, pattern=r"^[-._a-zA-Z0-9]+$")]
Topic = Annotated[str, Field(strict=True, max_length=249, pattern=TOPIC_PATTERN)]
Note = Annotated[str, Field(strict=True, max_length=32768)]


@dataclass(frozen=True)
class UniqueNames:
    """The items of a list differ in one field; in Kubernetes terms the list is a map."""

    key: str = "name"

    def check(self, items: Sequence[Any]) -> Sequence[Any]:
        """Refuse an item that has the name of an earlier one."""
        names = [item.to_dict()[self.key] for item in items]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise PydanticCustomError(
                "repeated", f"each {self.key} may stand only once: {', '.join(map(str, repeated))}"
            )
        return items

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [self.key]}
