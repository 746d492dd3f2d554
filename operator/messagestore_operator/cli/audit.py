"""``messagestore audit``: what was done to a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.options import moment
from messagestore_operator.cli.output import Output, OutputOption, document_of, print_rows, printed
from messagestore_operator.cli.store import Store, opened

if TYPE_CHECKING:
    from messagestore.audit import AuditRow

_COLUMNS = ("AT", "ACTION", "ACTOR", "REQUESTED BY", "COUNTS")
_WIDE = ("RUN", "REFERS TO", "RULES")


def audit(
    store: Store,
    action: Annotated[
        list[str] | None,
        typer.Option("--action", metavar="ACTION", help="Only this action, such as Purge. Repeatable."),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option("--since", metavar="TIME", parser=moment, help="Only what was done then or later (RFC 3339)."),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-n", min=-1, help="Maximum number of rows. -1 is no limit.")
    ] = 100,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print what was done to a store, the newest first: what, by which resource, who asked, and how much."""
    with opened(store) as reader:
        rows = list(reader.audit(action or (), since, batch_size))
    if not printed(output, list(map(document_of, rows)), "audit"):
        wide = output is Output.WIDE
        cells = [tuple(_cells(row, wide=wide)) for row in rows]
        print_rows((*_COLUMNS, *(_WIDE if wide else ())), cells, "no rows")


def _cells(row: AuditRow, *, wide: bool) -> Iterator[object]:
    counts = ", ".join(f"{count} {name}" for name, count in row.counts.items())
    yield from (row.at, row.action, row.actor, row.requested_by, counts)
    if wide:
        yield from (row.run, row.refers_to, json.dumps(row.rules, ensure_ascii=False))
