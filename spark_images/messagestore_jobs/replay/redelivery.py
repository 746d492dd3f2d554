"""Redelivery: failed messages whose retry is due are sent again, each attempt once.

A round selects messages, sets them to PROCESSING in one commit with the round's number, and only then sends them. If it
breaks off before that commit, the next run begins it again; after the commit, the next run sends it to its end. So no
message is selected again before its answer came, and none is sent without a new status.
"""

from pyspark.sql import functions as F

from messagestore_core.contract.run_document import FilesDestination, ReplayTask, RunDocument, StreamDestination
from messagestore_core.store.delta_log import committed_batch, last_note
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import REPLAYS
from messagestore_core.store.objects import join
from messagestore_jobs.context import Run
from messagestore_jobs.lifecycle.commit import merge_once
from messagestore_jobs.replay.source import Source
from messagestore_jobs.replay.state import Frozen
from messagestore_jobs.rows.messages import bounds
from messagestore_jobs.rows.times import instant


def round_document(document: RunDocument, number: int) -> RunDocument:
    """The document of one round, which is a replay with its own folder."""
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
    """The number of the last committed round; 0 before the first."""
    return committed_batch(store, _app_id(task))


def note_attempts(run: Run, source: Source, frozen: Frozen, number: int) -> None:
    """Set all selected messages to PROCESSING, once.

    Args:
        run: of the replay, not of the round.
        source: with the selected messages.
        frozen: the selection of the round.
        number: of the round.
    """
    task = run.document.task
    assert isinstance(task, ReplayTask)
    rows = source.between(frozen.splits[0].start, frozen.end).select("global_position", "inserted_date")
    where = bounds(rows)
    assert where is not None
    changes = {
        "status": F.lit("PROCESSING"),
        "next_retry_at": F.lit(None).cast("timestamp"),
        "updated_at": instant(run.as_of),
    }
    note = last_note(run.store).model_copy(update={"run": run.run})
    merge_once(run.spark, run.store, rows, where, changes, (_app_id(task), number), note)


def forget_round(run: Run, number: int) -> None:
    """Remove the ended state of a round into a stream, after the commit of a later round."""
    task = round_document(run.document, number).task
    assert isinstance(task, ReplayTask)
    if number and task.rounds and isinstance(task.destination, StreamDestination):
        target = run.store_of(task.destination.table)
        with target.step("replay-forgotten"):
            target.objects(REPLAYS, task.job_id).delete_folder("")


def _app_id(task: ReplayTask) -> str:
    """The transaction on ``messages`` whose version is the last committed round."""
    return f"redelivery:{task.job_id}"
