"""Resources as kubectl prints them: a List in JSON or YAML, or tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from io import StringIO
from itertools import groupby
from typing import Any

import typer
from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from messagestore_core.text import printable
from messagestore_operator.api import GROUP, KINDS, Resource
from messagestore_operator.api.columns import cells, header

_GAP = "   "


class Output(StrEnum):
    """The formats that resources are printed in."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def printed(resources: Sequence[Resource], form: Output, now: datetime) -> str:
    """The resources with their status."""
    documents = [_document(resource) for resource in resources]
    if form is Output.JSON:
        return json_text(_list(documents)) + "\n"
    if form is Output.YAML:
        return yaml_text(_list(documents))
    return "\n".join(_tables(documents, now, wide=form is Output.WIDE))


def _document(resource: Resource) -> dict[str, Any]:
    values = resource.to_dict()
    values["metadata"] = {name: value for name, value in values["metadata"].items() if value or value == 0}
    return {name: values[name] for name in ("apiVersion", "kind", "metadata", "spec", "status") if name in values}


def _list(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": documents}


def echo(line: str, *, err: bool = False) -> None:
    """Print a line that may have words of others, without what a terminal would interpret."""
    typer.echo(printable(line), err=err)


def json_text(value: dict[str, Any]) -> str:
    """A value as JSON, indented."""
    return plain_json(json.dumps(value, indent=4, ensure_ascii=False))


def plain_json(text: str) -> str:
    """The same JSON, with escapes for what a terminal would interpret: outside its strings JSON has only ASCII."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else json.dumps(c)[1:-1] for c in text)


def yaml_text(value: dict[str, Any]) -> str:
    """A value as one YAML document, in the order of its keys."""
    text = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.Representer = _Representer
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.dump(value, text)
    # Such characters are only in quoted strings, where YAML takes these escapes.
    return printable(text.getvalue(), keep="\n")


class _Representer(SafeRepresenter):
    """Quotes texts with characters that have to be escaped."""


def _quoted(representer: SafeRepresenter, text: str) -> ScalarNode:
    style = None if text.replace("\n", "").isprintable() else '"'
    node: ScalarNode = representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Representer.add_representer(str, _quoted)


def _tables(documents: list[dict[str, Any]], now: datetime, *, wide: bool) -> Iterable[str]:
    """One table for each kind; with several kinds, names begin with the kind, as in kubectl."""
    order = list(KINDS)
    by_kind = groupby(sorted(documents, key=lambda document: order.index(document["kind"])), lambda d: d["kind"])
    groups = [(str(kind), list(group)) for kind, group in by_kind]
    for kind, group in groups:
        prefix = f"{kind.lower()}.{GROUP}/" if len(groups) > 1 else ""
        rows = [cells(document, now, wide=wide) for document in group]
        yield _table([header(kind, wide=wide), *([prefix + name, *rest] for name, *rest in rows)])


def _table(rows: list[list[str]]) -> str:
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)
