"""Redelivery: failed messages whose retry is due are sent again, each attempt once.

A round selects, then notes on what it selected, in a commit of its own, that it is being tried again (PROCESSING); only
then is anything sent. The commit carries the round's number: one that was not reached is begun anew, one that was is
sent to its end. So no message is selected again before its answer has come, and none is sent that was not noted.
"""

from pyspark.sql import functions as F

from messagestore_core.contract.run_document import FilesDestination, ReplayTask, RunDocument, StreamDestination
from messagestore_core.store.delta_log import committed_batch, last_note
from messagestore_core.store.external import external_write
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import join
from messagestore_jobs.context import Run
from messagestore_jobs.lifecycle.commit import merge_once
from messagestore_jobs.replay.source import Source
from messagestore_jobs.replay.state import REPLAYS, Frozen
from messagestore_jobs.rows.messages import bounds


def round_document(document: RunDocument, number: int) -> RunDocument:
    """The document of one round: a replay of its own, with a folder of its own."""
    task = document.task
    assert isinstance(task, ReplayTask)
    if not task.rounds:
        return document
    news: dict[str, object] = {"job_id": f"{task.job_id}-{number}"}
    if isinstance(task.destination, FilesDestination):
        folder = join(task.destination.uri, f"round-{number:08d}")
        news["destination"] = task.destination.model_copy(update={"uri": folder})
    return document.model_copy(update={"task": task.model_copy(update=news)})


def rounds_begun(store: Store, task: ReplayTask) -> int:
    """The last round whose messages have been noted as sent; 0 before the first."""
    return committed_batch(store, _app_id(task))


def note_attempts(run: Run, source: Source, frozen: Frozen, number: int) -> None:
    """Note on all that is selected that it is being tried again, once.

    Args:
        run: the replay's, not the round's.
        source: what is selected.
        frozen: the round's.
        number: of the round.
    """
    task = run.document.task
    assert isinstance(task, ReplayTask)
    rows = source.between(frozen.grains[0].start, frozen.end).select("global_position", "inserted_date")
    where = bounds(rows)
    assert where is not None
    changes = {
        "status": F.lit("PROCESSING"),
        "next_retry_at": F.lit(None).cast("timestamp"),
        "updated_at": F.lit(run.as_of),
    }
    note = last_note(run.store).model_copy(update={"run": run.run})
    merge_once(run.spark, run.store, rows, where, changes, (_app_id(task), number), note)


def forget_round(run: Run, number: int) -> None:
    """Remove what a round into a stream left to say that it has ended, once a later one has been noted."""
    task = round_document(run.document, number).task
    assert isinstance(task, ReplayTask)
    if number and task.rounds and isinstance(task.destination, StreamDestination):
        with external_write("replay-forgotten"):
            Store.of(task.destination.table, run.store.storage).objects(REPLAYS, task.job_id).delete_folder("")


def _app_id(task: ReplayTask) -> str:
    """The transaction on ``messages`` whose version is the last round that was noted."""
    return f"redelivery:{task.job_id}"
