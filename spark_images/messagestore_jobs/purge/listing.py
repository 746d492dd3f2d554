"""Which messages a purge would take, one by one. Nothing is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.purge import Preview, PurgeTask
from messagestore_core.store.folder import exists
from messagestore_jobs.context import PurgeRun, Run
from messagestore_jobs.purge.selection import select, summarize
from messagestore_jobs.rows.messages import read_messages


@contextmanager
def listing(run: Run) -> Iterator[tuple[Preview, DataFrame] | None]:
    """The preview of a purge and the messages that it counts, by position; None: there is no store.

    The rows are those of ``messages`` with ``rules``, the names of the rules that select a message.
    """
    if not exists(run.store):
        yield None
        return
    context = _row_by_row(run)
    context.progress.step("select")
    selection = select(context)
    try:
        preview, going = summarize(context, selection).preview, selection.going()
        assert going is not None
        messages = read_messages(context.spark, context.store, selection.version)
        rows = messages.join(going.select("global_position", "rules"), "global_position")
        yield preview, rows.orderBy(F.col("global_position"))
    finally:
        selection.release()


def _row_by_row(run: Run) -> PurgeRun:
    """The run as if it waited for approval: then no day goes by its name, and each message has its rules."""
    task = run.with_task(PurgeTask).task.model_copy(update={"approval_required": True})
    return replace(run, document=run.document.model_copy(update={"task": task})).with_task(PurgeTask)
