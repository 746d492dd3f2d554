"""`messagestore dead-letters`: the records that a store set aside."""

from __future__ import annotations

from typing import Annotated

import typer

from messagestore_operator.cli.messages import print_dead_letters
from messagestore_operator.cli.output import Output
from messagestore_operator.cli.store import At, Store, Version, opened


def dead_letters(
    store: Store,
    reason: Annotated[
        list[str] | None,
        typer.Option("--reason", metavar="REASON", help="Only those with this reason; may be given several times."),
    ] = None,
    redriven: Annotated[
        bool | None,
        typer.Option(
            "--redriven/--open",
            help="Only those that were sent again and taken in, or only the others.",
            show_default="all",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-n", min=-1, help="How many at most; -1 without a bound.")
    ] = 100,
    version: Version = None,
    at: At = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How they are printed; all but table have the raw bytes.")
    ] = Output.TABLE,
) -> None:
    """Print the records that were set aside, the newest first: when, why, and where each was read."""
    with opened(store, version, at) as reader:
        print_dead_letters(reader.dead_letters(reason or (), redriven, batch_size), output)
