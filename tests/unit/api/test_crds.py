from pathlib import Path

import pytest

from messagestore_operator.api import KINDS, crd
from messagestore_operator.api.columns import COLUMNS

FOLDER = Path(__file__).parents[3] / "crds"


def test_the_files_are_what_the_models_say() -> None:
    there = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.yaml")}
    assert there == crd.files(), "crds/ is stale: run `make crds`"


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("MessageStream", "READY PHASE MESSAGES LAG DEAD LAST-BATCH OLDEST AGE"),
        ("RetentionPolicy", "READY PHASE STREAM MODE HELD LAST-PURGE PURGED NEXT AGE"),
        ("ReplayJob", "READY PHASE STREAM REPLAYED TOTAL RATE DESTINATION AGE"),
    ],
)
def test_kubectl_get_prints_these_columns(kind: str, columns: str) -> None:
    assert [column.name for column in COLUMNS[kind] if not column.wide] == columns.split()


def test_wide_adds_three_to_a_stream() -> None:
    assert [column.name for column in COLUMNS["MessageStream"] if column.wide] == ["BYTES", "POSITION", "REASON"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(kind: str) -> None:
    schema = crd.custom_resource_definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert list(_undescribed(schema["properties"]["spec"], "spec")) == []
    assert list(_undescribed(schema["properties"]["status"], "status")) == []


def _undescribed(schema: dict, path: str):
    if not schema.get("description"):
        yield path
    for name, node in schema.get("properties", {}).items():
        yield from _undescribed(node, f"{path}.{name}")


@pytest.mark.parametrize("kind", KINDS)
def test_everything_in_a_spec_has_a_bound(kind: str) -> None:
    schema = crd.custom_resource_definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert list(_unbounded(schema["properties"]["spec"], "spec")) == []


def _unbounded(schema: dict, path: str):
    bounds = {"string": {"maxLength", "enum"}, "array": {"maxItems"}, "integer": {"maximum"}}
    wanted = bounds.get(schema.get("type", ""), set())
    if "additionalProperties" in schema:
        wanted = {"maxProperties"}
        yield from _unbounded(schema["additionalProperties"], f"{path}.*")
    if wanted and not wanted & schema.keys():
        yield path
    for name, node in schema.get("properties", {}).items():
        yield from _unbounded(node, f"{path}.{name}")
    if "items" in schema:
        yield from _unbounded(schema["items"], f"{path}[]")
