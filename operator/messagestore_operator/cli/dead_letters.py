"""``messagestore dead-letters``: the records that a store set aside."""

from typing import Annotated

import typer

from messagestore_operator.cli.messages import print_dead_letters
from messagestore_operator.cli.output import Output
from messagestore_operator.cli.store import At, Store, Version, opened


def dead_letters(
    store: Store,
    reason: Annotated[
        list[str] | None,
        typer.Option("--reason", metavar="REASON", help="Only dead letters with this reason. Repeatable."),
    ] = None,
    redriven: Annotated[
        bool | None,
        typer.Option(
            "--redriven/--open",
            help="Only dead letters that were redriven and stored, or only the others.",
            show_default="all",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-n", min=-1, help="Maximum number of dead letters. -1 is no limit.")
    ] = 100,
    version: Version = None,
    at: At = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Output format. All but table have the raw bytes.")
    ] = Output.TABLE,
) -> None:
    """Print dead letters, the newest first: when and why each record failed, and where it was read."""
    with opened(store, version, at) as reader:
        print_dead_letters(reader.dead_letters(reason or (), redriven, batch_size), output)
