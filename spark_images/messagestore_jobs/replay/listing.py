"""Which messages, or dead letters, a replay would send, one by one. Nothing is sent.

A subscription's cursor is opened for that, and so written: give a run of it a copy of the store.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.destinations import FilesDestination, SentAs
from messagestore_core.contract.replay import ReplayTask, RoutesDestination
from messagestore_core.store.folder import exists
from messagestore_core.store.objects import join
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import delivery_of, source_of, task_of, with_task
from messagestore_jobs.replay.cursor import SubscriptionCursor
from messagestore_jobs.replay.freeze import freeze
from messagestore_jobs.replay.job import of_its_own, rounds_begun
from messagestore_jobs.replay.leaves import leaves_of, name_of
from messagestore_jobs.replay.selection import check
from messagestore_jobs.rows.matching import instant


def listings(run: Run, scratch: str) -> Iterator[tuple[str, DataFrame]]:
    """The rows that each destination would get, in the order in which they would be sent, with the destination's name.

    The name is empty where there is one destination. A replay that has ended sends nothing more.

    Args:
        scratch: the URI of a folder that nobody else uses.

    Raises:
        RunFailedError: the predicate is refused.
    """
    run.progress.step("select")
    task = task_of(run)
    if not exists(run.store):
        return
    if task.subscription is None:
        rows = _once(of_its_own(run))
        yield from () if rows is None else [("", rows)]
        return
    for leaf in leaves_of(run) if isinstance(task.destination, RoutesDestination) else [run]:
        name = name_of(leaf)
        upcoming = SubscriptionCursor(_to_files(leaf, join(scratch, name or "only"))).upcoming()
        if upcoming is not None:
            yield name, _in_order(upcoming)


def _once(run: Run) -> DataFrame | None:
    task = task_of(run)
    check(task.select, task.origin)
    again = task.select.due_for_retry
    if rounds_begun(run.store, task) and not task.rounds if again else delivery_of(run).ended() is not None:
        return None
    return _in_order(run)


def _in_order(run: Run) -> DataFrame:
    source = source_of(run, None)
    frozen = freeze(source, run.run, "")
    first = frozen.splits[0].start if frozen.splits else None
    rows = source.rows().limit(0) if first is None else source.between(first, frozen.end)
    if source.task.skip_expired:
        rows = rows.where(F.coalesce(F.col("expires_at") > instant(run.as_of), F.lit(True)))
    return rows.orderBy(*source.order.columns)


def _to_files(leaf: Run, uri: str) -> Run:
    """The run with files as its destination, so that no broker or endpoint is asked; it selects the same."""
    task: ReplayTask = task_of(leaf)
    form: SentAs = getattr(task.to, "envelope", "Native")
    return with_task(leaf, {"destination": FilesDestination(uri=uri, envelope=form)})
