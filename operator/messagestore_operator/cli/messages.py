"""Prints messages and dead letters in the format of -o."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import typer

from messagestore_operator.cli.output import (
    Column,
    Output,
    plain_json,
    print_table,
    print_yaml,
    shown_bytes,
    shown_source,
)

if TYPE_CHECKING:
    from messagestore.dead_letters import DeadLetter
    from messagestore.message import Message

_COLUMNS = (
    Column("GLOBAL", 8),
    Column("TIME", 20),
    Column("STREAM", 16),
    Column("POSITION"),
    Column("TYPE", 12),
    Column("STATUS", 10),
)
_WIDE = (Column("ID", 36), Column("CORRELATION", 12), Column("SIZE"))
FOUND = {
    "GLOBAL": "global_position",
    "TIME": "time",
    "ID": "message_id",
    "STREAM": "stream_name",
    "TYPE": "type",
    "STATUS": "status",
    "RETRIES": "retries",
    "NEXT RETRY": "next_retry_at",
    "ERROR": "error",
}
WIDE_FOUND = {
    "CORRELATION": "correlation_id",
    "CAUSATION": "causation_id",
    "UPDATED": "updated_at",
    "SIZE": "payload_size",
}
CHANGES = {
    "AT": "at",
    "ATTEMPT": "attempt",
    "FROM": "from_status",
    "TO": "to_status",
    "NEXT RETRY": "next_retry_at",
    "ERROR": "error",
}
WIDE_CHANGES = {"POSITION": "global_position", "RUN": "run"}
"""The columns of found messages and of a message's changes, each with the field that it shows."""
_PAYLOAD = (Column("PAYLOAD"),)
_DEAD_LETTERS = (Column("FAILED"), Column("REASON"), Column("SOURCE"), Column("DETAIL"))
_WIDE_DEAD_LETTERS = (Column("RAW"), Column("REDRIVEN"), Column("ID"), Column("STREAM"))


def print_messages(messages: Iterable[Message], form: Output) -> None:
    """Print a whole result: a table, a JSON array of Native records, or a YAML list."""
    if form is Output.JSON:
        print_array(_records(messages))
    elif form is Output.YAML:
        from messagestore.documents import message_document

        print_yaml({"messages": list(map(message_document, messages))})
    else:
        rows = list(messages)
        if not rows:
            typer.echo("no messages", err=True)
        print_rows(rows, form, header=bool(rows))


def print_more(messages: Iterable[Message], form: Output) -> None:
    """Print messages as they come: rows below the table's header, JSON lines, or YAML documents."""
    if form is Output.JSON:
        for line in _records(messages):
            typer.echo(plain_json(line))
    elif form is Output.YAML:
        from messagestore.documents import message_document

        for message in messages:
            typer.echo("---")
            print_yaml(message_document(message))
    else:
        print_rows(messages, form, header=False)


def print_rows(messages: Iterable[Message], form: Output, *, header: bool) -> None:
    """Print messages as rows of a table."""
    wide = form is Output.WIDE
    columns = (*_COLUMNS, *(_WIDE if wide else ()), *_PAYLOAD)
    rows = [_cells(message, wide=wide) for message in messages]
    if rows or header:
        print_table(columns, rows, header=header)


def print_dead_letters(dead_letters: Iterable[DeadLetter], form: Output) -> None:
    """Print dead letters: a table, a JSON array, or a YAML list."""
    from messagestore.documents import dead_letter_document

    documents = map(dead_letter_document, dead_letters)
    if form is Output.JSON:
        print_array(json.dumps(document, ensure_ascii=False) for document in documents)
    elif form is Output.YAML:
        print_yaml({"deadLetters": list(documents)})
    else:
        wide = form is Output.WIDE
        rows = [_dead_letter_cells(dead_letter, wide=wide) for dead_letter in dead_letters]
        if not rows:
            typer.echo("no dead letters", err=True)
            return
        print_table((*_DEAD_LETTERS, *(_WIDE_DEAD_LETTERS if wide else ())), rows)


def _cells(message: Message, *, wide: bool) -> tuple[object, ...]:
    m = message
    narrow = (m.global_position, m.time, m.stream_name, m.position, m.type, m.status)
    more = (m.message_id, m.correlation_id, m.payload_size) if wide else ()
    return (*narrow, *more, shown_bytes(m.payload))


def _dead_letter_cells(dead_letter: DeadLetter, *, wide: bool) -> tuple[object, ...]:
    narrow = (dead_letter.failed_at, dead_letter.reason, shown_source(dead_letter.source), dead_letter.detail)
    more = (
        (shown_bytes(dead_letter.raw), dead_letter.redriven_at, dead_letter.message_id, dead_letter.stream_name)
        if wide
        else ()
    )
    return (*narrow, *more)


def _records(messages: Iterable[Message]) -> Iterator[str]:
    from messagestore.native import native_record

    return (native_record(message).decode() for message in messages)


def print_array(lines: Iterable[str]) -> None:
    """Print a JSON array with one element per line; each is JSON text already."""
    separator = "["
    for line in lines:
        typer.echo(f"{separator}\n{plain_json(line)}", nl=False)
        separator = ","
    typer.echo("[]" if separator == "[" else "\n]")
