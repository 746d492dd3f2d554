"""``messagestore verify``: whether a store is what was stored."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.output import BAD_INPUT, FAILED, Output, OutputOption, echo, failure, printed
from messagestore_operator.cli.store import Store, reporting

if TYPE_CHECKING:
    from messagestore.verifying import Check


def verify(
    store: Store,
    seal_keys: Annotated[
        list[str] | None,
        typer.Option(
            "--seal-key",
            metavar="VARIABLE",
            help="Check seals, with the key in this environment variable. Repeatable, for earlier keys.",
        ),
    ] = None,
    payloads: Annotated[bool, typer.Option(help="Read all payloads, and compare each with its SHA-256.")] = True,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check that a store is what was stored. It reads all messages, and writes nothing.

    Tables: whether they belong together. Totals: each record that was received is one thing. Positions: none is given
    twice, and only purges left holes. Payloads and seals: as they were stored. Index: has what the table has.

    Exits 0 if nothing is wrong, 1 if something is or the store can't be read, 2 if the arguments are wrong.
    """
    for name in seal_keys or ():
        if not os.environ.get(name):
            raise failure(f"--seal-key names {name}, and there is no such environment variable", BAD_INPUT)
    keys = [os.environ[name] for name in seal_keys or ()]
    made: list[Check] = []
    with reporting():
        from messagestore.verifying import verify as checks

        for check in checks(store, seal_keys=keys, payloads=payloads):
            made.append(check)
            if output in (Output.TABLE, Output.WIDE):
                for line in check_lines(**asdict(check)):
                    echo(line)
    printed(output, [asdict(check) for check in made], "checks")
    if any(check.count for check in made):
        raise typer.Exit(FAILED)


def check_lines(name: str, examined: str, problems: Sequence[str], count: int, note: str | None) -> Iterator[str]:
    """A check in words, by the fields of ``messagestore.verifying.Check``."""
    result = f"{count:,} wrong" if count else "ok" if examined else "not checked"
    yield f"{name + ':':11}" + ", ".join(filter(None, (result, examined, note)))
    yield from (f"  {problem}" for problem in problems)
    if count > len(problems):
        yield f"  and {count - len(problems):,} more"
