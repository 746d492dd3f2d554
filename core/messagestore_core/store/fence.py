"""The fence around a store: of two runs that were given it, only the one with the newer epoch can write.

A run begins by committing its epoch to every table, as the version of transaction ``messagestore-epoch``. From there on
each commit is refused before which a newer one stands. For delta-rs that is a conflict: each of our commits writes that
transaction, and no other commit that wrote it may have come since the table was opened. For Spark on object storage the
log store looks at what was committed before it creates the next version (``Fence.java``).

What is no commit (an object, a marker, a plan) can't be refused by the store. Before each such write the table is
looked at, at most once a second.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from messagestore_core.store.delta_log import EPOCH, CommitNote, epoch_of, note_of
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.external import Observer, external_write, observing
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import TABLES

_ATTEMPTS = 100
_LOOK_AGAIN_SECONDS = 1.0


class FencedError(RunFailedError):
    """The right to write has gone to a newer run."""

    def __init__(self, message: str) -> None:
        super().__init__("Fenced", message)


@contextmanager
def holding(stores: Sequence[Store], run: str) -> Iterator[None]:
    """Write these stores, each under its epoch, while the block lasts. Their folders are open.

    Raises:
        FencedError: one has been written under a newer epoch, before the block or within it; or the run has no epoch
            and the store is one that an operator hands out.
    """
    held = [store for store in stores if store.epoch is not None]
    for store in stores:
        if store.epoch is None:
            _refuse_without_epoch(store)
    for store in held:
        claim(store, run)
    with observing(_look_before_writes(held)):
        try:
            yield
        except Exception as error:
            for store in held:
                _explain(store, error)
            raise


def open_to_write(store: Store, name: str) -> DeltaTable:
    """One table of a folder, for one commit that carries :func:`commit_properties`.

    Raises:
        FencedError: it has been written under a newer epoch.
    """
    table = store.opened(name)
    _refuse_older(store, epoch_of(table))
    return table


def commit_properties(store: Store, note: CommitNote | None = None) -> CommitProperties:
    """What a commit by delta-rs carries: the epoch, so that it is refused after a newer one, and a note."""
    return CommitProperties(
        custom_metadata={"userMetadata": with_epoch(store, note).json_text()} if note else None,
        app_transactions=[Transaction(EPOCH, store.epoch)] if store.epoch is not None else None,
    )


def carrying_on(store: Store, name: str, table: DeltaTable, run: str) -> CommitProperties:
    """What a commit by delta-rs carries that changes no row: of ``messages`` also the totals, as they were."""
    note = with_epoch(store, note_of(table).model_copy(update={"run": run})) if name == "messages" else None
    return commit_properties(store, note)


def with_epoch(store: Store, note: CommitNote) -> CommitNote:
    """The note of a commit of this run."""
    return note.model_copy(update={"epoch": store.epoch})


def claim(store: Store, run: str) -> None:
    """Commit a store's epoch to every table of it: from here on no older one gets through.

    Raises:
        FencedError: a newer one is there.
    """
    with external_write("claim"), ThreadPoolExecutor(len(TABLES)) as threads:
        list(threads.map(partial(_claim, store, run), TABLES))


def _claim(store: Store, run: str, name: str) -> None:
    """Commit the epoch to one table, right after the commit whose totals it carries on."""
    for _ in range(_ATTEMPTS):
        try:
            table = store.opened(name)
        except TableNotFoundError:
            # A deletion that was cut off is carried on.
            return
        newest = epoch_of(table)
        _refuse_older(store, newest)
        if newest == store.epoch:
            return
        properties = carrying_on(store, name, table, run)
        # Not to be committed behind anything else than what was read.
        properties.max_commit_retries = 0
        try:
            table.create_write_transaction(
                [], "append", table.schema(), table.metadata().partition_columns, commit_properties=properties
            )
        except CommitFailedError:
            continue
        return
    raise RunFailedError("RunFailed", f"{store.path(name)} is written all the time by others; its epoch can't be set")


def _look_before_writes(held: Sequence[Store]) -> Observer:
    """An observer of external writes that raises where a table has been handed on."""
    looked_at = -_LOOK_AGAIN_SECONDS

    def observer(name: str, moment: str) -> None:
        nonlocal looked_at
        if moment != "before" or time.monotonic() - looked_at < _LOOK_AGAIN_SECONDS:
            return
        for store in held:
            _refuse_older(store, _newest(store))
        looked_at = time.monotonic()

    return observer


def _newest(store: Store) -> int | None:
    """The newest epoch of a store; None where there is none, or no store."""
    try:
        return epoch_of(store.table("messages"))
    except TableNotFoundError:
        return None


def _refuse_older(store: Store, newest: int | None) -> None:
    if newest is not None and store.epoch is not None and newest > store.epoch:
        raise FencedError(
            f"{store.uri} has been handed to a newer run (epoch {newest}, this run has {store.epoch}); "
            "nothing more was written"
        )


def _refuse_without_epoch(store: Store) -> None:
    newest = _newest(store)
    if newest is not None:
        raise FencedError(
            f"{store.uri} is written by the runs of an operator (its newest epoch is {newest}), and this run has no "
            "epoch: let the operator run it"
        )


def _explain(store: Store, error: Exception) -> None:
    """Say that the run was fenced where that is what stopped it, whichever way the refusal came."""
    if isinstance(error, FencedError):
        return
    try:
        newest = _newest(store)
    except Exception:
        return
    try:
        _refuse_older(store, newest)
    except FencedError as fenced:
        raise fenced from error
