"""``messagestore repair``: accept what others did to a store's tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.output import BAD_INPUT, FAILED, echo, failure
from messagestore_operator.cli.store import Store, reporting

if TYPE_CHECKING:
    from messagestore_core.store.fence import HeldStore
    from messagestore_core.store.repair import Step


def repair(
    store: Store,
    accept: Annotated[
        bool, typer.Option("--accept", help="Do it: take the tables as they are now. Without it, nothing is written.")
    ] = False,
    suspended: Annotated[
        bool,
        typer.Option(
            "--suspended",
            help="State that the operator's stream, its policies and replays are suspended, and that no run is in "
            "progress. Needed with --accept for a store that an operator writes.",
        ),
    ] = False,
) -> None:
    """Say what is wrong with a store's tables, and what can be done; with --accept, do it.

    A table that others have changed, restored, rolled back or replaced is taken as it is. A lost table is made anew,
    but never messages. Take a backup back instead if you have one: docs/recovery.md.

    Exits 0 if nothing is wrong or all was repaired, else 1.
    """
    with _held(store) as handle:
        from messagestore_core.store import repair as repairs
        from messagestore_operator.local.run import user

        steps = repairs.steps(handle)
        if not steps:
            typer.echo("nothing is wrong with the logs of the tables; messagestore verify reads their files")
            return
        for step in steps:
            echo(step.wrong)
            echo(f"  {_does(step, accept=accept)}")
        epoch = repairs.newest_epoch(handle)
        if any(step.does is None for step in steps):
            raise typer.Exit(FAILED)
        if accept and epoch is not None and not suspended:
            raise failure(
                "an operator writes this store. Suspend the stream, its policies and replays, wait until no run is in "
                "progress, then add --suspended",
                BAD_INPUT,
            )
        if not accept:
            typer.echo("nothing was written; --accept does this")
            raise typer.Exit(FAILED)
        handle.assume_epoch(None if epoch is None else epoch + 1)
        repairs.repair(handle, datetime.now(UTC), f"user:{user()}")
        typer.echo("repaired")


def _does(step: Step, *, accept: bool) -> str:
    if step.does is None:
        return f"can't be repaired: {step.instead}"
    return step.does if accept else f"--accept {step.does}"


@contextmanager
def _held(uri: str) -> Iterator[HeldStore]:
    """The store, with its lock if it is on this machine; errors are reported."""
    with reporting():
        from messagestore.location import Location, entries_of, refusals
        from messagestore_core.store.fence import HeldStore
        from messagestore_core.store.storage import reaching
        from messagestore_jobs.lock import writing

        with closing(Location(uri)) as location, refusals(uri, "repaired"):
            locked = writing(location.uri, None, 0, lambda text: None)
            with reaching(entries_of(location.uri, os.environ)) as storage, locked:
                yield HeldStore(location.uri, storage)
