"""The maintenance of one store: compaction, checkpoints, clean-up, sweep. Each step may be repeated."""

from collections.abc import Generator

from messagestore_core.contract.run_report import MaintainOutcome
from messagestore_core.store.delta_log import table_state
from messagestore_core.store.purged_ids import forget_purged
from messagestore_core.store.schemas import REMEMBERED
from messagestore_jobs.context import Run
from messagestore_jobs.index.store_index import kept_index
from messagestore_jobs.maintain.clean import clean, sweep
from messagestore_jobs.maintain.context import maintenance_run
from messagestore_jobs.maintain.optimize import cluster_messages, compact_messages, compact_whole


def maintaining(run: Run) -> Generator[None, None, MaintainOutcome]:
    """The steps of a maintenance; the caller may write to the store between two steps."""
    context = maintenance_run(run)
    before = table_state(context.store)
    days = 0
    for step in (cluster_messages, compact_messages):
        for _ in step(context):
            days += 1
            yield
    compacted = [days > 0]
    tables = context.store.tables_there()
    if REMEMBERED in tables:
        forget_purged(context.store, context.as_of)
    for name in tables:
        if name != "messages":
            compacted.append(compact_whole(context, name))
            if compacted[-1]:
                yield
    yield
    index = kept_index(context.spark, context.store)
    removed, kept_because = clean(context)
    if index is not None:
        index.go_on_behind_a_cut()
    if kept_because is not None:
        context.progress.say(f"files and log entries past their retention were kept: {kept_because}")
    yield
    swept = sweep(context)
    after = table_state(context.store)
    return MaintainOutcome(
        files_before=before.files,
        files_after=after.files,
        bytes_before=before.bytes,
        bytes_after=after.bytes,
        table_version_before=before.version,
        table_version_after=after.version,
        tables_compacted=sum(compacted),
        files_removed=removed,
        objects_removed=swept,
        kept_because=kept_because,
        table=after,
    )


def run_maintain(run: Run) -> MaintainOutcome:
    """Carry out all steps of a maintenance.

    The caller has opened the folder and holds the right to write.

    Raises:
        RunStoppedError: the run was told to stop, and ended between two steps.
    """
    steps = maintaining(run)
    while True:
        run.between_commits()
        try:
            next(steps)
        except StopIteration as end:
            outcome: MaintainOutcome = end.value
            return outcome
