"""The folders that a run reads and writes."""

from messagestore_jobs.contract.run_document import (
    FilesDestination,
    IngestTask,
    KafkaSource,
    PurgeTask,
    ReplayTask,
    RunDocument,
    StreamDestination,
    Table,
)
from messagestore_jobs.store.objects import is_local


def uris(document: RunDocument) -> list[str]:
    """Every folder that the document names, its table's first."""
    named, task = [document.table.uri], document.task
    if isinstance(task, IngestTask):
        sources = [task.source, *([task.lifecycle.source] if task.lifecycle else [])]
        named += [source.uri for source in sources if not isinstance(source, KafkaSource)]
    elif isinstance(task, PurgeTask) and task.archive is not None:
        named.append(task.archive.uri)
    elif isinstance(task, ReplayTask) and isinstance(task.destination, FilesDestination):
        named.append(task.destination.uri)
    elif isinstance(task, ReplayTask) and isinstance(task.destination, StreamDestination):
        named.append(task.destination.table.uri)
    return list(dict.fromkeys(named))


def storage_uris(document: RunDocument) -> list[str]:
    """Those on object storage."""
    return [uri for uri in uris(document) if not is_local(uri)]


def written_tables(document: RunDocument) -> list[str]:
    """The table folders that a run writes, in the one order that keeps two runs from waiting for each other."""
    if isinstance(document.task, ReplayTask):
        return sorted({table.uri for table in granted_tables(document)})
    return [document.table.uri]


def granted_tables(document: RunDocument) -> list[Table]:
    """The tables that a run changes and needs a grant for; a dry run changes none."""
    task = document.task
    if isinstance(task, PurgeTask | ReplayTask) and task.mode == "DryRun":
        return []
    if not isinstance(task, ReplayTask):
        return [document.table]
    to = [task.destination.table] if isinstance(task.destination, StreamDestination) else []
    # A redrive notes on the dead letters that they were sent, a redelivery on the messages.
    notes = (task.origin == "DeadLetters" and to) or task.select.due_for_retry
    return [*([document.table] if notes else []), *to]
