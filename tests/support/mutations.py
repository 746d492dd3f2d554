"""Changes to a document, derived from its schema: at each field, something that the schema should refuse."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]
Path = tuple[str | int, ...]

_OF_ANOTHER_TYPE: dict[str, Any] = {
    "string": 7,
    "integer": "seven",
    "number": "seven",
    "boolean": "true",
    "array": "list",
    "object": "mapping",
}
_MISSHAPEN = ("", "!", "-", "a b", "x" * 4, "{nobody}", "*", "http://")
# These match the pattern, and a rule on the text still refuses them.
_WELL_FORMED = ("PT0S", "P0D", "s3a://bucket/a/../b", "s3a://bucket/./b", "2026-02-30T00:00:00Z")
MOST_ITEMS = 2000


@dataclass(frozen=True)
class Mutation:
    """A document that differs from a valid one in one place."""

    path: Path
    change: str
    document: dict[str, Any]

    def __str__(self) -> str:
        return f"{schema_path(self.path)}: {self.change}"


def schema_path(path: Path) -> str:
    """A path without list indexes, such as spec.rules[].name."""
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def mutations(document: dict[str, Any], schema: Schema, part: str) -> Iterator[Mutation]:
    """Every mutation of one part of the document: spec or status."""
    for path, value, node, required in _fields(document[part], schema["properties"][part], (part,)):
        for change, new in _changes(value, node):
            yield Mutation(path, change, _with(document, path, new))
        yield Mutation(path, "null", _with(document, path, None))
        if len(path) > 1 and isinstance(path[-1], str):
            change = "left out though required" if required else "left out"
            yield Mutation(path, change, _without(document, path))


def _fields(value: Any, schema: Schema, path: Path, required: bool = True) -> Iterator[tuple[Path, Any, Schema, bool]]:
    yield path, value, schema, required
    if isinstance(value, dict):
        for name, item in value.items():
            node = schema.get("properties", {}).get(name) or schema["additionalProperties"]
            yield from _fields(item, node, (*path, name), name in schema.get("required", []))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _fields(item, schema["items"], (*path, index))


def _changes(value: Any, schema: Schema) -> Iterator[tuple[str, Any]]:
    if schema.get("x-kubernetes-int-or-string"):
        yield from [("a plain number", 4096), ("zero", 0), ("a fraction", 1.5), ("of no known unit", "1Qi")]
        yield from [("a flag", True), ("larger than the largest", schema["maximum"] + 1), ("zero bytes", "0")]
        return
    kind = schema["type"]
    yield "of another type", _OF_ANOTHER_TYPE[kind]
    changes: Mapping[str, Callable[[Any, Schema], Iterator[tuple[str, Any]]]] = {
        "string": _changes_of_text,
        "integer": _changes_of_number,
        "number": _changes_of_number,
        "array": _changes_of_list,
        "object": _changes_of_object,
    }
    if kind in changes:
        yield from changes[kind](value, schema)
    else:
        yield "the other one", not value


def _changes_of_text(value: str, schema: Schema) -> Iterator[tuple[str, Any]]:
    if "enum" in schema:
        yield "no choice", "Nonsense"
        yield from ((f"choice {choice}", choice) for choice in schema["enum"])
        return
    yield "too long", "a" * (schema["maxLength"] + 1)
    if "pattern" in schema:
        candidates = (text for text in _MISSHAPEN if not re.search(schema["pattern"], text))
        yield from (("misshapen", text) for text in candidates)
        yield from ((f"well formed: {text}", text) for text in _WELL_FORMED if re.search(schema["pattern"], text))
    yield "empty", ""
    yield "with a line break at its end", f"{value}\n"


def _changes_of_number(value: float, schema: Schema) -> Iterator[tuple[str, Any]]:
    if "minimum" in schema:
        yield from [("the smallest", schema["minimum"]), ("below the smallest", schema["minimum"] - 1)]
    if "maximum" in schema:
        yield from [("the largest", schema["maximum"]), ("above the largest", schema["maximum"] + 1)]
    if schema["type"] == "integer":
        yield "a fraction", 1.5
    yield "a flag", True


def _changes_of_list(value: list[Any], schema: Schema) -> Iterator[tuple[str, Any]]:
    yield "empty", []
    yield "with a null", [*value, None]
    yield "with an item twice", [*value, *value[:1]]
    if schema["maxItems"] < MOST_ITEMS:
        yield "too many", [_renamed(value[0], number) for number in range(schema["maxItems"] + 1)]


def _renamed(item: Any, number: int) -> Any:
    """An item with another name if names must differ, so that only the number of items is wrong."""
    if isinstance(item, dict):
        key = "type" if "type" in item and "name" not in item else "name"
        return {**item, key: f"n-{number}"} if key in item else item
    return item


def _changes_of_object(value: dict[str, Any], schema: Schema) -> Iterator[tuple[str, Any]]:
    yield "empty", {}
    if "properties" in schema:
        yield "unknown field surprise", {**value, "surprise": 1}
        for name in value:
            if (snake := re.sub("([A-Z])", r"_\1", name).lower()) != name:
                yield (
                    f"unknown field {snake} for {name}",
                    {snake if key == name else key: item for key, item in value.items()},
                )
        for name, node in schema["properties"].items():
            if name not in value and node.get("type") == "object":
                yield f"with an empty {name}", {**value, name: {}}
    elif "maxProperties" in schema:
        yield "too many", {f"n-{number}": "1" for number in range(schema["maxProperties"] + 1)}


def _with(document: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    changed = deepcopy(document)
    _parent(changed, path)[path[-1]] = value
    return changed


def _without(document: dict[str, Any], path: Path) -> dict[str, Any]:
    changed = deepcopy(document)
    del _parent(changed, path)[path[-1]]
    return changed


def _parent(document: Any, path: Path) -> Any:
    for step in path[:-1]:
        document = document[step]
    return document


Field = tuple[str, str]
"""The name of a field and its schema as text: a part that occurs in two places is the same field."""


def schema_fields(schema: Schema, name: str) -> Iterator[Field]:
    """All fields of a schema."""
    yield name, json.dumps(schema, sort_keys=True)
    for child, node in schema.get("properties", {}).items():
        yield from schema_fields(node, child)
    if "items" in schema:
        yield from schema_fields(schema["items"], f"{name}[]")


def given_fields(value: Any, schema: Schema, name: str) -> Iterator[Field]:
    """All fields of a schema that a value has."""
    yield name, json.dumps(schema, sort_keys=True)
    if isinstance(value, dict) and "properties" in schema:
        for child, item in value.items():
            yield from given_fields(item, schema["properties"][child], child)
    if isinstance(value, list):
        for item in value:
            yield from given_fields(item, schema["items"], f"{name}[]")


def schema_rules(schema: Schema, path: Path) -> Iterator[tuple[str, str, str]]:
    """Path, message and text of all rules in a schema."""
    for rule in schema.get("x-kubernetes-validations", []):
        yield schema_path(path), rule["message"], rule["rule"]
    for name, node in schema.get("properties", {}).items():
        yield from schema_rules(node, (*path, name))
    if "items" in schema:
        yield from schema_rules(schema["items"], (*path, 0))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from schema_rules(schema["additionalProperties"], (*path, "*"))
