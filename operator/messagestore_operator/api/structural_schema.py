"""A model's JSON schema in Kubernetes' dialect: structural, without references or unions."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from messagestore_operator.api.model import Model

_DROPPED = ("title", "$defs", "examples")
_MAPS_OF_SCHEMAS = ("properties",)


class _Generator(GenerateJsonSchema):
    """Writes defaults as in a manifest."""

    def encode_default(self, dft: Any) -> Any:
        """Write a default object in full: the API server checks its rules before it fills in anything."""
        return dft.to_dict() if isinstance(dft, Model) else super().encode_default(dft)


def structural_schema(model: type[Model]) -> dict[str, Any]:
    """The structural schema of a model."""
    schema = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    structural: dict[str, Any] = _structural(schema, schema.get("$defs", {}))
    return structural


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    schema = _inlined(schema, definitions)
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED or (key == "additionalProperties" and isinstance(value, bool)):
            continue
        if key in _MAPS_OF_SCHEMAS:
            result[key] = {name: _structural(item, definitions) for name, item in value.items()}
        elif key in ("items", "additionalProperties"):
            result[key] = _structural(value, definitions)
        elif key == "const":
            result["enum"] = [value]
        else:
            result[key] = value
    if result.get("type") == "integer":
        result["format"] = "int64"
    return result


def _inlined(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Replace a reference by its definition; fields beside the reference override it."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    definition = _inlined(definitions[reference.removeprefix("#/$defs/")], definitions)
    return {**definition, **beside}
