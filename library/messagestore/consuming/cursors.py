"""Where consumers keep their cursors and leases: small documents that are swapped by condition."""

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from messagestore.errors import ArgumentError, StorageError
from messagestore.location import Location, refusals
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.consumers import STATE_BYTES
from messagestore_core.store.layout import CONSUMERS
from messagestore_core.store.objects import join

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_AT_ONCE = 16
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Kept(NamedTuple):
    """A document, and what tells it from another one of its name."""

    content: bytes
    mark: str


class Change(NamedTuple):
    """A document that is written if the one of its name has this mark, or if there is none and the mark is None."""

    name: str
    content: bytes
    mark: str | None


class CursorStore(Protocol):
    """Keeps the documents of the consumers of one name."""

    def names(self) -> list[str]:
        """The names of all documents.

        Raises:
            StorageError: it can't be reached.
        """

    def read(self, names: Sequence[str]) -> dict[str, Kept]:
        """The documents that are there.

        Raises:
            StorageError: it can't be reached.
        """

    def swap(self, changes: Sequence[Change]) -> dict[str, str | StorageError]:
        """Make each change whose condition holds at that moment, whoever else writes.

        Returns:
            The new mark of each that was made, or why it is unknown whether it was; without those that were refused.
        """

    def put(self, name: str, content: bytes) -> None:
        """Write a document that nobody else writes."""

    def delete(self, name: str) -> None:
        """Delete a document if it is there."""

    def close(self) -> None:
        """Release what it holds."""


class ObjectCursors:
    """Documents as objects of a folder, on object storage or of this machine.

    On object storage a swap is a conditional PUT. For a local folder it is made under a lock on the folder.

    Args:
        uri: the folder of the consumers of one name.
        storage: how buckets are reached; absent: by AWS' environment variables.
    """

    def __init__(self, uri: str, storage: Sequence[StorageEntry] | None = None) -> None:
        self._location = Location(uri, storage)
        self._objects = self._location.objects()
        self._folder = self._objects.local_path("")

    def names(self) -> list[str]:
        """The names of all documents."""
        with refusals(self._location.uri):
            return [name for name in self._objects.names() if not name.endswith("/")]

    def read(self, names: Sequence[str]) -> dict[str, Kept]:
        """The documents that are there."""

        def read_one(name: str) -> Kept | None:
            answer = self._objects.marked(name, STATE_BYTES)
            return None if answer is None else Kept(*answer)

        with refusals(self._location.uri):
            answers = self._together(read_one, names)
        return {name: kept for name, kept in zip(names, answers, strict=True) if kept is not None}

    def swap(self, changes: Sequence[Change]) -> dict[str, str | StorageError]:
        """Make each change whose condition holds."""

        def swap_one(change: Change) -> str | StorageError | None:
            try:
                with refusals(self._location.uri, "written"):
                    return self._objects.swap(*change)
            except StorageError as error:
                return error

        with self._locked():
            answers = self._together(swap_one, changes)
        return {change.name: answer for change, answer in zip(changes, answers, strict=True) if answer is not None}

    def put(self, name: str, content: bytes) -> None:
        """Write a document that nobody else writes."""
        with refusals(self._location.uri, "written"):
            self._objects.write(name, content)

    def delete(self, name: str) -> None:
        """Delete a document if it is there."""
        with refusals(self._location.uri, "written"):
            self._objects.delete(name)

    def close(self) -> None:
        """Release what it holds."""
        self._location.close()

    def _together(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """The work on all items; several at a time where each is a request."""
        if self._folder is not None or len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(work, items))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of a local folder, which is on the folder itself: whoever may write in it may take it."""
        if self._folder is None:
            yield
            return
        with refusals(self._location.uri, "written"):
            descriptor = _locked_folder(Path(self._folder))
        try:
            yield
        finally:
            os.close(descriptor)


def _locked_folder(folder: Path) -> int:
    """A descriptor of a folder that holds its lock."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # It may have been removed and made again meanwhile.
        with suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == folder.stat().st_ino:
                return descriptor
        os.close(descriptor)


def check_consumer(name: str) -> None:
    """Raise ArgumentError for a name that no consumer may have."""
    if not NAME.fullmatch(name):
        raise ArgumentError(f"{name!r} is no name of a consumer: up to 63 small letters, digits and -, not at its ends")


def cursors_in(
    uri: str, name: str, state: CursorStore | str | None, storage: Sequence[StorageEntry] | None
) -> CursorStore:
    """The cursors of a name: in a store, in another folder that has a folder for each name, or where they are given."""
    if state is not None and not isinstance(state, str):
        return state
    check_consumer(name)
    return ObjectCursors(join(uri, CONSUMERS, name) if state is None else join(state, name), storage)
