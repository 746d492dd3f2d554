"""The folders that a run reads and writes, and whether their buckets can be reached."""

from collections.abc import Sequence

from deltalake import DeltaTable

from messagestore_core.contract.records import KafkaSource
from messagestore_core.contract.run_document import (
    FilesDestination,
    IngestTask,
    PurgeTask,
    ReplayTask,
    RunDocument,
    StreamDestination,
)
from messagestore_core.contract.stores import Table
from messagestore_core.store.objects import delta_uri, is_local
from messagestore_core.store.storage import Storage

_AT_ONCE = {"max_retries": "4", "retry_timeout": "20s", "connect_timeout": "5s"}


def uris(document: RunDocument) -> list[str]:
    """All folders that the document names, its table's first."""
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
    to = [task.destination.table] if isinstance(task.destination, StreamDestination) else []
    # A redrive marks dead letters as redriven, and a redelivery marks messages as PROCESSING.
    notes = (task.origin == "DeadLetters" and to) or task.select.due_for_retry
    return [*([document.table] if notes else []), *to]


def check_reachable(uris: Sequence[str], storage: Storage) -> None:
    """List each of the folders on object storage, without the long retries of a job.

    pyarrow lists a missing bucket as an empty one, so that a job would find nothing to do.

    Raises:
        OSError: a bucket is missing, refuses, or can't be reached.
    """
    for uri in uris:
        DeltaTable.is_deltatable(delta_uri(uri), storage.delta_options(uri) | _AT_ONCE)
