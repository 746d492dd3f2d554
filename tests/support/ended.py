"""Ingests without Spark, which do all else that a run does with its store, and their ends."""

import pyarrow as pa
from deltalake import Transaction

from messagestore_core.clock import now
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, Lag
from messagestore_core.contract.records import KafkaSource
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.store.audit import note_holds
from messagestore_core.store.claim import holding
from messagestore_core.store.dead_letters import DeadLettersBefore
from messagestore_core.store.delta_log import committed_batch, last_note, next_global_position, table_state
from messagestore_core.store.ended import Ended, Quiet, SeenFiles, digest_of
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.files import Batch, Range, ReadFiles, SourceFile
from messagestore_core.store.folder import check_folder, open_folder
from messagestore_core.store.heads import read_hidden_heads
from messagestore_core.store.objects import is_local, reached
from messagestore_core.store.pending_updates import count_pending
from messagestore_core.store.schemas import MESSAGES
from messagestore_core.store.storage import Storage
from messagestore_core.store.tombstones import open_erased
from messagestore_core.versions import declare
from messagestore_jobs.lifecycle.job import due_at
from messagestore_jobs.source.local_files import Seen, list_local_files, list_objects
from support.stores import add_rows, message


def end_run(document: RunDocument, storage: Storage | None = None) -> None:
    """Claim the store, add nothing, and end."""
    store = HeldStore.of(document.table, storage or Storage())
    check_folder(store)
    with holding([store], document.run):
        store.end(ended_by(document, store))


def small_run(document: RunDocument, storage: Storage, number: int) -> None:
    """An ingest of one message, with all that a run does before it and after it."""
    task, store = document.task, HeldStore.of(document.table, storage)
    check_folder(store)
    with holding([store], document.run):
        open_folder(store, document)
        note_holds(store, document)
        declare(store, task.translators)
        read, before, note = ReadFiles(store, task.source_id), DeadLettersBefore(store), last_note(store)
        assert not read.left_behind({task.source_id})
        assert read.uncommitted() is None
        assert not count_pending(store)
        assert not open_erased(store).any()
        assert next_global_position(store) == number + 1
        assert not read_hidden_heads(store).by_key
        file = SourceFile(f"{task.source.uri}/{number}.jsonl", 2, now(document))
        batch = Batch(read.next_number(), now(document), (Range(file, 0, 2),))
        assert not read.read_before(batch)
        read.write_down(batch)
        note = note.model_copy(update={"totals": note.totals + IngestCounts(received=1, stored=1)})
        rows = pa.Table.from_pylist([message(number + 1)], schema=MESSAGES)
        with store.step("messages"):
            add_rows(store, "messages", rows, note, Transaction(task.source_id, batch.number))
        assert committed_batch(store, task.source_id) == batch.number
        assert not before.changed()
        store.end(ended_by(document, store))


def ended_by(document: RunDocument, store: HeldStore) -> Ended:
    """What a run says at its end."""
    task = document.task
    note, at = last_note(store), now(document)
    outcome = IngestOutcome(
        counts=IngestCounts(), totals=note.totals, batches=0, table=table_state(store, note), lag=Lag(as_of=at)
    )
    return Ended(
        asked=digest_of(document),
        sources={task.source_id: _seen(document, store)},
        adds_only=True,
        bytes=outcome.table.bytes,
        quiet=Quiet(outcome=outcome, due_at=due_at(store, task.lifecycle, at)),
    )


def _seen(document: RunDocument, store: HeldStore) -> SeenFiles:
    assert not isinstance(document.task.source, KafkaSource)
    uri, seen = document.task.source.uri, Seen()
    listed = list_local_files(uri, print, print) if is_local(uri) else list_objects(uri, *reached(uri, store.storage))
    for _ in seen.passing(listed):
        pass
    found = seen.all()
    assert found is not None
    return found
