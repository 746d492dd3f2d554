"""``messagestore history`` and ``outcome``: what has changed in the lifecycle of a message, and what became of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer

from messagestore_operator.cli.messages import CHANGES, WIDE_CHANGES
from messagestore_operator.cli.options import MessageId, seconds
from messagestore_operator.cli.output import (
    Column,
    Output,
    OutputOption,
    document_of,
    print_fields,
    print_table,
    printed,
)
from messagestore_operator.cli.store import Store, opened

_EXIT_CODES = {"Stored": 0, "SetAside": 3, "Erased": 4, "Purged": 5, "NotSeen": 6}
"""The exit code of each outcome; that of the first one counts."""


def history(
    store: Store,
    message_id: MessageId,
    output: OutputOption = Output.TABLE,
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
        shown = CHANGES | (WIDE_CHANGES if output is Output.WIDE else {})
        print_fields(shown, rows, "no changes")
    if became:
        raise typer.Exit(_EXIT_CODES[type(became[0]).__name__])


def outcome(
    store: Store,
    message_id: MessageId,
    wait: Annotated[
        float, typer.Option("--wait", metavar="DURATION", parser=seconds, help="Wait so long until anything is known.")
    ] = 0.0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print what became of a message: all that is known of its id.

    Exits 0 if it is stored, 3 if a record of it was set aside, 4 if it was erased, 5 if it was purged (where purged ids
    are remembered), and 6 if nothing is known of it. Exits 1 if the store can't be read, 2 if arguments are wrong.
    """
    with opened(store) as reader:
        outcomes = reader.wait(message_id, timedelta(seconds=wait)) if wait else reader.outcome(message_id)
    documents = [{"outcome": type(one).__name__, **document_of(one)} for one in outcomes]
    if not printed(output, documents, "outcomes"):
        rows = [(document.pop("outcome"), _details(document)) for document in documents]
        print_table((Column("OUTCOME"), Column("DETAILS")), rows)
    raise typer.Exit(_EXIT_CODES[type(outcomes[0]).__name__])


def _details(document: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in document.items() if value is not None)
