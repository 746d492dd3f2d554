"""The end of an ingest that has read all of its sources, without Spark."""

from messagestore_core.clock import now
from messagestore_core.contract.records import KafkaSource
from messagestore_core.contract.run_document import IngestTask, RunDocument
from messagestore_core.contract.run_report import IngestCounts, IngestOutcome, Lag
from messagestore_core.store.delta_log import last_note, table_state
from messagestore_core.store.ended import Ended, Quiet, SeenFiles, digest_of
from messagestore_core.store.fence import HeldStore, holding
from messagestore_core.store.folder import check_folder
from messagestore_core.store.objects import is_local, reached
from messagestore_core.store.storage import Storage
from messagestore_jobs.lifecycle.job import due_at
from messagestore_jobs.source.local_files import Seen, list_local_files, list_objects


def end_run(document: RunDocument, storage: Storage | None = None) -> None:
    """Claim the store, add nothing, and end."""
    store = HeldStore.of(document.table, storage or Storage())
    check_folder(store)
    with holding([store], document.run):
        store.end(ended_by(document, store))


def ended_by(document: RunDocument, store: HeldStore) -> Ended:
    """What a run says at its end."""
    task = document.task
    assert isinstance(task, IngestTask)
    note, at = last_note(store), now(document)
    outcome = IngestOutcome(
        counts=IngestCounts(), totals=note.totals, batches=0, table=table_state(store, note), lag=Lag(as_of=at)
    )
    return Ended(
        asked=digest_of(document),
        sources={task.source_id: _seen(document, store)},
        adds_only=True,
        quiet=Quiet(outcome=outcome, due_at=due_at(store, task.lifecycle, at)),
    )


def _seen(document: RunDocument, store: HeldStore) -> SeenFiles:
    assert isinstance(document.task, IngestTask)
    assert not isinstance(document.task.source, KafkaSource)
    uri, seen = document.task.source.uri, Seen()
    listed = list_local_files(uri, print, print) if is_local(uri) else list_objects(uri, *reached(uri, store.storage))
    for _ in seen.passing(listed):
        pass
    found = seen.all()
    assert found is not None
    return found
