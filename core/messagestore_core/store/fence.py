"""The fence around a store: of two runs with a grant for it, only the one with the newer epoch can write.

A run begins by committing its epoch to every table, as the version of transaction ``messagestore-epoch``. Each later
commit fails if a newer epoch was committed before it. For delta-rs that is a conflict: each of our commits writes that
transaction, so none succeeds if another commit wrote it since the table was opened. For Spark on object storage the log
store checks the committed epoch before it creates the next version (``Fence.java``).

Delta can't refuse writes that are no commits (objects, markers, plans). Before such a write the run checks the table's
epoch, at most once a second.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from messagestore_core.store.delta_log import EPOCH, CommitNote, empty_commit, epoch_of, note_of
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.external import Observer, external_write, observing
from messagestore_core.store.handle import Store
from messagestore_core.store.notes import TablesNote

_ATTEMPTS = 100
_LOOK_AGAIN_SECONDS = 1.0


class FencedError(RunFailedError):
    """A newer run has the right to write."""

    def __init__(self, message: str) -> None:
        super().__init__("Fenced", message)


@contextmanager
def holding(stores: Sequence[Store], run: str) -> Iterator[None]:
    """Hold the right to write these stores, each under its epoch, while the block lasts. Their folders are open.

    Raises:
        FencedError: one was written under a newer epoch, before the block or within it; or the run has no epoch, and
            an operator grants the right to write the store.
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
        FencedError: it was written under a newer epoch.
    """
    table = store.opened(name)
    if store.epoch is not None:
        _refuse_older(store, epoch_of(table))
    store.known.writing(name, table)
    return table


def commit_properties(store: Store, note: CommitNote | None = None) -> CommitProperties:
    """The properties of a commit by delta-rs: a note, and the epoch, so that the commit fails after a newer one."""
    return CommitProperties(
        custom_metadata={"userMetadata": note_text(store, note)},
        app_transactions=[Transaction(EPOCH, store.epoch)] if store.epoch is not None else None,
    )


def carrying_on(store: Store, name: str, table: DeltaTable, run: str) -> CommitProperties:
    """The properties of a commit by delta-rs that changes no row; on ``messages`` it repeats the totals."""
    return commit_properties(store, note_of(table).model_copy(update={"run": run}) if name == "messages" else None)


def note_text(store: Store, note: CommitNote | None = None) -> str:
    """The user metadata of a commit: a note of ``messages``, or that of any other table."""
    said = TablesNote() if note is None else note
    return said.model_copy(update={"epoch": store.epoch, "tables": store.known.all()}).json_text()


def claim(store: Store, run: str) -> None:
    """Commit a store's epoch to all of its tables; from then on commits of older epochs fail.

    Raises:
        FencedError: a table has a newer one.
    """
    with external_write("claim"), ThreadPoolExecutor(len(store.tables)) as threads:
        list(threads.map(partial(_claim, store, run), store.tables))


def _claim(store: Store, run: str, name: str) -> None:
    """Commit the epoch to one table, right after the commit whose totals it repeats."""
    checked = store.last_opened(name)
    for _ in range(_ATTEMPTS):
        try:
            table = checked or store.opened(name)
        except TableNotFoundError:
            # A deletion that broke off goes on without this table.
            return
        newest = epoch_of(table)
        _refuse_older(store, newest)
        if newest == store.epoch:
            store.known.noted.add(name)
            return
        properties = carrying_on(store, name, table, run)
        # A commit after one that was not read would repeat wrong totals.
        properties.max_commit_retries = 0
        try:
            empty_commit(table, properties)
        except CommitFailedError:
            checked = None
            continue
        store.known.committed(name, table.version() + 1)
        return
    raise RunFailedError("RunFailed", f"other runs keep writing {store.path(name)}; its epoch can't be set")


def _look_before_writes(held: Sequence[Store]) -> Observer:
    """An observer of external writes that raises FencedError where a newer run has the store."""
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
    """The newest epoch of a store; None without an epoch or without a store."""
    try:
        return store.transaction("messages", EPOCH)
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
    """Raise FencedError if a newer epoch is the cause of an error, which may be of any type."""
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
