"""Prints messages and dead letters in the format of -o."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from messagestore_operator.cli.output import Output, plain_json, print_yaml
from messagestore_operator.cli.tables import Column, print_table, shown_bytes

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
_PAYLOAD = (Column("PAYLOAD"),)
_DEAD_LETTERS = (Column("FAILED"), Column("REASON"), Column("SOURCE"), Column("DETAIL"))
_WIDE_LETTERS = (Column("RAW"), Column("REDRIVEN"), Column("ID"), Column("STREAM"))


def print_messages(messages: Iterable[Message], form: Output) -> None:
    """Print a whole result: a table, a JSON array of Native records, or a YAML list."""
    if form is Output.JSON:
        _print_array(_records(messages))
    elif form is Output.YAML:
        print_yaml({"messages": [_documents_as_text(message) for message in messages]})
    else:
        rows = list(messages)
        if not rows:
            typer.echo("no messages", err=True)
        print_rows(rows, form, header=bool(rows))


def print_more(messages: Iterable[Message], form: Output) -> None:
    """Print messages as they come: rows below the table's header, JSON lines, or YAML documents."""
    if form is Output.JSON:
        for line in _records(messages):
            typer.echo(line)
    elif form is Output.YAML:
        for message in messages:
            typer.echo("---")
            print_yaml(_documents_as_text(message))
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
    if form is Output.JSON:
        _print_array(
            plain_json(json.dumps(_dead_letter(dead_letter), ensure_ascii=False)) for dead_letter in dead_letters
        )
    elif form is Output.YAML:
        print_yaml({"deadLetters": [_dead_letter(dead_letter) for dead_letter in dead_letters]})
    else:
        wide = form is Output.WIDE
        rows = [_dead_letter_cells(dead_letter, wide=wide) for dead_letter in dead_letters]
        if not rows:
            typer.echo("no dead letters", err=True)
            return
        print_table((*_DEAD_LETTERS, *(_WIDE_LETTERS if wide else ())), rows)


def _cells(message: Message, *, wide: bool) -> tuple[object, ...]:
    m = message
    narrow = (m.global_position, m.time, m.stream_name, m.position, m.type, m.status)
    more = (m.message_id, m.correlation_id, m.payload_size) if wide else ()
    return (*narrow, *more, shown_bytes(m.payload))


def _dead_letter_cells(dead_letter: DeadLetter, *, wide: bool) -> tuple[object, ...]:
    origin = f"{dead_letter.source['uri']}#{dead_letter.source['offset']}"
    narrow = (dead_letter.failed_at, dead_letter.reason, origin, dead_letter.detail)
    more = (
        (shown_bytes(dead_letter.raw), dead_letter.redriven_at, dead_letter.message_id, dead_letter.stream_name)
        if wide
        else ()
    )
    return (*narrow, *more)


def _records(messages: Iterable[Message]) -> Iterator[str]:
    from messagestore.native import native_record

    return (plain_json(native_record(message).decode()) for message in messages)


def _print_array(lines: Iterable[str]) -> None:
    """Print a JSON array with one element per line; each is JSON text already."""
    separator = "["
    for line in lines:
        typer.echo(f"{separator}\n{line}", nl=False)
        separator = ","
    typer.echo("[]" if separator == "[" else "\n]")


def _documents_as_text(message: Message) -> dict[str, Any]:
    """A message for YAML, with its JSON documents as text: YAML would write their numbers differently."""
    from messagestore.native import head

    documents = {"metadata": message.metadata, "payload": message.payload, "result": message.result}
    return head(message) | {
        key: text
        for name, value in documents.items()
        if value is not None
        for key, text in text_of(name, value).items()
    }


def _dead_letter(dead_letter: DeadLetter) -> dict[str, Any]:
    from messagestore.native import rfc3339

    return {
        "reason": dead_letter.reason,
        "detail": dead_letter.detail,
        "failedAt": rfc3339(dead_letter.failed_at),
        "source": dict(dead_letter.source),
        "messageId": dead_letter.message_id,
        "streamName": dead_letter.stream_name,
        "correlationId": dead_letter.correlation_id,
        "redrivenAt": dead_letter.redriven_at and rfc3339(dead_letter.redriven_at),
        "redrivenBy": dead_letter.redriven_by,
        "tries": dead_letter.tries,
        "earlier": [
            {"reason": one["reason"], "detail": one["detail"], "failedAt": rfc3339(one["failed_at"])}
            for one in dead_letter.earlier
        ],
        **({} if dead_letter.raw is None else text_of("raw", dead_letter.raw)),
    }


def text_of(name: str, content: str | bytes) -> dict[str, str]:
    """Bytes as text if they are UTF-8, else as base64 under another name."""
    if isinstance(content, str):
        return {name: content}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(content).decode()}
