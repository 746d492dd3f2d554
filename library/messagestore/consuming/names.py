"""Names of consumers, and where their cursors are."""

import re
from collections.abc import Sequence

from messagestore.consuming.cursors import CursorStore, ObjectCursors
from messagestore.errors import ArgumentError
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.layout import CONSUMERS
from messagestore_core.store.objects import join

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def check_consumer(name: str) -> None:
    """Refuse a name that no consumer may have.

    Raises:
        ArgumentError: it is none.
    """
    if not _NAME.fullmatch(name):
        raise ArgumentError(f"{name!r} is no name of a consumer: up to 63 small letters, digits and -, not at its ends")


def cursors_in(
    uri: str, name: str, state: CursorStore | str | None, storage: Sequence[StorageEntry] | None
) -> CursorStore:
    """The cursors of a name: in a store, in another folder that has a folder for each name, or where they are given."""
    if state is not None and not isinstance(state, str):
        return state
    check_consumer(name)
    return ObjectCursors(join(uri, CONSUMERS, name) if state is None else join(state, name), storage)
