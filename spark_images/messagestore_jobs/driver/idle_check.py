"""Find out whether an ingest has nothing or little to do, before Spark starts for it.

That is certain only if its sources are files that stay where they are, all or nearly all of them have been read as they
are, and nothing in the store is due or must change. In all other cases the run itself finds out, with Spark.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.clock import now
from messagestore_core.contract.records import FilesSource, RecordsSource
from messagestore_core.contract.run_document import IngestTask, RunDocument
from messagestore_core.contract.run_report import IngestCounts, IngestOutcome, Lag, LifecycleOutcome, UpdateCounts
from messagestore_core.store.audit import holds_to_note
from messagestore_core.store.delta_log import (
    EPOCH,
    CommitNote,
    count_rows,
    has_any,
    is_any_due,
    last_note,
    table_state,
)
from messagestore_core.store.files import ReadFiles
from messagestore_core.store.folder import check_folder, exists, is_complete
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import INDEX
from messagestore_core.store.objects import is_local, reached
from messagestore_core.store.pending_updates import count_pending
from messagestore_core.store.schemas import REMEMBERED
from messagestore_core.store.storage import Storage
from messagestore_core.versions.rules import is_declared
from messagestore_jobs.index.changes import changes_between
from messagestore_jobs.index.manifest import read_manifest, usable
from messagestore_jobs.lock import writing
from messagestore_jobs.source.local_files import Chosen, list_local_files, list_objects
from messagestore_jobs.source.plan import TIMES_PACKED

LITTLE_BYTES, LITTLE_FILES = 8 << 20, 10_000
"""The most that counts as little to read."""
MOST_FILES = 200_000
"""A source on object storage is listed only if the store has read at most so many of its files, as pages of a list take
time; the run would list it again."""
_FEW_MESSAGES = 1_000_000
_Files = FilesSource | RecordsSource


class PendingWork(NamedTuple):
    """What is certain of an ingest: its outcome if it has nothing to do, else about how many bytes it will read.

    ``bytes``, after decompression, is None if the run may have more work than to read some files.
    """

    outcome: IngestOutcome | None = None
    bytes: int | None = None


_UNCERTAIN = PendingWork()


def find_work(document: RunDocument, storage: Storage) -> PendingWork:
    """Look at the store and the sources of an ingest.

    Raises:
        Exception: as a run does, and if another run writes the store.
    """
    task, store = document.task, Store.of(document.table, storage)
    if not isinstance(task, IngestTask) or not exists(store):
        return _UNCERTAIN
    sources = _sources(task)
    if sources is None:
        return _UNCERTAIN
    with writing(store.uri, None, 0, lambda text: None):
        check_folder(store)
        note = last_note(store)
        if _is_due(store, document, task):
            return _UNCERTAIN
        own = {source_id for source_id, _ in sources}
        if not all(is_local(source.uri) for _, source in sources) and count_rows(store, "files") > MOST_FILES:
            return _UNCERTAIN
        unread = [_unread(store, *source, own) for source in sources]
        if any(unread):
            # An update rewrites files of any size.
            updates = task.lifecycle is not None or note.updates != UpdateCounts()
            few = not updates and all(map(_is_plain, unread)) and index_is_near(store)
            return PendingWork(bytes=sum(one.bytes for one in unread) if few else None)
        return PendingWork(_outcome(store, document, task, note, unread))


def _sources(task: IngestTask) -> list[tuple[str, _Files]] | None:
    """The task's sources with their ids; None where only Spark can find out what arrives or is due."""
    every = [(task.source_id, task.source)]
    if task.lifecycle is not None:
        every.append((task.lifecycle.source_id, task.lifecycle.source))
    files = [(source_id, source) for source_id, source in every if isinstance(source, _Files) and _only_reads(source)]
    goes_on = task.batch_interval is not None
    times_out = task.lifecycle is not None and task.lifecycle.processing_timeout is not None
    return files if len(files) == len(every) and not goes_on and not times_out else None


