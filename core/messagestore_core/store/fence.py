"""The fence around a store: of two runs that were given it, only the one with the newer epoch can write.

A run begins by committing its epoch to every table, as the version of transaction ``messagestore-epoch``. From there on
each commit is refused before which a newer one stands. For delta-rs that is a conflict: each of our commits writes that
transaction, and no other commit that wrote it may have come since the table was opened. For Spark on object storage the
log store looks at what was committed before it creates the next version (``Fence.java``).

What is no commit (an object, a marker, a plan) can't be refused by the store. Before each such write the table is
looked at, at most once a second.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from messagestore_core.contract.run_document import Table
from messagestore_core.store.delta_log import EPOCH, CommitNote, epoch_of, note_of, open_table
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.external import Observer, external_write, observing
from messagestore_core.store.objects import join
from messagestore_core.store.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING = "messagestore.epoch."
_ATTEMPTS = 100
_LOOK_AGAIN_SECONDS = 1.0
_held: dict[str, int] = {}


class FencedError(RunFailedError):
    """The right to write has gone to a newer run."""

    def __init__(self, message: str) -> None:
        super().__init__("Fenced", message)


@contextmanager
def holding(tables: Sequence[Table], run: str, spark: "SparkSession") -> Iterator[None]:
    """Write these stores, each under its epoch, while the block lasts. Their folders are open.

    Raises:
        FencedError: one has been written under a newer epoch, before the block or within it; or the run has no epoch
            and the store is one that an operator hands out.
    """
    held = {table.uri: table.epoch for table in tables if table.epoch is not None}
    for table in tables:
        if table.epoch is None:
            _refuse_without_epoch(table.uri)
    for uri, epoch in held.items():
        claim(uri, epoch, run)
    with _remembered(held, spark), observing(_look_before_writes(held)):
        try:
            yield
        except Exception as error:
            for uri, epoch in held.items():
                _explain(uri, epoch, error)
            raise


def open_to_write(uri: str, name: str) -> DeltaTable:
    """One table of a folder, for one commit that carries :func:`commit_properties`.

    Raises:
        FencedError: it has been written under a newer epoch.
    """
    table = open_table(uri, name)
    if (epoch := _held.get(uri)) is not None:
        _refuse_older(uri, epoch, epoch_of(table))
    return table


def commit_properties(uri: str, note: CommitNote | None = None) -> CommitProperties:
    """What a commit by delta-rs carries: the epoch, so that it is refused after a newer one, and a note."""
    epoch = _held.get(uri)
    return CommitProperties(
        custom_metadata={"userMetadata": with_epoch(uri, note).json_text()} if note else None,
        app_transactions=[Transaction(EPOCH, epoch)] if epoch is not None else None,
    )


def carrying_on(uri: str, name: str, table: DeltaTable, run: str) -> CommitProperties:
    """What a commit by delta-rs carries that changes no row: of ``messages`` also the totals, as they were."""
    note = with_epoch(uri, note_of(table).model_copy(update={"run": run})) if name == "messages" else None
    return commit_properties(uri, note)


def with_epoch(uri: str, note: CommitNote) -> CommitNote:
    """The note of a commit of this run."""
    return note.model_copy(update={"epoch": _held.get(uri)})


def claim(uri: str, epoch: int, run: str) -> None:
    """Commit an epoch to every table of a store: from here on no older one gets through.

    Raises:
        FencedError: a newer one is there.
    """
    with external_write("claim"), ThreadPoolExecutor(len(TABLES)) as threads:
        list(threads.map(partial(_claim, uri, epoch, run), TABLES))


def _claim(uri: str, epoch: int, run: str, name: str) -> None:
    """Commit the epoch to one table, right after the commit whose totals it carries on."""
    for _ in range(_ATTEMPTS):
        try:
            table = open_table(uri, name)
        except TableNotFoundError:
            # A deletion that was cut off is carried on.
            return
        newest = epoch_of(table)
        _refuse_older(uri, epoch, newest)
        if newest == epoch:
            return
        note = note_of(table).model_copy(update={"run": run, "epoch": epoch}) if name == "messages" else None
        properties = CommitProperties(
            custom_metadata={"userMetadata": note.json_text()} if note else None,
            app_transactions=[Transaction(EPOCH, epoch)],
            # Not to be committed behind anything else than what was read.
            max_commit_retries=0,
        )
        try:
            table.create_write_transaction(
                [], "append", table.schema(), table.metadata().partition_columns, commit_properties=properties
            )
        except CommitFailedError:
            continue
        return
    raise RunFailedError("RunFailed", f"{join(uri, name)} is written all the time by others; its epoch can't be set")


@contextmanager
def _remembered(held: Mapping[str, int], spark: "SparkSession") -> Iterator[None]:
    """Let every commit in this process know its epoch, Spark's too."""
    settings = {_setting(spark, uri): str(epoch) for uri, epoch in held.items()}
    _held.update(held)
    for name, epoch in settings.items():
        spark.conf.set(name, epoch)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
        for uri in held:
            del _held[uri]


def _setting(spark: "SparkSession", uri: str) -> str:
    """One setting for the tables of a folder; Hadoop has its own spelling of a path."""
    path = spark._jvm.org.apache.hadoop.fs.Path(join(uri, "messages"))  # type: ignore[union-attr]
    return f"{_SETTING}{path.getParent().toString()}"


def _look_before_writes(held: Mapping[str, int]) -> Observer:
    """An observer of external writes that raises where a table has been handed on."""
    looked_at = -_LOOK_AGAIN_SECONDS

    def observer(name: str, moment: str) -> None:
        nonlocal looked_at
        if moment != "before" or time.monotonic() - looked_at < _LOOK_AGAIN_SECONDS:
            return
        for uri, epoch in held.items():
            _refuse_older(uri, epoch, _newest(uri))
        looked_at = time.monotonic()

    return observer


def _newest(uri: str) -> int | None:
    """The newest epoch of a store; None where there is none, or no store."""
    try:
        return epoch_of(open_table(uri, "messages"))
    except TableNotFoundError:
        return None


def _refuse_older(uri: str, epoch: int, newest: int | None) -> None:
    if newest is not None and newest > epoch:
        raise FencedError(
            f"{uri} has been handed to a newer run (epoch {newest}, this run has {epoch}); nothing more was written"
        )


def _refuse_without_epoch(uri: str) -> None:
    newest = _newest(uri)
    if newest is not None:
        raise FencedError(
            f"{uri} is written by the runs of an operator (its newest epoch is {newest}), and this run has no epoch: "
            "let the operator run it"
        )


def _explain(uri: str, epoch: int, error: Exception) -> None:
    """Say that the run was fenced where that is what stopped it, whichever way the refusal came."""
    if isinstance(error, FencedError):
        return
    try:
        newest = _newest(uri)
    except Exception:
        return
    try:
        _refuse_older(uri, epoch, newest)
    except FencedError as fenced:
        raise fenced from error
