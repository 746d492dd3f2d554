"""``messagestore tail``: the newest messages, then new ones as they arrive."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.interrupts import InterruptedRunError, interruptible
from messagestore_operator.cli.messages import print_more, print_rows
from messagestore_operator.cli.options import seconds
from messagestore_operator.cli.output import Output
from messagestore_operator.cli.store import Name, Store, opened

if TYPE_CHECKING:
    from messagestore.reader import Reader

_AT_ONCE = 1000


def tail(
    store: Store,
    name: Name = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of newest messages to print first.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Then print new messages until interrupted.")
    ] = True,
    interval: Annotated[
        float,
        typer.Option(
            "--interval",
            metavar="DURATION",
            parser=seconds,
            show_default="2s",
            help="How often to check the store for new messages.",
        ),
    ] = 2.0,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Output format. With json, one message per line.")
    ] = Output.TABLE,
) -> None:
    """Print the newest messages of a store, a category or a stream, then each new one once a run has committed it.

    A message that no longer matches its stored digest is not printed; standard error names it.
    """
    # Shells start background jobs with SIGINT ignored; this handler lets SIGINT end them, too.
    with opened(store) as reader, suppress(InterruptedRunError), interruptible(stop=lambda: None):
        _tail(reader, name, lines, interval if follow else None, output)


def _tail(reader: Reader, name: str | None, lines: int, interval: float | None, output: Output) -> None:
    version = reader.version
    last = _end(reader)
    shown = reader.latest(name, lines)
    last = max([last, *(message.global_position for message in shown)])
    if output in (Output.TABLE, Output.WIDE):
        print_rows(shown, output, header=True)
    else:
        print_more(shown, output)
    while interval is not None:
        last = _print_since(reader, name, last, output)
        while version == reader.version:
            time.sleep(interval)
        version = reader.version


def _print_since(reader: Reader, name: str | None, last: int, output: Output) -> int:
    """Print the messages after a global position; returns the position after which to go on."""
    end = _end(reader)
    new = iter(reader.since(name, last, batch_size=-1))
    while messages := list(islice(new, _AT_ONCE)):
        print_more(messages, output)
        last = messages[-1].global_position
    return max(last, end)


def _end(reader: Reader) -> int:
    """The last global position; without payloads that of a broken message counts, too."""
    return max((message.global_position for message in reader.find(batch_size=1)), default=0)
