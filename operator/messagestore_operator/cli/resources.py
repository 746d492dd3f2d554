"""Resources as kubectl prints them: a List in JSON or YAML, or tables."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from messagestore_core.text import printable
from messagestore_operator.api import KINDS, Resource
from messagestore_operator.api.columns import cells, header
from messagestore_operator.cli.output import Output, json_text
from messagestore_operator.cli.yaml_text import yaml_text
from messagestore_operator.names import GROUP

_GAP = "   "


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
