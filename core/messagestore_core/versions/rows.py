"""Translators over rows of ``messages`` in Python and Arrow.

Values at paths of JSON documents are read as ``messagestore.json_text`` reads them in Spark.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core import json_values
from messagestore_core.contract.records import FieldSource, Translator
from messagestore_core.versions.rules import COLUMNS, FIRST_VERSION, emptied, in_order, parse_path, taken_out

Row = Mapping[str, Any]


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
