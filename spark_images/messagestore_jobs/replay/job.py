"""The replay run: freeze the selection, send chunk after chunk of it, and tell what could not be sent."""

from pyspark.sql import SparkSession

from messagestore_core.clock import now
from messagestore_core.contract.run_document import FilesDestination, KafkaDestination, ReplayTask, RunDocument
from messagestore_core.contract.run_report import ReplayOutcome, ReplayProgress
from messagestore_core.store.delta_log import open_table
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.folder import exists
from messagestore_jobs.progress import Progress
from messagestore_jobs.replay.audit import note_preview, note_replay, redelivered
from messagestore_jobs.replay.chunks import Delivery
from messagestore_jobs.replay.files import FilesDelivery
from messagestore_jobs.replay.freeze import freeze, nothing_selected
from messagestore_jobs.replay.kafka import KafkaDelivery
from messagestore_jobs.replay.redelivery import forget_round, note_attempts, round_document, rounds_begun
from messagestore_jobs.replay.selection import check
from messagestore_jobs.replay.sending import Control, Sending, Unattended, place
from messagestore_jobs.replay.source import Source
from messagestore_jobs.replay.state import Frozen, digest
from messagestore_jobs.replay.stream import StreamDelivery


def refuse_unsent(outcome: ReplayOutcome, task: ReplayTask) -> ReplayOutcome:
    """The outcome, where all was sent that was to be.

    Raises:
        RunFailedError: it is over, and some of the selection was lost, or was not as it was stored and the task doesn't
            ask to go on; the words say how much, and which.
    """
    reached, what = outcome.progress, "dead letters" if task.origin == "DeadLetters" else "messages"
    if outcome.complete and reached.lost:
        raise RunFailedError(
            "MessagesLost",
            f"{reached.lost} of {outcome.selection.messages} selected {what} could not be sent, as they are neither in "
            f"the store any more nor erased{_which(reached.lost, reached.first_lost_positions)}. A purge removed them, "
            "and an erasure the table's versions from before it; all others were sent. Restore those from an archive "
            "if they are needed",
            outcome,
        )
    if outcome.complete and reached.failed and task.on_failed == "Fail":
        raise RunFailedError(
            "MessagesBroken",
            f"{reached.failed} of {outcome.selection.messages} selected {what} were not sent, as they are not as they "
            f"were stored: a digest or seal is broken, or a payload is gone"
            f"{_which(reached.failed, reached.first_failed_positions)}; all others were sent. Find out who changed the "
            "store, or have a new replay pass over them with spec.onFailed: Continue",
            outcome,
        )
    return outcome


def run_replay(
    document: RunDocument, spark: SparkSession, progress: Progress, control: Control | None = None
) -> ReplayOutcome:
    """Send what is selected and not sent yet; into a stream, the caller holds the right to write its table.

    Raises:
        RunFailedError: the destination or the predicate is refused, the replay began as another, or what it could send
            is sent and some of its selection is lost or broken.
    """
    task = document.task
    assert isinstance(task, ReplayTask)
    check(task.select, task.origin)
    if task.mode == "DryRun":
        return _preview(document, spark, task, progress)
    asked = control or Unattended(task.messages_per_second)
    if task.select.due_for_retry:
        return refuse_unsent(_redeliver(document, spark, task, progress, asked), task)
    return refuse_unsent(_replay(document, spark, progress, asked), task)


def _which(count: int, shown: tuple[int, ...]) -> str:
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f": global positions {', '.join(map(str, shown))}{more}" if shown else ""


def _replay(document: RunDocument, spark: SparkSession, progress: Progress, control: Control) -> ReplayOutcome:
    task = document.task
    assert isinstance(task, ReplayTask)
    delivery = _delivery(document, spark, task)
    ended = delivery.ended()
    if ended is None:
        source, frozen = _begun(document, spark, task, delivery, progress)
        ended = Sending(source, frozen, delivery, progress, control).go_on()
    return note_replay(document, ended)


