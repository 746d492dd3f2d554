"""The pages of docs/reference match the code.

Renew them with: RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/unit/docs/test_reference.py.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from messagestore_operator.api import KINDS, crd
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.metrics import Metrics
from messagestore_operator.settings import Settings

RENEW = "RENEW_SNAPSHOTS"
REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
LARGEST = 2**53  # the largest integer that JSON readers keep exactly: not a chosen limit
KEPT = "<!-- Kept by tests/unit/docs/test_reference.py. -->"
COLUMNS = "| field | type | default | meaning |\n| --- | --- | --- | --- |\n"


def _is_current(page: str, title: str, text: str) -> None:
    wanted = f"# {title}\n\n{KEPT}\n\n{text.strip()}\n"
    file = REFERENCE / page
    if RENEW in os.environ:
        file.write_text(wanted, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == wanted, f"run again with {RENEW}=1"


@pytest.mark.parametrize("kind", KINDS)
def test_the_fields_of_a_kind(kind: str) -> None:
    schema = crd.custom_resource_definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    parts = [f"{schema['description']} `kubectl get {crd.NAMES[kind].short}` lists them.\n"]
    for part in ("spec", "status"):
        node = schema["properties"][part]
        parts.append(f"\n## {part}\n\n{node['description']}\n\n{COLUMNS}")
        parts += [_row(path, field, required) for path, field, required in _fields(node, "")]
    rules = [f"- `{path}`: {message}\n" for path, message in _rules(schema, "")]
    parts.append(
        f"\n## What the API server refuses\n\nBeside values of another type; in its words.\n\n{''.join(rules)}"
    )
    _is_current(f"{kind.lower()}.md", kind, "".join(parts))


def test_the_commands() -> None:
    typer = [sys.executable, "-m", "typer", "messagestore_operator.cli.main", "utils", "docs", "--name", "messagestore"]
    told = subprocess.run(typer, capture_output=True, text=True, check=True).stdout
    title, _, text = told.partition("\n")
    _is_current("command-line.md", title.removeprefix("# "), text)


def test_the_figures() -> None:
    """The metrics at `/metrics` of one replica that has reconciled something."""
    metrics = Metrics()
    metrics.watch_health(lambda: False)
    metrics.watch_queue(lambda: 0, lambda: 0)
    metrics.watch_cache(Cache("SparkApplication"))
    rows = [
        f"| `{one.name}{'_total' * (one.type == 'counter')}` | {one.type} | {labels} | {one.documentation} |\n"
        for one, labels in _metrics(metrics.registry)
    ]
    table = "".join(["| figure | type | labels | meaning |\n| --- | --- | --- | --- |\n", *rows])
    _is_current("metrics.md", "Figures at /metrics", table)


def test_the_settings() -> None:
    intro = (
        "Of `messagestore operator`. [operator.md](../operator.md#settings) says where they are set.\n\n"
        "| setting | default | meaning |\n| --- | --- | --- |\n"
    )
    _is_current("settings.md", "Settings of the operator", "".join([intro, *_settings(Settings(), "")]))


def _settings(group: BaseModel, path: str) -> Iterator[str]:
    for name, field in type(group).model_fields.items():
        value, place = getattr(group, name), f"{path}.{field.alias}".removeprefix(".")
        if isinstance(value, BaseModel):
            yield from _settings(value, place)
        else:
            default = "" if value in (None, (), {}, "") else f"`{json.dumps(value)}`"
            yield f"| `{place}` | {default} | {field.description} |\n"


def _fields(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    for name, field in node.get("properties", {}).items():
        place = f"{path}.{name}".removeprefix(".")
        yield place, field, name in node.get("required", [])
        yield from _fields(field, place)
    for within, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if within in node:
            yield from _fields(node[within], f"{path}{mark}")


def _row(path: str, field: dict[str, Any], required: bool) -> str:
    default = field.get("default")
    given = (
        "required"
        if required
        else f"`{json.dumps(default)}`"
        if default not in (None, "", []) and not isinstance(default, dict)
        else ""
    )
    return f"| `{path}` | {_type(field)} | {given} | {field['description'].replace('|', chr(92) + '|')} |\n"


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "items" in field:
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"])
    if field["type"] == "integer" and field.get("maximum", LARGEST) < LARGEST:
        return f"integer, {field['minimum']} to {field['maximum']}"
    if field.get("pattern", "").startswith("^P"):
        return "duration"
    return "time" if field.get("format") == "date-time" else field["type"]


def _rules(node: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for rule in node.get("x-kubernetes-validations", []):
        yield path or "metadata", rule["message"]
    for name, field in node.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}".removeprefix("."))
    for within, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if within in node:
            yield from _rules(node[within], f"{path}{mark}")


def _metrics(registry: CollectorRegistry) -> Iterator[tuple[Any, str]]:
    labelled = {name: one for one, names in registry._collector_to_names.items() for name in names}
    for one in registry.collect():
        names = getattr(labelled.get(one.name), "_labelnames", ()) or getattr(one, "_labelnames", ())
        yield one, ", ".join(f"`{name}`" for name in names)
