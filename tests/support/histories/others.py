"""What others do to the tables of a store."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from messagestore_core.store.handle import Store
from messagestore_core.store.objects import local_path
from messagestore_jobs.session import settings
from support.crash import forget_tables
from support.histories import found
from support.histories.steps import Damaged
from support.maintenance import WITHOUT_STATISTICS, optimize


def maintained_by_others(spark: SparkSession, store: Store, what: str, names: Iterable[str]) -> None:
    """Maintenance of tables that means well: no row changes."""
    match what:
        case "optimize":
            optimize(spark, store, *names)
        case "optimize without statistics":
            with settings(spark, WITHOUT_STATISTICS):
                optimize(spark, store, *names)
        case "vacuum":
            # By delta-rs, as Spark takes seconds to a minute for each table.
            for name in names:
                store.read(name).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        case "compact":
            for name in names:
                store.read(name).optimize.compact()


@contextmanager
def damaged(spark: SparkSession, store: Store, what: Damaged, copy: Path) -> Iterator[bool]:
    """Damage a table for a block, which gets whether runs can notice it.

    ``copy`` is the store at an earlier moment.
    """
    folder = Path(local_path(store.uri))
    aside = folder.with_name("aside")
    shutil.copytree(folder, aside)
    match what.how:
        case "lost":
            shutil.rmtree(folder / what.table)
            noticed = True
        case "rolled back":
            shutil.rmtree(folder / what.table)
            shutil.copytree(copy / what.table, folder / what.table)
            noticed = found.named_version(folder, what.table) > store.read(what.table).version()
        case "restored":
            noticed = _restored(store, what.table)
    forget_tables(spark)
    yield noticed
    shutil.rmtree(folder)
    aside.rename(folder)
    forget_tables(spark)


def _restored(store: Store, name: str) -> bool:
    """RESTORE the newest earlier version with other files, if there is one."""
    table = store.read(name)
    for version in range(table.version() - 1, 0, -1):
        if _can_be_restored(store, name, version):
            table.restore(version)
            return True
    return False


def restore_all(spark: SparkSession, store: Store, versions: Mapping[str, int]) -> bool:
    """RESTORE tables to earlier versions; returns whether ``messages`` changed, else nothing was done."""
    if not _can_be_restored(store, "messages", versions["messages"]):
        return False
    for name, version in versions.items():
        if _can_be_restored(store, name, version):
            store.read(name).restore(version)
    forget_tables(spark)
    return True


def _can_be_restored(store: Store, name: str, version: int) -> bool:
    """Whether a version has other files than the newest, and all are there."""
    try:
        files = set(store.read(name, version).file_uris())
    except DeltaError:
        # Maintenance or an erasure has removed this part of the log.
        return False
    return files != set(store.read(name).file_uris()) and all(Path(file).exists() for file in files)
