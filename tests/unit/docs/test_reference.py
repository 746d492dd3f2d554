"""The pages of docs/reference match the code.

Renew them with: RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/unit/docs/test_reference.py.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from messagestore_operator.api import KINDS, crd
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.metrics import Metrics
from messagestore_operator.cluster.resource_metrics import FIGURES
from messagestore_operator.settings import Settings

RENEW = "RENEW_SNAPSHOTS"
REPOSITORY = Path(__file__).parents[3]
REFERENCE = REPOSITORY / "docs" / "reference"
VALUES = REPOSITORY / "charts/message-store-operator/values.yaml"
Node = dict[str, Any]
Described = list[tuple[Node, str]]
FIRST = "MessageStream"
FIXED = tuple(f" can't be changed{more}: make a new resource instead" for more in ("", " without start"))
LARGEST = 2**53  # the largest integer that JSON readers keep exactly: not a chosen limit
KEPT = "<!-- Kept by tests/unit/docs/test_reference.py. -->"
COMMON = "#common-arguments-and-options"
COLUMNS = "| field | type, default | meaning |\n| --- | --- | --- |\n"


def _is_current(page: str, title: str, text: str) -> None:
    wanted = f"# {title}\n\n{KEPT}\n\n{text.strip()}\n"
    file = REFERENCE / page
    if RENEW in os.environ:
        file.write_text(wanted, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == wanted, f"run again with {RENEW}=1"


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_a_kind_describes_each_field(kind: str) -> None:
    """Objects whose fields a page, or that of MessageStream, has described are named, and not described again."""
    schema, described, listed = _schema(kind), Described(), set[str]()
    if kind != FIRST:
        _describe(_schema(FIRST), described, f" of [{FIRST}]({FIRST.lower()}.md)")
        listed = {message for _, message in _rules(_schema(FIRST), "", set())}
    parts = [f"{schema['description']} `kubectl get {crd.NAMES[kind].short}` lists them.\n"]
    for part, rows in _describe(schema, described).items():
        parts += [f"\n## {part}\n\n{schema['properties'][part]['description']}\n\n{COLUMNS}", *rows]
    said = list(_rules(schema, "", listed))
    rules = [f"- `{path}`: {message}\n" for path, message in said if not message.endswith(FIXED)]
    for how in FIXED:
        fixed = [f"{path}.{message.removesuffix(how)}" for path, message in said if message.endswith(how)]
        rules += [f"- `{'`, `'.join(fixed)}`: …{how}\n"] if fixed else []
    more = "" if kind == FIRST else f", and besides what [it refuses of a {FIRST}]({FIRST.lower()}.md)"
    parts.append(
        f"\n## What the API server refuses\n\nBesides values of another type{more}; in its words. A rule of "
        f"several fields is listed at the first of them.\n\n{''.join(rules)}"
    )
    _is_current(f"{kind.lower()}.md", kind, "".join(parts))


@pytest.mark.parametrize(
    ("page", "module", "name"),
    [
        ("command-line.md", "messagestore_operator.cli.main", "messagestore"),
        ("kubectl-messagestore.md", "messagestore_operator.plugin.main", "kubectl messagestore"),
    ],
)
def test_the_page_of_commands_is_what_typer_prints(page: str, module: str, name: str) -> None:
    typer = [sys.executable, "-m", "typer", module, "utils", "docs", "--name", name]
    title, _, text = subprocess.run(typer, capture_output=True, text=True, check=True).stdout.partition("\n")
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+|\* `--help`: .*\n", "", text)  # each command has a heading
    text = re.sub(r"\*\*(Usage|Arguments|Options)\*\*:\n\n", "", text)
    text = re.sub(r"(?m)(^\* .*\n)\n(?=\* )", r"\1", text)  # arguments and options as one list
    _is_current(page, title.removeprefix("# "), _described_once(text))


def _described_once(text: str) -> str:
    """The text of commands, with what three or more of them take described before the first."""
    times = Counter(re.findall(r"^\* `.*\n", text, re.M))
    often = [row for row, number in times.items() if number > 2]
    names = Counter(map(_name, often))
    shared = {row: _name(row) for row in often if names[_name(row)] == 1}

    def short(block: re.Match[str]) -> str:
        rows = block[0].splitlines(keepends=True)
        own, more = [row for row in rows if row not in shared], [shared[row] for row in rows if row in shared]
        return "".join([*own, *([f"* {', '.join(more)}: [see above]({COMMON})\n"] if more else [])])

    head, mark, commands = re.sub(r"(?m)(?:^\* `.*\n)+", short, text).partition("\n## ")
    return f"{head.strip()}\n\n## Common arguments and options\n\n{''.join(sorted(shared))}{mark}{commands}"


def _name(row: str) -> str:
    """An argument, or an option by its long name."""
    words = row.split("`")[1].split()
    return f"`{next((word for word in words if word.startswith('--')), words[0])}`"


def test_the_page_of_metrics_lists_each_metric() -> None:
    """The metrics at `/metrics` of one replica that has reconciled something."""
    metrics = Metrics()
    metrics.watch_health(lambda: False)
    metrics.watch_queue(lambda: 0, lambda: 0)
    metrics.watch_cache(Cache())
    own = [(f"{one.name}{'_total' * (one.type == 'counter')}", one.type, *rest) for one, *rest in _metrics(metrics)]
    of_resources = [(one.full_name, one.type, one.labels, one.words) for one in FIGURES]
    rows = [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {words} |\n"
        for name, kind, labels, words in (*own, *of_resources)
    ]
    table = "".join(["| figure | type | labels | meaning |\n| --- | --- | --- | --- |\n", *rows])
    _is_current("metrics.md", "Figures at /metrics", table)


def test_the_page_of_where_to_look_names_figures_that_there_are() -> None:
    page, known = (REFERENCE.parent / "observability.md").read_text(), (REFERENCE / "metrics.md").read_text()
    cells = [row.split("|")[2] for row in page.splitlines() if row.startswith("| ") and row.endswith("|")]
    named = [name for cell in cells for name in re.findall(r"`([a-z_]+)[^`]*`", cell)]
    assert len(named) > 20
    assert [name for name in named if f"`messagestore_{name}`" not in known] == []


def test_the_page_of_settings_lists_each_setting() -> None:
    """Those that the chart has under the same name are in its table of values."""
    intro = (
        "Of `messagestore operator`. [operator.md](../operator.md#settings) says where they are set. Settings that are "
        "[values of the chart](../install.md#values) under the same name are only listed there.\n\n"
        "| setting | default | meaning |\n| --- | --- | --- |\n"
    )
    values = YAML(typ="safe").load(VALUES)
    rows = [row for place, row in _settings(Settings(), "") if not _has(values, place.split("."))]
    _is_current("settings.md", "Settings of the operator", "".join([intro, *rows]))


def _settings(group: BaseModel, path: str) -> Iterator[tuple[str, str]]:
    for name, field in type(group).model_fields.items():
        value, place = getattr(group, name), f"{path}.{field.alias}".removeprefix(".")
        if isinstance(value, BaseModel):
            yield from _settings(value, place)
        else:
            default = "" if value in (None, (), {}, "") else f"`{json.dumps(value)}`"
            yield place, f"| `{place}` | {default} | {field.description} |\n"


def _has(values: Any, path: list[str]) -> bool:
    """Whether the path is that of a value, not of a group of values."""
    if not path:
        return not (isinstance(values, dict) and values)
    return isinstance(values, dict) and path[0] in values and _has(values[path[0]], path[1:])


def _schema(kind: str) -> Node:
    schema: Node = crd.custom_resource_definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _describe(schema: Node, described: Described, of: str = "") -> dict[str, list[str]]:
    """The rows of spec and status. Conditions are Kubernetes' own."""
    conditions = schema["properties"]["status"]["properties"]["conditions"]
    described.append((_inner(conditions), "Kubernetes' Condition"))
    return {part: list(_rows(schema["properties"][part], "", described, of)) for part in ("spec", "status")}


