"""Claims: a run commits its epoch to the tables of the stores that it writes, and holds them until it ends.

See ``fence`` for what an epoch does.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from messagestore_core.store.delta_log import EPOCH, empty_commit
from messagestore_core.store.ended import is_newest, read_ended
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import FencedError, HeldStore, observed
from messagestore_core.store.layout import LAST_RUN
from messagestore_core.store.log_copy import CopiedTable
from messagestore_core.store.notes import TableAt

_ATTEMPTS = 100


@contextmanager
def holding(stores: Sequence[HeldStore], run: str) -> Iterator[None]:
    """Hold the right to write these stores, each under its epoch, while the block lasts. Their folders are open.

    Raises:
        FencedError: one was written under a newer epoch, before the block or within it; or the run has no epoch, and
            an operator grants the right to write the store.
    """
    held = [store for store in stores if store.epoch is not None]
    for store in stores:
        if store.epoch is None:
            _refuse_without_epoch(store)
    for store in stores:
        # What was read earlier counts if tables were left unopened for it.
        store.ended = store.ended if store.known.unopened else read_ended(store)
        if store.epoch is None:
            store.follows_end = store.ended is not None and is_newest(store, store.ended)
    for store in held:
        if not open_epoch(store, run) and store.ended is not None:
            # What comes now has no commit on messages before it, by which others would know of it.
            with store.step("ended-forgotten"):
                store.objects().delete(LAST_RUN)
        store.is_held = True
    try:
        yield
    except Exception as error:
        for store in held:
            store.is_held = False
            _explain(store, error)
        raise
    finally:
        for store in held:
            store.epoch_is_open = store.is_held = False
            store.known.unopened.clear()


def open_epoch(store: HeldStore, run: str) -> bool:
    """Commit a store's epoch to its tables; from then on commits of older epochs fail.

    The claim of ``messages`` is enough if it comes right after the last commit of a run that has ended: no other run
    has claimed the store since, and none can with an older epoch.

    Returns:
        Whether ``messages`` was claimed now; else this epoch had it already.

    Raises:
        FencedError: a table has a newer one.
    """
    with observed("claim"):
        before = _commit_epoch(store, run, "messages")
        store.follows_end = before is not None and _has_ended(store, before)
        if not store.follows_end:
            others = [name for name in store.tables if name != "messages"]
            with ThreadPoolExecutor(len(others)) as threads:
                list(threads.map(partial(_commit_epoch, store, run), others))
    store.epoch_is_open = True
    return before is not None


class _Before(NamedTuple):
    """A table right before a claim, and its newest epoch."""

    at: TableAt
    epoch: int | None


def _has_ended(store: HeldStore, before: _Before) -> bool:
    """Whether the run that left ``messages`` so has ended, with all tables of now."""
    said = store.ended
    return (
        said is not None
        and said.epoch is not None
        and said.epoch == before.epoch
        and said.tables.get("messages") == before.at
        and set(store.tables) <= set(said.tables)
    )


def _commit_epoch(store: HeldStore, run: str, name: str) -> _Before | None:
    """Commit the epoch to one table, right after the commit whose totals it repeats; None: it had it."""
    checked = store.last_opened(name)
    for _ in range(_ATTEMPTS):
        try:
            table = checked or store.opened(name)
        except TableNotFoundError:
            # A deletion that broke off goes on without this table.
            return None
        newest = store.transaction_of(name, table, EPOCH)
        store.refuse_older_than(newest)
        if newest == store.epoch:
            store.known.noted.add(name)
            return None
        before = _Before(TableAt(id=str(table.metadata().id), version=table.version()), newest)
        properties = store.carrying_on(name, table, run)
        # A commit after one that was not read would repeat wrong totals.
        properties.max_commit_retries = 0
        if not _is_committed(store, name, table, properties):
            checked = None
            continue
        store.known.committed(name, before.at.version + 1)
        store.wrote(name, before.at.version + 1, properties)
        if checked is not None and table.version() == before.at.version + 1:
            store.known.looked_at(name)
        return before
    raise RunFailedError("RunFailed", f"other runs keep writing {store.path(name)}; its epoch can't be set")


def _is_committed(store: HeldStore, name: str, table: DeltaTable, properties: CommitProperties) -> bool:
    """Make a commit without rows; False: another came before it."""

    def write(table: DeltaTable) -> None:
        empty_commit(table, name, properties)

    if isinstance(table, CopiedTable):
        return store.commit_by_copy(name, table, write)
    try:
        write(table)
    except CommitFailedError:
        return False
    return True


def _refuse_without_epoch(store: HeldStore) -> None:
    newest = store.newest_epoch()
    if newest is not None:
        raise FencedError(
            f"{store.uri} is written by the runs of an operator (its newest epoch is {newest}), and this run has no "
            "epoch: let the operator run it"
        )


def _explain(store: HeldStore, error: Exception) -> None:
    """Raise FencedError if a newer epoch is the cause of an error, which may be of any type."""
    if isinstance(error, FencedError):
        return
    try:
        newest = store.newest_epoch()
    except Exception:
        return
    try:
        store.refuse_older_than(newest)
    except FencedError as fenced:
        raise fenced from error
