"""``messagestore stats``: counts of a store."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messagestore_operator.cli.options import moment
from messagestore_operator.cli.output import (
    BAD_INPUT,
    Column,
    Output,
    OutputOption,
    document_of,
    failure,
    print_table,
    printed,
    shown_time,
)
from messagestore_operator.cli.store import At, Store, Version, opened

if TYPE_CHECKING:
    from messagestore.statistics import Elapsed, Share, Statistics


def stats(
    store: Store,
    version: Version = None,
    at: At = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="PARTS",
            help="Count messages by these instead: stream, category, type, status, one or more with commas between.",
        ),
    ] = None,
    between: Annotated[
        str | None,
        typer.Option(
            "--between",
            metavar="TYPE,TYPE",
            help="Print the time from a message of one type to the next of another in its correlation instead.",
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--since", metavar="TIME", parser=moment, help="With --between: what began at this time or later."
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print counts of a store: messages by category and status, dead letters by reason, and records read in all.

    Reads a few columns of all messages.
    """
    if between is None and since is not None:
        raise failure("--since needs --between", BAD_INPUT)
    if between is not None:
        first, comma, then = between.partition(",")
        if by is not None or not (first and comma and then):
            raise failure("--between needs two types with a comma between, and no --by", BAD_INPUT)
        with opened(store, version, at) as reader:
            _print_elapsed(reader.elapsed(first, then, since), output)
        return
    if by is not None:
        parts = [part.strip() for part in by.split(",")]
        with opened(store, version, at) as reader:
            _print_shares(parts, reader.summary(parts), output)
        return
    with opened(store, version, at) as reader:
        figures = reader.statistics()
    if not printed(output, _document(figures)):
        _print(figures)


def _print_shares(parts: list[str], shares: list[Share], output: Output) -> None:
    rows = [
        dict(zip(parts, one.values, strict=True)) | {"messages": one.messages, "percent": one.percent} for one in shares
    ]
    if not printed(output, {"summary": rows}):
        columns = [Column(name.upper()) for name in (*parts, "messages", "percent")]
        print_table(columns, [(*one.values, one.messages, f"{one.percent:.2f}") for one in shares])


def _print_elapsed(times: Elapsed, output: Output) -> None:
    spans = ("shortest", "median", "p95", "longest")
    seconds = {name: None if (span := getattr(times, name)) is None else span.total_seconds() for name in spans}
    document = {"correlations": times.correlations, "open": times.open, "seconds": seconds}
    if not printed(output, document):
        columns = [Column(name.upper()) for name in ("correlations", "open", *spans)]
        cells = ("" if one is None else f"{one:g} s" for one in seconds.values())
        print_table(columns, [(times.correlations, times.open, *cells)])


def _print(figures: Statistics) -> None:
    totals = figures.totals
    facts = {
        "version": f"{figures.version}{f', of {shown_time(figures.committed_at)}' if figures.committed_at else ''}",
        "messages": figures.messages,
        "files": f"{figures.file_bytes} bytes",
        "read in all": f"{totals.received}: {totals.stored} stored, {totals.duplicates} duplicates, "
        f"{totals.dead_lettered} dead letters, {totals.filtered} filtered, {totals.discarded} discarded",
        "by status": _counts(figures.statuses),
        "dead letters": _counts(figures.dead_letters),
    }
    print_table((Column(""), Column("")), facts.items(), header=False)
    if figures.categories:
        typer.echo()
        numbers = [Column(name) for name in ("MESSAGES", "STREAMS", "PAYLOADS", "LAST")]
        print_table(
            (Column("CATEGORY"), *numbers, Column("OLDEST"), Column("NEWEST")),
            [
                (
                    c.category,
                    c.messages,
                    c.streams,
                    c.payload_bytes,
                    c.last_global_position,
                    c.oldest_time,
                    c.newest_time,
                )
                for c in figures.categories
            ],
        )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _document(figures: Statistics) -> dict[str, Any]:
    return {
        "version": figures.version,
        "committedAt": figures.committed_at and shown_time(figures.committed_at),
        "messages": figures.messages,
        "fileBytes": figures.file_bytes,
        "totals": figures.totals.model_dump(mode="json", by_alias=True),
        "statuses": figures.statuses,
        "deadLetters": figures.dead_letters,
        "categories": list(map(document_of, figures.categories)),
    }
