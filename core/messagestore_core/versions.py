"""Translate messages of older envelope versions to the current one as they are read; stored messages don't change.

A declaration of translators is kept in the store for its readers. They are applied here in Python and Arrow, and by
``rows.versions`` of the jobs in Spark. Values at paths of JSON documents are read as ``messagestore.json_text`` reads
them in Spark.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from messagestore_core import envelope, json_values
from messagestore_core.contract.records import FieldSource, Translator
from messagestore_core.json_values import steps
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.layout import TRANSLATORS
from messagestore_core.store.objects import Objects

COLUMNS = {field.name: field.column for field in envelope.COLUMNS if field.translated}
"""The columns of the fields that a translator may change, by their names in manifests."""
FIRST_VERSION = 0
"""The version of a message that names none."""
_LARGEST = 16 << 20
_TRANSLATORS = TypeAdapter(list[Translator])

Row = Mapping[str, Any]


def in_order(translators: Sequence[Translator]) -> list[Translator]:
    """The translators in the order in which they are applied: each takes what the one before made."""
    return sorted(translators, key=lambda one: one.from_version)


def parse_path(path: str) -> tuple[str, list[str | int]]:
    """Where a path leads: ``payload`` or ``metadata`` and the steps within, or ``headers`` and one name.

    Raises:
        ValueError: it leads elsewhere.
    """
    match steps(path):
        case ["headers", str() as name]:
            return "headers", [name]
        case ["payload" | "metadata" as document, *within]:
            return str(document), within
    raise ValueError(f"{path} leads to no header, payload or metadata of a message")


def emptied(translator: Translator) -> set[str]:
    """Columns that are empty in the next version, as their fields were renamed."""
    renamed = {COLUMNS[source.rename] for source in translator.fields.values() if source.rename is not None}
    return renamed - {COLUMNS[name] for name in translator.fields}


def taken_out(translator: Translator) -> set[str]:
    """Headers that the next version doesn't take over as they are."""
    renamed = {source.rename for source in translator.headers.values() if source.rename is not None}
    return renamed | set(translator.headers)


def declare(store: HeldStore, translators: Sequence[Translator]) -> None:
    """Write them to the table folder if they differ from what it has."""
    objects = store.objects()
    if is_declared(objects, translators):
        return
    content = [one.model_dump(mode="json", by_alias=True, exclude_defaults=True) for one in translators]
    with store.step("translators"):
        objects.write(TRANSLATORS, json.dumps(content, indent=2).encode() + b"\n")


def is_declared(objects: Objects, translators: Sequence[Translator]) -> bool:
    """Whether the table folder has exactly these."""
    try:
        return list(translators) == declared(objects)
    except ValidationError:
        return False


def declared(objects: Objects) -> list[Translator]:
    """The translators that the table folder has; empty where it has none."""
    content = objects.read(TRANSLATORS, _LARGEST)
    return list(_TRANSLATORS.validate_json(content)) if content else []


def translate_row(row: Row, translators: Sequence[Translator]) -> dict[str, Any]:
    """One message at the current version.

    Args:
        row: by the columns of ``messages``; headers are a mapping or pairs, and a claimed payload has been fetched.
    """
    translated = dict(row)
    for translator in in_order(translators):
        if (translated["schema_version"] or FIRST_VERSION) == translator.from_version:
            translated = _next(translated, translator)
    return translated


def translate_table(rows: pa.Table, translators: Sequence[Translator]) -> pa.Table:
    """Rows of ``messages`` at the current version, in their order; those that have it already stay as they are."""
    if not translators or not rows.num_rows:
        return rows
    versions = pc.fill_null(rows["schema_version"], FIRST_VERSION)
    old = pc.is_in(versions, pa.array([t.from_version for t in translators], versions.type))
    if not pc.any(old).as_py():
        return rows
    changed = [*COLUMNS.values(), "headers", "schema_version"]
    read = rows.select([*changed, "payload", "metadata"]).filter(old).to_pylist()
    news = iter([translate_row(row, translators) for row in read])
    before = rows.select(changed).to_pylist()
    after = [next(news) if is_old else row for is_old, row in zip(old.to_pylist(), before, strict=True)]
    for name in changed:
        at = rows.column_names.index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, pa.array([_arrow(row[name]) for row in after], field.type))
    return rows


def json_text(document: bytes | None, steps: Sequence[str | int]) -> str | None:
    """Return the value at a path: a string unescaped, anything else as its exact JSON text.

    None where there is no value or null, and where the document is not JSON by RFC 8259, has a key twice or is nested
    too deeply.
    """
    if document is None:
        return None
    text = json_values.json_text(document, steps)
    return None if text is None else text.decode()


def _arrow(value: Any) -> Any:
    return list(value.items()) if isinstance(value, Mapping) else value


def _next(row: dict[str, Any], translator: Translator) -> dict[str, Any]:
    headers = dict(row["headers"] or ())
    translated = {
        COLUMNS[name]: _value(
            source, row, headers, row[COLUMNS[name]], row[COLUMNS[source.rename]] if source.rename else None
        )
        for name, source in translator.fields.items()
    }
    added = {
        name: _value(source, row, headers, headers.get(name), headers.get(source.rename) if source.rename else None)
        for name, source in translator.headers.items()
    }
    gone = taken_out(translator)
    kept = {name: value for name, value in headers.items() if name not in gone}
    kept |= {name: value for name, value in added.items() if value is not None}
    return {
        **row,
        **dict.fromkeys(emptied(translator)),
        **translated,
        "headers": kept if kept or row["headers"] is not None else None,
        "schema_version": translator.from_version + 1,
    }


def _value(source: FieldSource, row: Row, headers: Mapping[str, str], own: str | None, renamed: str | None) -> Any:
    if source.value is not None:
        return source.value
    value = renamed if source.rename is not None else own
    if source.path is not None:
        value = _at(source.path, row, headers)
    return source.default if value is None else value


def _at(path: str, row: Row, headers: Mapping[str, str]) -> str | None:
    document, within = parse_path(path)
    if document == "headers":
        return headers.get(str(within[0]))
    content = row[document]
    return json_text(content.encode() if isinstance(content, str) else content, within)
