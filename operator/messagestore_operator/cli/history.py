"""``messagestore history``: what has changed in the lifecycle of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.outcome import EXIT_CODES
from messagestore_operator.cli.output import Output, document_of, printed
from messagestore_operator.cli.store import Store, opened
from messagestore_operator.cli.tables import Column, print_table

if TYPE_CHECKING:
    from messagestore.history import HistoryRow

_COLUMNS = ("AT", "ATTEMPT", "FROM", "TO", "NEXT RETRY", "ERROR")
_WIDE = ("POSITION", "RUN")


def history(
    store: Store,
    message_id: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="The message's id.")],
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.TABLE,
) -> None:
    """Print what has changed in the lifecycle of a message, in order: when, in which attempt, and with which error.

    Exits 0 if the message is stored, even if nothing has changed; 3 if a record of it was set aside, 4 if it was
    erased, 5 if it was purged (where purged ids are remembered), and 6 if nothing is known of it. Exits 1 if the store
    can't be read, 2 if arguments are wrong.
    """
    with opened(store) as reader:
        rows = reader.history(message_id)
        became = () if rows else reader.outcome(message_id)
    if not printed(output, list(map(document_of, rows)), "history"):
        if rows:
            wide = output is Output.WIDE
            columns = [Column(name) for name in (*_COLUMNS, *(_WIDE if wide else ()))]
            print_table(columns, [_cells(row, wide=wide) for row in rows])
        else:
            typer.echo("no changes", err=True)
    if became:
        raise typer.Exit(EXIT_CODES[type(became[0]).__name__])


def _cells(row: HistoryRow, *, wide: bool) -> tuple[object, ...]:
    cells = (row.at, row.attempt, row.from_status, row.to_status, row.next_retry_at, row.error)
    return (*cells, row.global_position, row.run) if wide else cells