def _redeliver(
    document: RunDocument, spark: SparkSession, task: ReplayTask, progress: Progress, control: Control
) -> ReplayOutcome:
    """End the round that was begun; then, where it selects in rounds or none was begun, begin one."""
    begun = rounds_begun(document.table.uri, task)
    if begun:
        left = _left_of_round(document, spark, begun)
        if left is not None:
            outcome = _replay(left, spark, progress, control).model_copy(update=_numbered(document, task, begun))
            if not (task.rounds and outcome.complete) or outcome.progress.lost or outcome.progress.failed:
                return outcome
        elif not task.rounds:
            return _delivery(document, spark, task).ended() or _nothing()
    this = round_document(document, begun + 1)
    assert isinstance(this.task, ReplayTask)
    delivery = _delivery(this, spark, this.task)
    # Nothing was noted of what an earlier run may have frozen, so nothing was sent.
    delivery.state.remove()
    source, frozen = _begun(this, spark, this.task, delivery, progress)
    if not frozen.grains and task.rounds:
        delivery.state.remove()
        return _nothing().model_copy(update={"selection": frozen.selection, **_numbered(document, task, begun)})
    if frozen.grains:
        note_attempts(document, spark, source, frozen, begun + 1)
        forget_round(document, begun)
    outcome = note_replay(this, Sending(source, frozen, delivery, progress, control).go_on())
    return outcome.model_copy(update=_numbered(document, task, begun + 1))


def _left_of_round(document: RunDocument, spark: SparkSession, number: int) -> RunDocument | None:
    """The document of a round that has not ended; None where it has, or whoever it was sent to took all of it away."""
    this = round_document(document, number)
    assert isinstance(this.task, ReplayTask)
    delivery = _delivery(this, spark, this.task)
    ended = delivery.ended()
    if ended is not None:
        note_replay(this, ended)
    elif delivery.state.frozen(this.task, this.table.uri) is not None:
        return this
    return None


def _nothing() -> ReplayOutcome:
    """Of a replay that has nothing to send."""
    return ReplayOutcome(selection=nothing_selected(), progress=ReplayProgress(percent=100), complete=True)


def _numbered(document: RunDocument, task: ReplayTask, number: int) -> dict[str, int]:
    return {"round": number, "redelivered": redelivered(document)} if task.rounds else {}


def _preview(document: RunDocument, spark: SparkSession, task: ReplayTask, progress: Progress) -> ReplayOutcome:
    """The selection counted, nothing of it kept."""
    progress.step("select")
    if not exists(document.table.uri):
        return _nothing()
    frozen = freeze(_source(document, spark, task, None), document.run, "")
    note_preview(document, frozen.selection.messages)
    return ReplayOutcome(selection=frozen.selection, progress=ReplayProgress(), complete=True)


def _delivery(document: RunDocument, spark: SparkSession, task: ReplayTask) -> Delivery:
    if isinstance(task.destination, FilesDestination):
        return FilesDelivery(document, task.job_id, task.destination)
    if isinstance(task.destination, KafkaDestination):
        return KafkaDelivery(document, spark, task, task.destination)
    return StreamDelivery(document, spark, task, task.destination)


def _begun(
    document: RunDocument, spark: SparkSession, task: ReplayTask, delivery: Delivery, progress: Progress
) -> tuple[Source, Frozen]:
    """The frozen selection, made now where there is none yet."""
    table = document.table.uri
    frozen = delivery.state.frozen(task, table)
    if frozen is None:
        delivery.check()
    source = _source(document, spark, task, frozen)
    if frozen is None:
        progress.step("select")
        frozen = _frozen(source, document, task, delivery)
        delivery.state.freeze(frozen)
    if frozen.listed:
        source.use_list(delivery.state.selected_uri)
    return source, frozen


def _frozen(source: Source, document: RunDocument, task: ReplayTask, delivery: Delivery) -> Frozen:
    task_digest = digest(task, document.table.uri)
    if not exists(document.table.uri):
        return Frozen(
            task=task_digest,
            run=document.run,
            at=source.now,
            selection=nothing_selected(),
            listed=False,
            end=None,
            grains=(),
        )
    if source.listed:
        source.list_selected(delivery.state.selected_uri)
    return place(source, freeze(source, document.run, task_digest), delivery.state.placed_uri)


def _source(document: RunDocument, spark: SparkSession, task: ReplayTask, frozen: Frozen | None) -> Source:
    uri = document.table.uri
    if frozen is not None:
        return Source(spark, uri, task, frozen.selection.table_version, frozen.at)
    name = "dead_letters" if task.origin == "DeadLetters" else "messages"
    version = open_table(uri, name).version() if exists(uri) else 0
    return Source(spark, uri, task, version, now(document))
