"""Delete a store: all that is known to be its own, its marker last.

The marker says who owns the folder, so that a deletion that broke off can be repeated until the marker is gone.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from deltalake.exceptions import DeltaError

from messagestore_core.clock import now
from messagestore_core.contract.purge import Hold
from messagestore_core.contract.run_document import DeleteTask, RunDocument
from messagestore_core.contract.run_report import DeleteOutcome
from messagestore_core.progress import ProgressListener, never
from messagestore_core.store.audit import note
from messagestore_core.store.delta_log import table_state
from messagestore_core.store.errors import RunFailedError, TableRefusedError, end_if_stopped
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import belongs, exists, parsed_marker, refuse_links
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import (
    CLAIM_CHECKS,
    CONSUMERS,
    CURSORS,
    INDEX,
    LAST_RUN,
    MARKER,
    PARTIAL,
    PURGES,
    REPLAYS,
    TOMBSTONE_KEY,
    TOPICS,
    TRANSLATORS,
)
from messagestore_core.store.objects import LARGEST_DOCUMENT, Objects
from messagestore_core.store.schemas import EVERY_TABLE

FOLDERS = (INDEX, PURGES, REPLAYS, CURSORS, TOPICS, CONSUMERS, CLAIM_CHECKS, *reversed(EVERY_TABLE))
"""In order of deletion: ``messages`` is late, as it has the epoch that fences other runs."""
OBJECTS = (LAST_RUN, TOMBSTONE_KEY, TRANSLATORS, MARKER)


def run_delete(
    store: HeldStore, document: RunDocument, progress: ProgressListener, stopped: Callable[[], bool] = never
) -> DeleteOutcome:
    """Delete the store. The caller holds the right to write, and has not opened the folder.

    Raises:
        TableRefusedError: the folder has another owner, or no marker; nothing in it was touched.
        RunFailedError: a hold is active; nothing was touched.
        RunStoppedError: the run was told to stop; the next one deletes the rest.
    """
    objects = store.objects()
    names = [name.rstrip("/") for name in objects.names()]
    if not check_deletion(store, document):
        return DeleteOutcome(left=tuple(names))
    known = [name for name in (*FOLDERS, *OBJECTS) if name in names or f"{name}{PARTIAL}" in names]
    _note(store, document)
    progress.step("delete", len(known))
    for name in known:
        end_if_stopped(stopped)
        with store.step(f"delete-{name}"):
            _delete(objects, name)
        progress.advance(1)
    return DeleteOutcome(deleted=tuple(known), left=tuple(name.rstrip("/") for name in objects.names()))


def _note(store: HeldStore, document: RunDocument) -> None:
    """Note the deletion in the audit, which is deleted too; if the deletion breaks off, it shows who asked."""
    if not exists(store):
        return
    # An earlier deletion may have left half a table, and a table that is not ours must be deleted too.
    with suppress(DeltaError, TableRefusedError):
        state = table_state(store)
        counts = {"messages": state.messages, "deadLetters": state.dead_letters}
        note(store, document, "Delete", {}, counts=counts, once=True)


def check_deletion(store: Store, document: RunDocument) -> bool:
    """Whether there is a store to delete: false if the folder is gone, or has nothing of a store.

    Raises:
        TableRefusedError: the folder has another owner, or no marker.
        RunFailedError: a hold is active.
    """
    if not isinstance(document.task, DeleteTask):
        raise TypeError(f"the task of run {document.run} is {document.task.kind}, not delete")
    refuse_links(store.uri)
    if not _is_ours(store):
        return False
    _refuse_held(document.task.holds, now(document))
    return True


def _is_ours(store: Store) -> bool:
    objects = store.objects()
    marker = objects.read(MARKER, LARGEST_DOCUMENT)
    if marker is not None:
        owner = parsed_marker(store, marker).owner
        if owner != store.owner:
            raise TableRefusedError(f"{belongs(store, owner)}; not deleted")
        return True
    tables = sorted({name.rstrip("/") for name in objects.names()} & set(EVERY_TABLE))
    if tables:
        raise TableRefusedError(
            f"{store.uri} has {tables[0]} and no marker that names its owner; nothing was deleted, look at it first"
        )
    return False


def _refuse_held(holds: tuple[Hold, ...], at: datetime) -> None:
    active = [hold for hold in holds if hold.until is None or hold.until > at]
    if active:
        names = ", ".join(hold.name for hold in active)
        raise RunFailedError("HoldActive", f"the store is held by {names}; nothing was deleted, release the hold first")


def _delete(objects: Objects, name: str) -> None:
    if name in OBJECTS:
        objects.delete(f"{name}{PARTIAL}")
        (objects.delete_last if name == MARKER else objects.delete)(name)
    else:
        objects.delete_folder(name)
