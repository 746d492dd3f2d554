"""Delete files whose records are all committed, or archive and then delete them.

A file is not deleted if a dead letter has only a part of one of its records, as the rest is in the file alone.
"""

from collections.abc import Iterable, Set
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from messagestore_core.clock import microseconds
from messagestore_core.contract.records import FilesSource
from messagestore_core.progress import ProgressListener
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.files import ReadFiles, SourceFile, source_files
from messagestore_core.store.objects import is_below, reached

_REFUSALS = 100
"""After so many failures the other files are left to the next look."""


class AfterIngest:
    """Puts files of one source away. If it breaks off, the next run repeats it for the files that are left."""

    def __init__(self, store: HeldStore, source: FilesSource, progress: ProgressListener) -> None:
        self._store, self._uri, self._archive_uri = store, source.uri, source.archive_uri
        self._progress = progress
        self._deletes = source.after_ingest == "Delete"
        self._reported = False
        self._cut_reported: set[SourceFile] = set()

    def without_cut(self, files: pa.Table, read: ReadFiles, under_way: Set[SourceFile]) -> pa.Table:
        """Of the files that were read whole: those that may leave. The others are told once a run.

        Files ``under_way`` are of batches that are not committed.
        """
        if not self._deletes or not files.num_rows:
            return files
        if read.ask_dead_letters():
            self._progress.say(
                f"an earlier release read files below {self._uri} and did not note of which it kept a record only in "
                "part: those with such a dead letter stay; where dead letters were purged, nobody can tell"
            )
        cut = pa.array(read.is_cut(files))
        self._tell_cut(set(source_files(files.filter(cut))) - under_way - self._cut_reported)
        return files.filter(pc.invert(cut))

    def put_away(self, files: Iterable[SourceFile]) -> None:
        """Put away files that are committed whole, unless they changed since they were listed."""
        refused = 0
        for file in files:
            try:
                self._put_away(file)
            except OSError as error:
                self._tell(file, error)
                refused += 1
                if refused == _REFUSALS:
                    return

    def _put_away(self, file: SourceFile) -> None:
        landing, root = reached(self._uri, self._store.storage)
        _, path = reached(file.uri, self._store.storage)
        inside = is_below(self._uri, file.uri) and _leads_nowhere_else(landing, root, path)
        if not inside or not _is_as_listed(landing, path, file):
            return
        if self._archive_uri is not None:
            archive, folder = reached(self._archive_uri, self._store.storage)
            target = f"{folder}{path[len(root) :]}"
            with self._store.step("archive-file"):
                if isinstance(archive, fs.LocalFileSystem):
                    archive.create_dir(str(Path(target).parent), recursive=True)
                fs.copy_files(path, target, source_filesystem=landing, destination_filesystem=archive)
            if archive.get_file_info(target).size != file.size or not _is_as_listed(landing, path, file):
                return
        with self._store.step("delete-file"):
            landing.delete_file(path)

    def _tell_cut(self, files: Set[SourceFile]) -> None:
        if files:
            first, *others = sorted(file.uri for file in files)
            more = f" ({len(others)} more like it)" if others else ""
            self._progress.say(
                f"{first} was ingested and is not deleted{more}: the dead letter of a record that is too large, or "
                "behind damage, has only a part of its bytes; repair the file or give the run more memory and let it "
                "read the file under another name, then delete this one, or set afterIngest: Archive"
            )
        self._cut_reported |= files

    def _tell(self, file: SourceFile, error: OSError) -> None:
        if not self._reported:
            self._progress.say(
                f"{file.uri} was ingested and can't be deleted or archived, and others may fail too: {error}; allow "
                "s3:DeleteObject and s3:PutObject below the source, or set afterIngest: Keep"
            )
        self._reported = True


def _leads_nowhere_else(landing: fs.FileSystem, root: str, path: str) -> bool:
    """Whether no link in a local path leads out of the source."""
    local = isinstance(landing, fs.LocalFileSystem)
    return not local or Path(path).parent.resolve().is_relative_to(Path(root).resolve())


def _is_as_listed(landing: fs.FileSystem, path: str, file: SourceFile) -> bool:
    info = landing.get_file_info(path)
    if info.type != fs.FileType.File or info.size != file.size:
        return False
    listed = microseconds(file.modified_at) // 1_000
    # S3 gives seconds for one object, and milliseconds in a list.
    to = 1 if isinstance(landing, fs.LocalFileSystem) else 1_000
    return bool(info.mtime_ns // 1_000_000 // to == listed // to)
