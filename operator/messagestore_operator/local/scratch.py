"""Copies of stores, on which a run may do all that it does, while the stores and the sources stay as they are."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from messagestore_core.contract.destinations import Destination, FilesDestination, StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayTask, RoutesDestination
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.store.layout import CLAIM_CHECKS
from messagestore_core.store.objects import LOCAL, local_path
from messagestore_jobs.lock import copying

_MANIFEST = "manifest.json"
_OF_REPLAYS = ("_replay-", "round-")
"""How names of folders begin in which a replay to files keeps what it knows."""


class Scratch:
    """A folder with a copy of each store that a run document names; each is made when it is first named.

    Payloads under claim checks stay behind, as neither an ingest nor a selection reads them.
    """

    def __init__(self, folder: Path, wait_seconds: float, say: Callable[[str], None]) -> None:
        self._folder, self._wait, self._say = folder, wait_seconds, say
        self._copies: dict[str, str] = {}

    def document(self, document: RunDocument) -> RunDocument:
        """The document about the copies; its run leaves the files of sources where they are.

        Raises:
            TableBusyError: another run writes a store.
            OSError: a store can't be read, or there is no room for a copy.
        """
        task = document.task
        if isinstance(task, IngestTask):
            task = _reading_only(task)
        elif isinstance(task, ReplayTask):
            task = task.model_copy(update={"destination": self._destination(task.destination)})
        return document.model_copy(update={"table": self.table(document.table), "task": task})

    def table(self, table: Table) -> Table:
        """The copy of a table."""
        return table.model_copy(update={"uri": self._copied(table.uri, self._copy_store)})

    def new_folder(self) -> str:
        """The URI of an empty folder."""
        return f"{LOCAL}{tempfile.mkdtemp(dir=self._folder)}"

    def in_words(self, text: str) -> str:
        """A text about the copies as one about the stores."""
        for uri, copy in self._copies.items():
            text = text.replace(local_path(copy), local_path(uri).rstrip("/"))
        return text

    def _destination(self, to: Destination | RoutesDestination) -> Destination | RoutesDestination:
        if isinstance(to, RoutesDestination):
            each = [one.model_copy(update={"destination": self._destination(one.destination)}) for one in to.routes]
            return to.model_copy(update={"routes": tuple(each)})
        if isinstance(to, StreamDestination):
            return to.model_copy(update={"table": self.table(to.table)})
        if isinstance(to, FilesDestination):
            return to.model_copy(update={"uri": self._copied(to.uri, _copy_state)})
        return to

    def _copied(self, uri: str, copy: Callable[[str, Path], None]) -> str:
        if uri not in self._copies:
            to = Path(tempfile.mkdtemp(dir=self._folder)) / Path(local_path(uri)).name
            if Path(local_path(uri)).is_dir():
                copy(uri, to)
            self._copies[uri] = f"{LOCAL}{to}"
        return self._copies[uri]

    def _copy_store(self, uri: str, to: Path) -> None:
        root = local_path(uri).rstrip("/")

        def left_out(folder: str, names: list[str]) -> list[str]:
            return [CLAIM_CHECKS] if folder == root and CLAIM_CHECKS in names else []

        def copy(file: str, copied: str) -> str:
            return _linked(file, copied) if _is_of_rows(Path(file).relative_to(root)) else shutil.copy2(file, copied)

        with copying(uri, self._wait, self._say):
            shutil.copytree(root, to, symlinks=True, ignore=left_out, copy_function=copy)


def _copy_state(uri: str, to: Path) -> None:
    """Copy what a replay to files knows of itself, and none of what it has sent."""
    root = local_path(uri).rstrip("/")

    def left_out(folder: str, names: list[str]) -> list[str]:
        if Path(folder).name.startswith(_OF_REPLAYS[0]):
            return []
        return [name for name in names if name != _MANIFEST and not name.startswith(_OF_REPLAYS)]

    shutil.copytree(root, to, symlinks=True, ignore=left_out)


def _reading_only(task: IngestTask) -> IngestTask:
    """The task without a rate limit, and with sources whose files stay."""
    keeping = {"after_ingest": "Keep", "archive_uri": None}
    changes: dict[str, object] = {"messages_per_second": None}
    if isinstance(task.source, FilesSource):
        changes["source"] = task.source.model_copy(update=keeping)
    if task.lifecycle is not None and isinstance(task.lifecycle.source, FilesSource):
        source = task.lifecycle.source.model_copy(update=keeping)
        changes["lifecycle"] = task.lifecycle.model_copy(update={"source": source})
    return task.model_copy(update=changes)


def _is_of_rows(path: Path) -> bool:
    """Whether a file of a store has rows of a table: such a file is never changed, only removed."""
    return path.suffix == ".parquet" and not any(part.startswith("_") for part in path.parts)


def _linked(file: str, copied: str) -> str:
    """A second name of a file; a copy where the file system has no such names, or the copy is on another one."""
    try:
        os.link(file, copied, follow_symlinks=False)
    except OSError:
        shutil.copy2(file, copied, follow_symlinks=False)
    return copied
