"""Translators over rows of ``messages`` in Python and Arrow."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_jobs.contract.run_document import FieldSource, Translator
from messagestore_jobs.versions.rules import COLUMNS, FIRST_VERSION, emptied, in_order, place, taken_out
from messagestore_jobs.versions.texts import json_text

Row = Mapping[str, Any]


def translate_row(row: Row, translators: Sequence[Translator]) -> dict[str, Any]:
    """One message at the current version.

    Args:
        row: by the columns of ``messages``, headers a mapping or pairs; the payload is there, also a claimed one.
        translators: of its stream.
    """
    found = dict(row)
    for translator in in_order(translators):
        if (found["schema_version"] or FIRST_VERSION) == translator.from_version:
            found = _next(found, translator)
    return found


def translate_table(rows: pa.Table, translators: Sequence[Translator]) -> pa.Table:
    """Rows of ``messages`` at the current version, in their order; those that have it are not looked at."""
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


def _arrow(value: Any) -> Any:
    return list(value.items()) if isinstance(value, Mapping) else value


def _next(row: dict[str, Any], translator: Translator) -> dict[str, Any]:
    headers = dict(row["headers"] or ())
    found = {
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
        **found,
        "headers": kept if kept or row["headers"] is not None else None,
        "schema_version": translator.from_version + 1,
    }


def _value(source: FieldSource, row: Row, headers: Mapping[str, str], own: str | None, renamed: str | None) -> Any:
    if source.value is not None:
        return source.value
    found = renamed if source.rename is not None else own
    if source.path is not None:
        found = _at(source.path, row, headers)
    return source.default if found is None else found


def _at(path: str, row: Row, headers: Mapping[str, str]) -> str | None:
    document, within = place(path)
    if document == "headers":
        return headers.get(str(within[0]))
    content = row[document]
    return json_text(content.encode() if isinstance(content, str) else content, within)
