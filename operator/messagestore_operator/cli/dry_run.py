"""``messagestore run --dry-run``: prints what a run would do."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messagestore_core.text import camel
from messagestore_operator.cli.output import (
    BAD_INPUT,
    Column,
    Output,
    echo,
    failure,
    plain_json,
    print_table,
    printed,
    shown_time,
)

if TYPE_CHECKING:
    from messagestore_operator.local.dry_run import Tried

Row = dict[str, Any]
_WORDS = {"deadLettered": "dead letters", "unknownFields": "unknown fields", "updates": "status updates"}
_COLUMNS = {
    "message_id": "ID",
    "stream_name": "STREAM",
    "position": "POSITION",
    "type": "TYPE",
    "time": "TIME",
    "records": "RECORDS",
    "reason": "REASON",
    "source": "SOURCE",
    "detail": "DETAIL",
    "rules": "RULES",
    "destination": "DESTINATION",
    "payload": "PAYLOAD",
    "raw": "RAW",
}


def print_tried(tried: Sequence[Tried], output: Output) -> None:
    """Print what each resource would do."""
    if printed(output, [_document(one) for one in tried], "dryRun"):
        return
    for one in tried:
        echo(headline(one))
        for rows in (one.dead_letters, one.messages):
            if rows:
                _print_rows(rows)
    echo("dry run: nothing was changed", err=True)


def headline(one: Tried) -> str:
    """What a resource would do, in one line."""
    about = f"{one.kind.lower()}/{one.name}"
    if one.stream and one.stream != one.name:
        about += f", stream {one.stream}"
    first = next(iter(one.counts), None)
    counts = [f"{_WORDS.get(name, name)} {number}" for name, number in one.counts.items() if number or name == first]
    said = [", ".join(counts)] if counts else []
    if one.note is not None:
        said.append(one.note)
    if one.error is not None:
        said.append(f"it would fail: {one.error.reason}: {one.error.message}")
    return f"{about}: {'; '.join(said)}"


def document_of_row(row: Row) -> Row:
    """A message or dead letter by the names of its fields in JSON; bytes as text, or as base64 under another name."""
    from messagestore.documents import text_of

    document: Row = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            document |= text_of(camel(name), value)
        else:
            document[camel(name)] = shown_time(value) if isinstance(value, datetime) else value
    return document


@contextmanager
def lines_to(file: Path | None) -> Iterator[Callable[[Row], None] | None]:
    """A function that writes a row as a line of JSON, while the block lasts; None without a file.

    Exits if the file exists, or can't be made.
    """
    if file is None:
        yield None
        return
    try:
        lines = file.open("x", encoding="utf-8")
    except OSError as error:
        raise failure(f"{file}: {error.strerror}", BAD_INPUT) from None
    with lines:
        yield lambda row: print(plain_json(json.dumps(document_of_row(row), ensure_ascii=False)), file=lines)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that goes with the block."""
    with tempfile.TemporaryDirectory(prefix="messagestore-dry-run-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _document(one: Tried) -> Row:
    document: Row = {"kind": one.kind, "name": one.name, "stream": one.stream or None, "counts": one.counts}
    document |= {"deadLetters": [document_of_row(row) for row in one.dead_letters]}
    document |= {"messages": [document_of_row(row) for row in one.messages]}
    error = {"reason": one.error.reason, "message": one.error.message} if one.error else None
    return {name: value for name, value in (document | {"note": one.note, "error": error}).items() if value is not None}


def _print_rows(rows: Sequence[Row]) -> None:
    """Print rows below each other, with the columns that any of them has."""
    names = [name for name in _COLUMNS if any(name in row for row in rows)]
    columns = [Column(_COLUMNS[name]) for name in names]
    print_table(columns, [[row.get(name) for name in names] for row in rows])
