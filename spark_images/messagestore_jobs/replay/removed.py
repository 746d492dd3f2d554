"""Destinations that a subscription has no more: their cursors hold nothing back, and their rounds leave nothing."""

from collections.abc import Collection

from messagestore_core.store.cursors import CursorObject, cursor_folder, own_name, read_cursors
from messagestore_core.store.layout import REPLAYS
from messagestore_core.store.refused import RefusedMessages
from messagestore_jobs.context import Run


def forget_removed(run: Run, store_id: str, kept: Collection[str]) -> None:
    """Mark the cursors of a subscription's destinations that are none of those ``kept`` as removed.

    What a round of one has staged in the store is removed too, and what it has left to another one; in another stream's
    store, or beside files, a round's stays.
    """
    resource, store = run.document.resource, run.store
    cursors = read_cursors(store).get((resource.namespace, resource.name), {})
    for destination in sorted(cursors.keys() - set(kept)):
        cursor = cursors[destination]
        if cursor.round is not None:
            own = f"{resource.namespace}.{own_name(resource.name, destination)}_{cursor.round.number}"
            with store.step("replay-forgotten"):
                store.objects(REPLAYS, own).delete_folder("")
        folder = cursor_folder(resource.namespace, resource.name, destination)
        RefusedMessages(store, folder, store_id).forget(store)
        written = CursorObject(store, resource.namespace, resource.name, store_id, destination)
        if written.read() == cursor:
            written.write(cursor.model_copy(update={"removed": True, "run": run.run}))
