"""Fields are named by the rules of docs/api.md."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from messagestore_operator.api import KINDS, crd

# Of a list that is one thing to its reader: globs by what they do, steps, a record that is required to have fields.
_SINGULAR_LISTS = {"include", "exclude", "required", "unwrap", "deadLettersByReason"}
# Fields of the standards that they come from.
_OF_STANDARDS = {"protocol", "mechanism"}
_TIME = re.compile(r"Time$|At$|^at$|^as?Of$|^since$|Since$|^until$|^from$|^to$|^oldest$|^newest$|DueBy$")


class Named(NamedTuple):
    path: str
    name: str
    schema: dict[str, Any]


@pytest.fixture(scope="module")
def fields() -> list[Named]:
    schemas = (crd.custom_resource_definition(kind)["spec"]["versions"][0]["schema"] for kind in KINDS)
    return [field for schema in schemas for field in _fields(schema["openAPIV3Schema"], "")]


def _fields(schema: dict[str, Any], above: str) -> Iterator[Named]:
    for name, node in schema.get("properties", {}).items():
        path = f"{above}.{name}".lstrip(".")
        yield Named(path, name, node)
        yield from _fields(node, path)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from _fields(inner, f"{above}[]")


def test_a_list_has_a_plural(fields: list[Named]) -> None:
    lists = {name for _, name, schema in fields if schema.get("type") == "array"}
    assert {name for name in lists if not name.endswith("s")} == _SINGULAR_LISTS


def test_a_chosen_value_is_a_word_in_camel_case(fields: list[Named]) -> None:
    fields_or_statuses = re.compile(r"[a-z]+([A-Z][a-z]+)*|[A-Z]+")
    for path, name, schema in fields:
        values = [str(value) for value in schema.get("enum", ()) if not fields_or_statuses.fullmatch(str(value))]
        assert name in _OF_STANDARDS or all(re.fullmatch(r"([A-Z][a-z0-9]*)+", value) for value in values), path


def test_a_reference_says_so(fields: list[Named]) -> None:
    """A destination's stream alone doesn't: it stands beside files, kafka and http."""
    names = {name for _, name, schema in fields if set(schema.get("properties", ())) in ({"name"}, {"name", "key"})}
    assert {name for name in names if not re.search(r"Refs?$", name)} == {"stream"}
    assert all(schema["type"] == "object" for _, name, schema in fields if name.endswith("Ref"))


def test_a_time_can_be_told_by_its_name(fields: list[Named]) -> None:
    assert [
        path for path, name, schema in fields if schema.get("format") == "date-time" and not _TIME.search(name)
    ] == []


def test_only_a_number_has_a_unit_in_its_name(fields: list[Named]) -> None:
    units = re.compile(r"(Seconds|Minutes|Hours|Days)$")
    kinds = {schema["type"] for _, name, schema in fields if units.search(name)}
    assert kinds == {"number", "integer"}


def test_an_upper_limit_comes_first(fields: list[Named]) -> None:
    """Knative's retryAfterMax is that of the standard."""
    assert {name for _, name, _ in fields if name.endswith(("Max", "Min", "Maximum"))} == {"retryAfterMax"}
