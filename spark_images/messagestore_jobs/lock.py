"""Locks for local runs: two processes never write the same folder at once."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from messagestore_core.store.errors import TableBusyError
from messagestore_core.store.objects import is_local, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_SUFFIX = ".messagestore-lock"


@contextmanager
def writing(uri: str, spark: "SparkSession | None", wait_seconds: float, say: Callable[[str], None]) -> Iterator[None]:
    """Lock the table folder ``uri`` for writing; on object storage the operator's Lease does that.

    There are two locks on one file beside the folder: this process's, and its JVM's, which can outlive a killed process
    for a moment and still commit. Without a session this process takes both.

    Raises:
        TableBusyError: another run held it for all of ``wait_seconds``.
    """
    if not is_local(uri):
        yield
        return
    path = Path(local_path(uri).rstrip("/") + LOCK_SUFFIX)
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_seconds
    with path.open("a+") as file:
        _take(lambda: _lock_here(fcntl.flock, file.fileno()), uri, deadline, say)
        if spark is None:
            _take(lambda: _lock_here(fcntl.lockf, file.fileno()), uri, deadline, say)
            yield
            return
        channel = spark._jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()  # type: ignore[union-attr]
        try:
            _take(lambda: channel.tryLock() is not None, uri, deadline, say)
            yield
        finally:
            channel.close()


def _lock_here(lock: Callable[[int, int], None], descriptor: int) -> bool:
    try:
        lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take(attempt: Callable[[], bool], uri: str, deadline: float, say: Callable[[str], None]) -> None:
    said = False
    while not attempt():
        if time.monotonic() >= deadline:
            raise TableBusyError(f"another run is writing {uri}; try again when it has ended")
        if not said:
            say(f"another run is writing {uri}; waiting for it to end")
            said = True
        time.sleep(0.2)
