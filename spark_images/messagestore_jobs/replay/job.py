"""The replay run: freeze the selection, then chunk after chunk until all of it has been sent."""

from pyspark.sql import SparkSession

from messagestore_jobs.clock import now
from messagestore_jobs.contract.run_document import FilesDestination, ReplayTask, RunDocument
from messagestore_jobs.contract.run_report import ReplayOutcome, ReplayProgress
from messagestore_jobs.progress import Progress
from messagestore_jobs.replay.control import Control, Unattended
from messagestore_jobs.replay.delivery import Delivery
from messagestore_jobs.replay.files import FilesDelivery
from messagestore_jobs.replay.freeze import freeze, nothing_selected
from messagestore_jobs.replay.selection import check
from messagestore_jobs.replay.sending import Sending
from messagestore_jobs.replay.source import Source
from messagestore_jobs.replay.state import Frozen, digest
from messagestore_jobs.replay.stream import StreamDelivery
from messagestore_jobs.store.folder import exists
from messagestore_jobs.store.history import open_table


def run_replay(
    document: RunDocument, spark: SparkSession, progress: Progress, control: Control | None = None
) -> ReplayOutcome:
    """Send what is selected and not sent yet; into a stream, the caller holds the right to write its table.

    Raises:
        RunFailedError: the destination or the predicate is refused, or the replay began as another.
    """
    task = document.task
    assert isinstance(task, ReplayTask)
    check(task.select, task.origin)
    if task.mode == "DryRun":
        return _preview(document, spark, task, progress)
    delivery = _delivery(document, spark, task)
    ended = delivery.ended()
    if ended is not None:
        return ended
    source, frozen = _begun(document, spark, task, delivery, progress)
    sending = Sending(source, frozen, delivery, progress, control or Unattended(task.messages_per_second))
    return sending.go_on()


def _preview(document: RunDocument, spark: SparkSession, task: ReplayTask, progress: Progress) -> ReplayOutcome:
    """The selection counted, nothing written."""
    progress.step("select")
    if not exists(document.table.uri):
        return ReplayOutcome(selection=nothing_selected(), progress=ReplayProgress(percent=100), complete=True)
    frozen = freeze(_source(document, spark, task, None), document.run, "")
    return ReplayOutcome(selection=frozen.selection, progress=ReplayProgress(), complete=True)


def _delivery(document: RunDocument, spark: SparkSession, task: ReplayTask) -> Delivery:
    if isinstance(task.destination, FilesDestination):
        return FilesDelivery(document, task.job_id, task.destination)
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
    return freeze(source, document.run, task_digest)


def _source(document: RunDocument, spark: SparkSession, task: ReplayTask, frozen: Frozen | None) -> Source:
    uri = document.table.uri
    if frozen is not None:
        return Source(spark, uri, task, frozen.selection.table_version, frozen.at)
    name = "dead_letters" if task.origin == "DeadLetters" else "messages"
    version = open_table(uri, name).version() if exists(uri) else 0
    return Source(spark, uri, task, version, now(document))
