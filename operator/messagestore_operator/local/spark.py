"""The Spark session of a local run: it starts when it is first needed, and doesn't log to the terminal.

Its settings depend on how much data the run can have.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from messagestore_core.store.objects import is_local, local_path
from messagestore_operator.api import MessageStream, Resource
from messagestore_operator.translate.folders import folders
from messagestore_operator.translate.kafka import accesses_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STDOUT, _STDERR = 1, 2
_NOISY = ("py4j", "DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers that write a Java stack trace for errors that the run reports anyway."""
_PATIENCE_SECONDS = 10
_LAST_LINES = 15


class SparkStartError(Exception):
    """Spark could not be started on this machine."""


class LocalSpark:
    """A Spark session that starts at its first use and ends when it is closed."""

    def __init__(self, cores: int, memory: str, *, verbose: bool) -> None:
        self._cores, self._memory, self._verbose = cores, memory, verbose
        self._session: SparkSession | None = None
        self._starting = self._abandoned = False

    @property
    def started(self) -> bool:
        """Whether there is a session."""
        return self._session is not None

    def session(self, *, little: bool) -> SparkSession:
        """The session.

        Args:
            little: whether it is for little data; only the first call's counts.

        Raises:
            SparkStartError: it could not be started.
        """
        if self._session is None:
            self._session = self._start(little=little)
        return self._session

    def _start(self, *, little: bool) -> SparkSession:
        # Imported late: a run with nothing to do or with invalid manifests needs no Spark.
        from messagestore_jobs.session import local_session

        if not self._verbose:
            for name in _NOISY:
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
            warnings.filterwarnings("ignore", module="pyspark")
        with tempfile.TemporaryFile() as log, _keeping_the_interrupt_handler():
            try:
                self._starting = True
                with _output_to(sys.stderr.fileno() if self._verbose and _has_descriptor() else log.fileno()):
                    return local_session(self._cores, self._memory, little=little)
            except Exception as error:
                raise SparkStartError(f"Spark did not start: {error}{_end_of(log)}") from error
            finally:
                self._starting = False

    def abandon(self) -> None:
        """Kill the JVM from a signal handler; its work stops as if the machine had lost power."""
        self._abandoned = True
        if self._starting:
            _end_children()
        if (process := self._process()) is not None:
            # The JVM is gone, and py4j would log that for each object that it still has.
            logging.disable(logging.CRITICAL)
            process.terminate()

    def close(self) -> None:
        """End the session; if it was abandoned, wait for its JVM."""
        if self._session is None:
            return
        if not self._abandoned:
            # The JVM itself ends when this process does.
            self._session.stop()
        elif (process := self._process()) is not None:
            _wait(process)
        self._session = None

    def _process(self) -> subprocess.Popen[bytes] | None:
        gateway = self._session.sparkContext._gateway if self._session else None
        process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
        return process


def holds_little(resources: Iterable[Resource]) -> bool:
    """Whether the resources name only folders of this machine, with a few megabytes in all."""
    # Imported late, as a run with invalid manifests doesn't need it.
    from messagestore_jobs.driver.idle_check import is_little

    uris = set[str]()
    for resource in resources:
        if isinstance(resource, MessageStream) and accesses_of(resource):
            return False
        uris |= {folder.uri for folder in folders(resource)}
    if not all(map(is_local, uris)):
        return False
    size = 0
    for number, path in enumerate(_files(map(local_path, uris)), start=1):
        # A file that vanishes in the meantime doesn't matter.
        with suppress(OSError):
            size += path.stat().st_size
        if not is_little(size, number):
            return False
    return True


def _files(roots: Iterable[str]) -> Iterator[Path]:
    for root in roots:
        for folder, _, names in os.walk(root):
            yield from (Path(folder, name) for name in names)


def _end_children() -> None:
    """End what this thread has started: a JVM that nobody waits for never ends, as it can't tell its port."""
    # The kernel may lack the list; a process may just have ended.
    with suppress(OSError):
        for pid in Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split():
            os.kill(int(pid), signal.SIGTERM)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _output_to(descriptor: int) -> Iterator[None]:
    """Redirect the output of processes that start while the block lasts; a JVM keeps the redirection."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {number: os.dup(number) for number in (_STDOUT, _STDERR)}
    try:
        for number in saved:
            os.dup2(descriptor, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


@contextmanager
def _keeping_the_interrupt_handler() -> Iterator[None]:
    """Keep the signal handler, as PySpark's would call the JVM during another call."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _has_descriptor() -> bool:
    try:
        sys.stderr.fileno()
    except (OSError, AttributeError):
        return False
    return True


def _end_of(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
    return "".join(f"\n  {line}" for line in lines)
