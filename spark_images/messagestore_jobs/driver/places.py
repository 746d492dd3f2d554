"""The folders that a run reads and writes."""

from messagestore_jobs.contract.run_document import (
    FilesDestination,
    IngestTask,
    PurgeTask,
    ReplayTask,
    RunDocument,
    StreamDestination,
)
from messagestore_jobs.store.objects import is_local


def uris(document: RunDocument) -> list[str]:
    """Every folder that the document names, its table's first."""
    named, task = [document.table.uri], document.task
    if isinstance(task, IngestTask):
        named.append(task.source.uri)
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
    task = document.task
    if isinstance(task, ReplayTask):
        if task.mode == "DryRun" or not isinstance(task.destination, StreamDestination):
            return []
        # A redrive notes on the dead letters that they were sent.
        own = [document.table.uri] if task.origin == "DeadLetters" else []
        return sorted({*own, task.destination.table.uri})
    return [document.table.uri]
