"""Where a writer's records go."""

import os
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

from messagestore.errors import MessageStoreError
from messagestore.location import Location, refusals
from messagestore.records import Record
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.objects import is_local, local_path


class Sink(Protocol):
    """Takes batches of records: a landing folder or a topic."""

    def write(self, records: Sequence[Record]) -> None:
        """Write a batch, durably: all of it or nothing.

        Raises:
            MessageStoreError: it may not have been written; if it is written twice, its records are duplicates.
        """

    def close(self) -> None:
        """Release the sink's resources."""


class FilesSink:
    """A landing folder. Each batch is a file of JSON lines; file names sort in order of writing.

    On object storage a batch is one PUT. In a local folder the file is written under a name that begins with a dot,
    which ingests ignore, and then renamed.
    """

    def __init__(self, uri: str, storage: Sequence[StorageEntry] | None = None) -> None:
        self._location = Location(uri, storage)
        self._own, self._last = uuid.uuid4().hex[:12], 0
        self._lock = threading.Lock()

    def write(self, records: Sequence[Record]) -> None:
        """Write a batch as one file; nothing without records."""
        if not records:
            return
        content = b"".join(record.line + b"\n" for record in records)
        name = self._next_name()
        with refusals(self._location.uri, "written"):
            if is_local(self._location.uri):
                _write_file(Path(local_path(self._location.uri)), name, content)
            else:
                self._location.objects().write(name, content)

    def close(self) -> None:
        """Release the sink's resources."""
        self._location.close()

    def _next_name(self) -> str:
        """A unique name, larger than the one before even if the clock goes back."""
        with self._lock:
            self._last = max(self._last + 1, time.time_ns() // 1000)
            return f"{self._last:017}-{self._own}.jsonl"


def _write_file(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}.partial"
    try:
        with hidden.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        hidden.rename(folder / name)
    except OSError:
        hidden.unlink(missing_ok=True)
        raise
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def sink_of(to: Sink | str, storage: Sequence[StorageEntry] | None, made: ExitStack) -> Sink:
    """Return a sink as it is, or make one of a landing folder's URI, which ``made`` closes.

    Raises:
        MessageStoreError: the URI is neither local nor on object storage.
    """
    if not isinstance(to, str):
        return to
    if not to:
        raise MessageStoreError("the landing folder has no URI")
    return made.enter_context(closing(FilesSink(to, storage)))
