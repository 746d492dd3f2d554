"""The folders that a run reads and writes."""

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.records import KafkaSource
from messagestore_core.contract.replay import ReplayTask, RoutesDestination
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.store.objects import is_local


def uris(document: RunDocument) -> list[str]:
    """All folders that the document names, its table's first."""
    named, task = [document.table.uri], document.task
    if isinstance(task, IngestTask):
        sources = [task.source, *([task.lifecycle.source] if task.lifecycle else [])]
        named += [source.uri for source in sources if not isinstance(source, KafkaSource)]
    elif isinstance(task, PurgeTask) and task.archive is not None:
        named.append(task.archive.uri)
    elif isinstance(task, ReplayTask):
        named += [uri for to in task.destinations for uri in to.folders]
    return list(dict.fromkeys(named))


def needed_uris(document: RunDocument) -> list[str]:
    """The folders that all of a run needs: one of several destinations may be away."""
    task = document.task
    if not (isinstance(task, ReplayTask) and isinstance(task.destination, RoutesDestination)):
        return uris(document)
    return [document.table.uri, *(task.target.folders if task.target else ())]


def storage_uris(document: RunDocument) -> list[str]:
    """All folders of the document on object storage."""
    return [uri for uri in uris(document) if not is_local(uri)]


def written_tables(document: RunDocument) -> list[str]:
    """The table folders that a run writes, sorted, so that two runs never wait for each other."""
    if isinstance(document.task, ReplayTask):
        return sorted({table.uri for table in granted_tables(document)})
    return [document.table.uri]


def granted_tables(document: RunDocument) -> list[Table]:
    """The tables that a run changes and so needs a grant for; a dry run changes none."""
    task = document.task
    if isinstance(task, PurgeTask | ReplayTask) and task.mode == "DryRun":
        return []
    if not isinstance(task, ReplayTask):
        return [document.table]
    to = [task.target.table] if task.target is not None else []
    # A redrive marks dead letters as redriven, and a redelivery marks messages as PROCESSING.
    notes = (task.origin == "DeadLetters" and to) or task.select.due_for_retry
    return [*([document.table] if notes else []), *to]
