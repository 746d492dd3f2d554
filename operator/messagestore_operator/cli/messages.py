"""Prints messages and dead letters in the format of -o."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

import typer

from messagestore_operator.cli.output import Column, Output, plain_json, print_fields, print_table, print_yaml

if TYPE_CHECKING:
    from messagestore.dead_letters import DeadLetter
    from messagestore.message import Message

_COLUMNS = {
    Column("GLOBAL", 8): "global_position",
    Column("TIME", 20): "time",
    Column("STREAM", 16): "stream_name",
    Column("POSITION"): "position",
    Column("TYPE", 12): "type",
    Column("STATUS", 10): "status",
}
_WIDE = {Column("ID", 36): "message_id", Column("CORRELATION", 12): "correlation_id", Column("SIZE"): "payload_size"}
_PAYLOAD = {Column("PAYLOAD"): "payload"}
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
_DEAD_LETTERS = {
    "FAILED": "failed_at",
    "REASON": "reason",
    "REDRIVEN": "redriven_at",
    "SOURCE": "source",
    "DETAIL": "detail",
}
_WIDE_DEAD_LETTERS = {"RAW": "raw", "ID": "message_id", "STREAM": "stream_name"}


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
    shown = _COLUMNS | (_WIDE if form is Output.WIDE else {}) | _PAYLOAD
    rows = list(map(attrgetter(*shown.values()), messages))
    if rows or header:
        print_table(shown, rows, header=header)


def print_dead_letters(dead_letters: Iterable[DeadLetter], form: Output) -> None:
    """Print dead letters: a table, a JSON array, or a YAML list."""
    from messagestore.documents import dead_letter_document

    documents = map(dead_letter_document, dead_letters)
    if form is Output.JSON:
        print_array(json.dumps(document, ensure_ascii=False) for document in documents)
    elif form is Output.YAML:
        print_yaml({"deadLetters": list(documents)})
    else:
        shown = _DEAD_LETTERS | (_WIDE_DEAD_LETTERS if form is Output.WIDE else {})
        print_fields(shown, dead_letters, "no dead letters")


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
