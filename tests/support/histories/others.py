"""What others do to the tables of a store."""

from collections.abc import Iterable

from pyspark.sql import SparkSession

from messagestore_core.store.handle import Store
from messagestore_jobs.session import settings
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