def _rows(node: Node, path: str, described: Described, of: str, known: Collection[str] = ()) -> Iterator[str]:
    """A row of each field that isn't known; an object with the fields of an earlier one names that."""
    for name, field in node.get("properties", {}).items():
        if name in known:
            continue
        place, fields = f"{path}.{name}".removeprefix("."), _inner(field)
        like, same = _like(fields, described)
        yield _row(place, field, name in node.get("required", []), like)
        if fields and fields not in [earlier for earlier, _ in described]:
            described.append((fields, f"`{place}`{of}"))
            yield from _rows(field, place, described, of, same)
    for within, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if within in node:
            yield from _rows(node[within], f"{path}{mark}", described, of, known)


def _like(fields: Node, described: Described) -> tuple[str, Collection[str]]:
    """An earlier object with the same fields, or with three and more of them, in words; and which of them it has."""
    for earlier, place in described:
        if fields and fields == earlier:
            return f", as {place}", fields
    for earlier, place in described:
        if len(earlier) > 2 and earlier.items() <= fields.items():
            return f", as {place}, and more", earlier
        if len(fields) > 2 and fields.items() <= earlier.items():
            return f", as {place} without {', '.join(f'`{name}`' for name in earlier if name not in fields)}", fields
    alike = [(place, [name for name in fields if earlier.get(name) == fields[name]]) for earlier, place in described]
    place, same = max(alike, key=lambda one: len(one[1]), default=("", []))
    return (f", with {', '.join(f'`{name}`' for name in same)} of {place}", same) if len(same) > 3 else ("", ())


def _inner(field: Node) -> Node:
    """The fields of an object, or of each in a list or map."""
    fields: Node = (field.get("items") or field.get("additionalProperties") or field).get("properties", {})
    return fields


def _row(path: str, field: Node, required: bool, like: str) -> str:
    default = field.get("default")
    given = "" if default in (None, "", []) or isinstance(default, dict) else f"; default `{json.dumps(default)}`"
    kind = f"{_type(field)}{like}{', required' if required else given}"
    return f"| `{path}` | {kind} | {field['description'].replace('|', chr(92) + '|')} |\n"


def _type(field: Node) -> str:
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


def _rules(node: Node, path: str, listed: set[str]) -> Iterator[tuple[str, str]]:
    """Each rule at the first of the fields that have it. What `conf` may hold is in its description."""
    for rule in node.get("x-kubernetes-validations", []):
        if rule["message"] not in listed and not rule["message"].startswith("conf: "):
            listed.add(rule["message"])
            yield path or "metadata", rule["message"]
    for name, field in node.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}".removeprefix("."), listed)
    for within, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if within in node:
            yield from _rules(node[within], f"{path}{mark}", listed)


def _metrics(metrics: Metrics) -> Iterator[tuple[Any, tuple[str, ...], str]]:
    """Those in the registry, with their labels and meanings."""
    labelled = {name: one for one, names in metrics.registry._collector_to_names.items() for name in names}
    for one in metrics.registry.collect():
        names = getattr(labelled.get(one.name), "_labelnames", ()) or getattr(one, "_labelnames", ())
        yield one, names, one.documentation
