"""Find out whether an ingest has nothing or little to do, before Spark starts for it.

That is certain only if the last run on the store says that it left nothing to do, nobody has written the store since,
and its sources of files are as that run left them. In all other cases the run itself finds out, with Spark.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa

from messagestore_core.clock import now
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, IngestTask, Lag, UpdateCounts
from messagestore_core.contract.records import FilesSource, RecordsSource
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import TableState
from messagestore_core.store.delta_log import (
    CommitNote,
    has_any,
    last_note,
    may_be_processing,
    next_expiry,
    table_state,
)
from messagestore_core.store.ended import Ended, Quiet, SeenFiles, digest_of, has_tables, is_newest, read_ended
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import has_own_marker, refuse_links
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import LOG, MARKER, entry_name
from messagestore_core.store.objects import is_local, reached
from messagestore_core.store.pending_updates import count_pending
from messagestore_core.store.storage import Storage
from messagestore_jobs.lock import writing
from messagestore_jobs.source.local_files import MOST_FILES, Chosen, Seen, list_local_files, list_objects

LITTLE_BYTES, LITTLE_FILES = 8 << 20, 10_000
"""The most that counts as little to read."""
_Files = FilesSource | RecordsSource


class PendingWork(NamedTuple):
    """What is certain of an ingest: its outcome if it has nothing to do, else about how many bytes it will read.

    ``bytes``, of what has come after decompression and of the store where the run may read it, is None if that is not
    known or the run may have other work.
    """

    outcome: IngestOutcome | None = None
    bytes: int | None = None
    reached: bool = False
    """Whether the buckets of the store and of all sources have answered with what they have."""


_UNCERTAIN = PendingWork()


def find_work(document: RunDocument, storage: Storage) -> PendingWork:
    """Look at the store and the sources of an ingest.

    Raises:
        Exception: as a run does, and if another run writes the store.
    """
    task, store = document.task, Store.of(document.table, storage)
    sources = _sources(task) if isinstance(task, IngestTask) else None
    if sources is None:
        return _UNCERTAIN
    with writing(store.uri, None, 0, lambda text: None):
        ended = read_ended(store)
        if ended is None and _is_new(store):
            arrived = [_listed(store, source) for source in sources.values()]
            return PendingWork(bytes=_bytes_to_read(Ended(adds_only=True), arrived, is_due=False))
        if ended is None or not _goes_on(ended, store, document, sources) or not is_newest(store, ended):
            return _UNCERTAIN
        listed = {source_id: _listed(store, source, ended.sources[source_id]) for source_id, source in sources.items()}
        is_due = ended.quiet is not None and _is_due(ended.quiet.due_at, now(document))
        has_new = any(one.seen.all() != ended.sources[source_id] for source_id, one in listed.items())
        if ended.quiet is None or is_due or has_new:
            # A missing bucket is listed as an empty one.
            reached = all(one.seen.files for one in listed.values())
            return PendingWork(bytes=_bytes_to_read(ended, listed.values(), is_due=is_due), reached=reached)
        refuse_links(store.uri)
        if not has_own_marker(store) or not has_tables(store, ended):
            return _UNCERTAIN
        skipped = [one.chosen.skipped for one in listed.values()]
        return PendingWork(_outcome(ended.quiet.outcome, now(document), skipped))


def _sources(task: IngestTask) -> dict[str, _Files] | None:
    """The task's sources by their ids; None where only Spark can find out what arrives."""
    every: dict[str, object] = {task.source_id: task.source}
    if task.lifecycle is not None:
        every[task.lifecycle.source_id] = task.lifecycle.source
    files = {source_id: source for source_id, source in every.items() if isinstance(source, _Files)}
    return files if files.keys() == every.keys() and task.batch_interval is None else None


def _goes_on(ended: Ended, store: Store, document: RunDocument, sources: Mapping[str, _Files]) -> bool:
    """Whether the run is to do what the last ingest did, may write the store, and has no last lines to read."""
    return (
        ended.asked == digest_of(document)
        and sources.keys() == ended.sources.keys()
        # Without an epoch of its own, or with an older one, it must be refused.
        and (ended.epoch is None or (store.epoch is not None and ended.epoch <= store.epoch))
        and not (ended.quiet is not None and _is_due(ended.quiet.lines_rest_at, datetime.now(UTC)))
    )


