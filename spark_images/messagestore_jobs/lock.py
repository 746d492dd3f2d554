"""Locks for local runs: two processes never write the same folder at once, and none erases what another one replays.

A run takes the locks of the folders that it writes before that of the folder that it replays or erases, so that two
runs never wait for each other.
"""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from messagestore_core.store.errors import TableBusyError
from messagestore_core.store.objects import is_local, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_SUFFIX = ".messagestore-lock"
REPLAYS_SUFFIX = ".messagestore-replays-lock"
CURSORS_SUFFIX = ".messagestore-cursors-lock"


def writing(
    uri: str, spark: "SparkSession | None", wait_seconds: float, say: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Lock the table folder ``uri`` for writing; on object storage the operator's Lease does that.

    There are two locks on one file beside the folder: this process's, and its JVM's, which can outlive a killed process
    for a moment and still commit. Without a session this process takes both.

    Raises:
        TableBusyError: another run held it for all of ``wait_seconds``.
    """
    if is_local(uri):
        _beside(uri, LOCK_SUFFIX).parent.mkdir(parents=True, exist_ok=True)
    return _alone(LOCK_SUFFIX, "another run is writing {}", uri, spark, wait_seconds, say)


@contextmanager
def copying(uri: str, wait_seconds: float, say: Callable[[str], None]) -> Iterator[None]:
    """Keep others from writing the local table folder ``uri`` while it is copied. Makes no file.

    Without a lock's file no run has written the folder on this machine.

    Raises:
        TableBusyError: another run held it for all of ``wait_seconds``.
    """
    path = _beside(uri, LOCK_SUFFIX)
    if not path.exists():
        yield
        return
    with path.open() as file:
        wait = _Wait(f"another run is writing {uri}", wait_seconds, say)
        with _locked(file, None, wait, shared=True):
            yield


@contextmanager
def replaying(uri: str, spark: "SparkSession", wait_seconds: float, say: Callable[[str], None]) -> Iterator[None]:
    """Lock the table folder ``uri`` for a replay out of it: other replays may run, and no erasure.

    Who may not write beside the folder does without the lock, unless an erasure has made the file.

    Raises:
        TableBusyError: an erasure held it for all of ``wait_seconds``.
    """
    file = _opened(_beside(uri, REPLAYS_SUFFIX)) if is_local(uri) else None
    if file is None:
        yield
        return
    wait = _Wait(f"an erasure of {uri} is under way", wait_seconds, say)
    with file, _locked(file, spark, wait, shared=True):
        yield


@contextmanager
def _alone(
    suffix: str, busy: str, uri: str, spark: "SparkSession | None", wait_seconds: float, say: Callable[[str], None]
) -> Iterator[None]:
    """Lock a file beside a local table folder; others hear of those who are ``busy`` with it."""
    if not is_local(uri):
        yield
        return
    with _beside(uri, suffix).open("a+") as file, _locked(file, spark, _Wait(busy.format(uri), wait_seconds, say)):
        yield


erasing = partial(_alone, REPLAYS_SUFFIX, "a replay out of {} is under way")
"""Locks a table folder for an erasure, while no replay out of it runs; arguments and errors as of ``replaying``."""
subscribing = partial(_alone, CURSORS_SUFFIX, "another subscription of {} is sending")
"""Locks the cursors of a table folder: subscriptions of one store run one after the other."""


def _beside(uri: str, suffix: str) -> Path:
    return Path(local_path(uri).rstrip("/") + suffix)


def _opened(path: Path) -> TextIOWrapper | None:
    """A lock's file, made if that is possible; None: there is none."""
    for mode in ("a+", "r"):
        with suppress(OSError):
            return path.open(mode)
    return None


class _Wait:
    """Waits for a lock, at most so many seconds; it tells people so, and who has it."""

    def __init__(self, busy: str, seconds: float, say: Callable[[str], None]) -> None:
        self._busy, self._say = busy, say
        self._deadline = time.monotonic() + seconds

    def take(self, attempt: Callable[[], bool]) -> None:
        """Try until an attempt succeeds."""
        said = False
        while not attempt():
            if time.monotonic() >= self._deadline:
                raise TableBusyError(f"{self._busy}; try again when it has ended")
            if not said:
                self._say(f"{self._busy}; waiting for it to end")
                said = True
            time.sleep(0.2)


@contextmanager
def _locked(file: TextIOWrapper, spark: "SparkSession | None", wait: _Wait, *, shared: bool = False) -> Iterator[None]:
    """Hold both locks on an open file."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    wait.take(lambda: _try_lock(fcntl.flock, file.fileno(), kind))
    if spark is None:
        wait.take(lambda: _try_lock(fcntl.lockf, file.fileno(), kind))
        yield
        return
    java = spark._jvm.java  # type: ignore[union-attr]
    channel = java.io.RandomAccessFile(file.name, "r" if shared else "rw").getChannel()
    try:
        wait.take(lambda: channel.tryLock(0, java.lang.Long.MAX_VALUE, shared) is not None)
        yield
    finally:
        channel.close()


def _try_lock(lock: Callable[[int, int], None], descriptor: int, kind: int) -> bool:
    try:
        lock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
