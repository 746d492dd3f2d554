"""The cursor of a subscription: how far it has sent the messages of a store, as an object of the store's folder.

It belongs to the subscription's name, not to its resource, and stays when the resource goes. A replay out of a store
holds no right to write it, so each write of a cursor is conditional: of two runs of one subscription, the one that
wrote last goes on.
"""

from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import ContractModel, Count
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import FencedError, HeldStore
from messagestore_core.store.layout import CURSOR, CURSORS
from messagestore_core.store.objects import join, read_document

_FORMAT_VERSION: Literal[1] = 1


class Round(ContractModel):
    """A round under way: it sends what lies behind the cursor, up to a position."""

    number: Count
    until: Count
    first_part: Count = 0
    """The number of its first object of files."""


class Cursor(ContractModel):
    """How far a subscription has sent: positions, counts and names of resources, nothing of messages."""

    format_version: Literal[1] = _FORMAT_VERSION
    store: str
    """The store's id: a store that was made again has no cursor."""
    subscription: str
    """Namespace and name of the ReplayJob."""
    destination: str = ""
    global_position: Count
    """The last position that was sent, or passed over; 0: none."""
    rounds: Count = 0
    resets: Count = 0
    reset: Annotated[str, Field(max_length=64)] | None = None
    """The last request for a reset that was carried out."""
    sent: Count = 0
    erased: Count = 0
    missed: Count = 0
    parts: Count = 0
    """How many objects of files have been numbered."""
    round: Round | None = None
    run: str
    """The run that wrote last."""
    job: str
    """The id of the resource that had it last."""

    @property
    def until(self) -> int:
        """The last position that may have been sent."""
        return self.round.until if self.round else self.global_position


class CursorObject:
    """The object of one subscription's cursor, as one run reads and writes it.

    Args:
        held: the store; a run that only reads it may write the cursor.
        namespace: of the subscription.
        name: of the subscription.
        store_id: the id of the store of now.
    """

    def __init__(self, held: HeldStore, namespace: str, name: str, store_id: str) -> None:
        self._held, self._store_id = held, store_id
        self._objects = held.objects(CURSORS, cursor_folder(namespace, name))
        self._etag: str | None = None

    def read(self) -> Cursor | None:
        """The cursor; None if there is none of this store.

        Raises:
            TableRefusedError: the object is no cursor.
        """
        # First, so that what is written in between is not written over.
        self._etag = self._objects.etag(CURSOR)
        cursor = read_document(self._objects, CURSOR, Cursor) if self._etag is not None else None
        return cursor if cursor is not None and cursor.store == self._store_id else None

    def write(self, cursor: Cursor) -> None:
        """Write the cursor, if it is still what this run has read or written.

        Raises:
            FencedError: another run of the subscription has written it.
        """
        content = cursor.model_dump_json(by_alias=True).encode()
        with self._held.step("cursor"):
            if self._etag is None:
                self._objects.create(CURSOR, content)
            else:
                self._objects.replace(CURSOR, content, self._etag)
        self._etag = self._objects.etag(CURSOR)
        # Also after an answer that was lost, what is there decides.
        if self._objects.read(CURSOR) != content:
            raise FencedError(f"another run moved {join(self._objects.uri, CURSOR)}; this one ends")


def cursor_folder(namespace: str, name: str) -> str:
    """The folder of a subscription's cursor; no namespace has a dot in its name."""
    return f"{namespace}.{name}"


def ahead(what: str) -> RunFailedError:
    """The error of a cursor that is ahead of its store, which was laid back from a copy."""
    return RunFailedError(
        "CursorAhead",
        f"{what}: the store was laid back to an earlier state, and gives positions again that were sent; set "
        "annotation messagestore.dev/reset-to to the first position that is to be sent, or to Now",
    )