def _is_due(due_at: datetime | None, at: datetime) -> bool:
    return due_at is not None and due_at <= at


class _Listing(NamedTuple):
    """What a source has now, of the files that it reads and of others."""

    seen: Seen
    chosen: Chosen


def _is_new(store: Store) -> bool:
    """Whether no run has written the store; one of before markers has a log."""
    return not store.objects().exists(MARKER) and not store.objects("messages", LOG).exists(entry_name(0))


def _listed(store: Store, source: _Files, before: SeenFiles | None = None) -> _Listing:
    """List a source, no further than can be compared."""
    listed = _Listing(Seen(before), Chosen(source))
    for _ in listed.seen.passing(listed.chosen.of(_portions(store, source.uri))):
        if listed.seen.files > MOST_FILES:
            break
    return listed


def _portions(store: Store, uri: str) -> Iterator[pa.Table]:
    if is_local(uri):
        return list_local_files(uri, _strange, _strange)
    return list_objects(uri, *reached(uri, store.storage))


def _strange(path: str, why: str = "its name is not UTF-8") -> None:
    """Leave it to the run to tell what it doesn't read."""
    raise OSError(f"{path!r}: {why}")


def _bytes_to_read(ended: Ended, listed: Iterable[_Listing], *, is_due: bool) -> int | None:
    """About how many bytes a run reads at most; None if in many new files."""
    files, size = (sum(column) for column in zip(*(one.seen.new() for one in listed), strict=True))
    of_store = 0 if ended.adds_only and not is_due else ended.bytes
    return None if of_store is None or not is_little(files=files) else size + of_store


def is_little(size: int = 0, files: int = 0) -> bool:
    """Whether so many bytes in so many files are little to read."""
    return size <= LITTLE_BYTES and files <= LITTLE_FILES


def left_to_ingests(store: HeldStore, at: datetime) -> Ended:
    """What a run of another kind says at its end: what has been read of the sources stays read."""
    before, note = store.ended or Ended(), last_note(store)
    table = table_state(store, note)
    quiet = _still_quiet(before.quiet, store, note, table, at) if before.quiet and store.follows_end else None
    return before.model_copy(update={"bytes": table.bytes, "quiet": quiet})


def _still_quiet(quiet: Quiet, store: HeldStore, note: CommitNote, table: TableState, at: datetime) -> Quiet | None:
    """The same, with the tables as they are now; None if a sequence has come, or the first expiry."""
    lifecycle = quiet.outcome.lifecycle
    if has_any(store, "sequence_id") or (lifecycle is None and note.updates != UpdateCounts()):
        return None
    due = [quiet.due_at, next_expiry(store)]
    if lifecycle is not None:
        lifecycle = lifecycle.model_copy(update={"totals": note.updates, "pending": count_pending(store)})
        # A replay may have begun what can time out.
        due += [at] if may_be_processing(store) else []
    changes = {"totals": note.totals, "table": table, "lifecycle": lifecycle}
    outcome = quiet.outcome.model_copy(update=changes)
    due_at = min((time for time in due if time is not None), default=None)
    return quiet.model_copy(update={"outcome": outcome, "due_at": due_at})


def _outcome(last: IngestOutcome, at: datetime, skipped: Sequence[int | None]) -> IngestOutcome:
    """That of a run which does nothing after one with another outcome, and the files that each source ``skipped``."""
    lifecycle = last.lifecycle
    if lifecycle is not None:
        lag = _lag(lifecycle.lag, at, skipped[-1]) if lifecycle.lag else None
        changes = {"counts": UpdateCounts(), "lag": lag, "unfinished": None}
        lifecycle = lifecycle.model_copy(update=changes)
    lag = _lag(last.lag, at, skipped[0])
    none = {"counts": IngestCounts(), "batches": 0, "last_batch": None, "upkeep": None}
    return last.model_copy(update={**none, "lag": lag, "lifecycle": lifecycle})


def _lag(last: Lag, at: datetime, skipped: int | None) -> Lag:
    source_found = last.source_found or bool(skipped)
    return last.model_copy(update={"as_of": at, "skipped_files": skipped, "source_found": source_found})
