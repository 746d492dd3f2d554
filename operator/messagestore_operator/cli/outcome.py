"""``messagestore outcome``: what became of a message."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from messagestore_operator.cli.options import seconds
from messagestore_operator.cli.output import Output, document_of, printed
from messagestore_operator.cli.store import Store, opened
from messagestore_operator.cli.tables import Column, print_table

EXIT_CODES = {"Stored": 0, "SetAside": 3, "Erased": 4, "Purged": 5, "NotSeen": 6}
"""The exit code of each outcome; that of the first one counts."""


def outcome(
    store: Store,
    message_id: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="The message's id.")],
    wait: Annotated[
        float, typer.Option("--wait", metavar="DURATION", parser=seconds, help="Wait so long until anything is known.")
    ] = 0.0,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.TABLE,
) -> None:
    """Print what became of a message: all that is known of its id.

    Exits 0 if it is stored, 3 if a record of it was set aside, 4 if it was erased, 5 if it was purged (where purged ids
    are remembered), and 6 if nothing is known of it. Exits 1 if the store can't be read, 2 if arguments are wrong.
    """
    with opened(store) as reader:
        outcomes = reader.wait(message_id, timedelta(seconds=wait)) if wait else reader.outcome(message_id)
    documents = [{"outcome": type(one).__name__, **document_of(one)} for one in outcomes]
    if not printed(output, documents, "outcomes"):
        rows = [(name, _details(one)) for one in documents for name in (one.pop("outcome"),)]
        print_table((Column("OUTCOME"), Column("DETAILS")), rows)
    raise typer.Exit(EXIT_CODES[type(outcomes[0]).__name__])


def _details(document: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in document.items() if value is not None)