def _only_reads(source: _Files) -> bool:
    """Whether a source's files stay where they are once they are read."""
    return isinstance(source, RecordsSource) or source.after_ingest == "Keep"


def _is_due(store: Store, document: RunDocument, task: IngestTask) -> bool:
    """Whether the store may have something for the run to do or to count."""
    return (
        not is_complete(store)
        or not is_declared(store.objects(), task.translators)
        or any(holds_to_note(store, document))
        or not _is_ours(store)
        or is_any_due(store, now(document))
        or has_any(store, "sequence_id")
        or count_pending(store) > 0
    )


def _is_ours(store: Store) -> bool:
    """Whether a run may write the store: without an epoch of its own, or of an older one, it must be refused."""
    newest = store.transaction("messages", EPOCH)
    return newest is None or (store.epoch is not None and newest <= store.epoch)


class _Unread(NamedTuple):
    """What of a source is to be read, whether a batch of it, or of an earlier source, broke off, and if it had any."""

    files: int
    bytes: int
    """About how many after decompression."""
    broke_off: bool
    begun: bool
    skipped: int | None
    """How many files its ``include`` and ``exclude`` leave out."""

    def __bool__(self) -> bool:
        return self.broke_off or self.files > 0


def _unread(store: Store, source_id: str, source: _Files, own: set[str]) -> _Unread:
    read = ReadFiles(store, source_id)
    files = size = 0
    chosen = Chosen(source)
    for portion in chosen.of(_listed(store, source.uri)):
        sizes, ends = portion["size"].to_numpy(), read.ends.of(portion)
        files += int((ends < sizes).sum())
        times = np.where(pc.ends_with(portion["uri"], ".gz").to_numpy(), TIMES_PACKED, 1)
        size += int((np.maximum(sizes - np.maximum(ends, 0), 0) * times).sum())
    broke_off = read.last_batch > read.committed() or bool(read.left_behind(own))
    return _Unread(files, size, broke_off, read.has_begun() or bool(chosen.skipped), chosen.skipped)


def _listed(store: Store, uri: str) -> Iterator[pa.Table]:
    if is_local(uri):
        return list_local_files(uri, _strange, _strange)
    return list_objects(uri, *reached(uri, store.storage))


def _strange(path: str, why: str = "its name is not UTF-8") -> None:
    """Leave it to the run to tell what it doesn't read."""
    raise OSError(f"{path!r}: {why}")


def _is_plain(unread: _Unread) -> bool:
    """Whether only some files are to be read."""
    return not unread.broke_off and is_little(files=unread.files)


def is_little(size: int = 0, files: int = 0) -> bool:
    """Whether so many bytes in so many files are little to read."""
    return size <= LITTLE_BYTES and files <= LITTLE_FILES


def index_is_near(store: Store) -> bool:
    """Whether the run need not first read many ids by Spark: the index lacks few changes, or there are few ids."""
    remembers = store.remember_purged is not None
    if count_rows(store, "messages") + (count_rows(store, REMEMBERED) if remembers else 0) <= _FEW_MESSAGES:
        return True
    manifest = usable(read_manifest(store.objects(INDEX)), store.table("messages"))
    if manifest is None:
        return False
    covered = {"messages": manifest.version} | ({REMEMBERED: manifest.purged_version} if remembers else {})
    changes = [changes_between(store, name, since, store.table(name).version()) for name, since in covered.items()]
    return all(one is not None and one.few for one in changes)


def _outcome(
    store: Store, document: RunDocument, task: IngestTask, note: CommitNote, unread: list[_Unread]
) -> IngestOutcome:
    at = now(document)
    lags = [Lag(as_of=at, files=0, source_found=one.begun, skipped_files=one.skipped) for one in unread]
    lifecycle = None
    if task.lifecycle is not None or note.updates != UpdateCounts():
        lifecycle = LifecycleOutcome(totals=note.updates, lag=lags[1] if task.lifecycle else None)
    return IngestOutcome(
        counts=IngestCounts(),
        totals=note.totals,
        batches=0,
        table=table_state(store, note),
        lag=lags[0],
        lifecycle=lifecycle,
    )
