"""Maintenance for tests, by runs and by others, and a store's whole content for comparison before and after."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.run_document import MaintainTask, Resource, RunDocument
from messagestore_core.contract.run_report import MaintainOutcome
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.delta_log import committed_batch, last_note
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import TABLES
from messagestore_jobs.context import Run
from messagestore_jobs.maintain import run_maintain
from support.stores import heads_of

RESOURCE = Resource(kind="MessageStream", namespace="default", name="orders")
WITHOUT_STATISTICS = {"spark.databricks.delta.stats.collect": "false"}


def maintain(spark: SparkSession, table: Table, at: datetime | None = None, **task: Any) -> MaintainOutcome:
    """One maintenance run."""
    document = RunDocument(run="maintain-1", resource=RESOURCE, table=table, at=at, task=MaintainTask(**task))
    return run_maintain(Run.of(document, spark, Silent()))


def optimize(spark: SparkSession, store: Store, *names: str) -> None:
    """Merge the files of tables, as somebody with Spark does."""
    for name in names:
        spark.sql(f"optimize delta.`{store.path(name)}`")


def all_rows(store: Store) -> dict[str, list[str]]:
    """All rows of all tables, read by delta-rs."""
    return {name: sorted(map(repr, store.table(name).to_pyarrow_table().to_pylist())) for name in TABLES}


def memory(store: Store, source_id: str = "landing") -> tuple[IngestCounts, int, object]:
    """A store's other facts: totals, the last batch of a source, heads."""
    return last_note(store).totals, committed_batch(store, source_id), heads_of(store)


def age(folder: Path, by: timedelta) -> None:
    """Make all files below a folder older."""
    then = (datetime.now(UTC) - by).timestamp()
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))
