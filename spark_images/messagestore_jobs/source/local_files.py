"""The files below a folder, of this machine or on object storage, listed without a JVM, and which of them count."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from messagestore_core.bounds import FIRST_MOMENT, LAST_MOMENT
from messagestore_core.clock import from_microseconds, microseconds
from messagestore_core.contract.records import FilesSource, RecordsSource
from messagestore_core.store.ended import SeenFiles
from messagestore_core.store.file_ends import Digests, file_digests
from messagestore_core.store.objects import beginning, local_path
from messagestore_core.store.schemas import FILES
from messagestore_jobs.source.plan import unpacked_sizes

_AT_ONCE = 16_384
"""How many files a portion has."""
MOST_FILES = 200_000
"""The most files of a source that a run lists before Spark starts: it may list them again, which takes time."""
_HIDDEN = (".", "_")
_FIRST, _LAST = microseconds(FIRST_MOMENT), microseconds(LAST_MOMENT)


class Chosen:
    """Which of the listed files a source reads, by its ``include`` and ``exclude``."""

    def __init__(self, source: FilesSource | RecordsSource) -> None:
        self._include, self._exclude = "", ""
        if isinstance(source, FilesSource):
            self._include, self._exclude = _regex(source.include), _regex(source.exclude)
        self._above = len(beginning(source.uri))
        self.skipped: int | None = 0 if self._include or self._exclude else None
        """How many files of the last listing are not read; None where the source reads all."""

    def of(self, listed: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The files that are read, of all below the source's folder, in portions."""
        if self.skipped is None:
            yield from listed
            return
        self.skipped = 0
        for files in listed:
            paths = pc.utf8_slice_codeunits(files["uri"], self._above)
            read = pc.match_substring_regex(paths, self._include)
            if self._exclude:
                read = pc.and_not(read, pc.match_substring_regex(paths, self._exclude))
            chosen = files.filter(read)
            self.skipped += files.num_rows - chosen.num_rows
            yield chosen


def _regex(globs: Iterable[str]) -> str:
    """An expression of RE2, which takes linear time, for the paths that match a glob; empty without one."""
    either = "|".join(map(_path_regex, globs))
    return f"^(?:{either})$" if either else ""


def _path_regex(glob: str) -> str:
    *folders, name = glob.split("/")
    above = "".join("(?:[^/]+/)*" if folder == "**" else f"{_name_regex(folder)}/" for folder in folders)
    return above + ("(?s:.+)" if name == "**" else _name_regex(name))


def _name_regex(glob: str) -> str:
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)) for char in glob)


def list_local_files(
    uri: str, skipped: Callable[[str, str], None], unreadable: Callable[[str], None]
) -> Iterator[pa.Table]:
    """All files below a local folder, in portions without order; names that start with "." or "_" are left out.

    Each real folder is listed once: a link to a folder is followed only if it leads out of what is listed, and a link
    to a file that is listed under its own name is left out.

    Args:
        uri: of the folder, or of a file; there may be none.
        skipped: called with the path of each other entry that is left out, and why.
        unreadable: called with the path of each file whose name is not UTF-8, as no table can hold it.

    Returns:
        Columns ``uri``, ``size`` and ``modified_at``, in whole milliseconds as Hadoop gives it.
    """
    return _portions(_Walk(local_path(uri).rstrip("/") or "/", skipped, unreadable).files())


def list_objects(uri: str, filesystem: fs.FileSystem, path: str) -> Iterator[pa.Table]:
    """All objects below a folder on object storage, as Hadoop lists them; a portion as of ``list_local_files``.

    There may be none at the URI, which is the path in the file system of the bucket.

    Raises:
        OSError: the bucket is missing, the folder is an object, or a name is one that Hadoop gives another form.
    """
    return _portions(_objects(uri.partition("://")[0], filesystem, path))


def _objects(scheme: str, filesystem: fs.FileSystem, path: str) -> Iterator[tuple[str, int, int]]:
    listed = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
    bucket = path.split("/", maxsplit=1)[0]
    # pyarrow lists a missing bucket as an empty one.
    if not listed and filesystem.get_file_info(bucket).type == fs.FileType.NotFound:
        raise FileNotFoundError(f"there is no bucket {bucket}")
    for info in listed:
        if info.type != fs.FileType.File or is_hidden(info.path[len(path) :].split("/")):
            continue
        if "//" in info.path:
            raise OSError(f"{info.path!r}: a name with an empty part")
        yield f"{scheme}://{info.path}", info.size, modified_at(info.mtime_ns)


class Seen:
    """What a listing had; its portions pass through it."""

    def __init__(self, before: SeenFiles | None = None) -> None:
        self.files = 0
        self._digests: list[Digests] = []
        self._bytes = 0
        self._newest: int | None = None
        self._before = before
        self._new_files = self._new_bytes = 0

    def passing(self, listed: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The same portions."""
        for files in listed:
            if files.num_rows:
                self._add(files)
            yield files

    def _add(self, files: pa.Table) -> None:
        if self.files <= MOST_FILES:
            self._digests.append(file_digests(files))
        sizes = unpacked_sizes(files)
        times = files["modified_at"].cast(pa.int64()).to_numpy()
        self.files += files.num_rows
        self._bytes += int(sizes.sum())
        self._newest = max(times.max().item(), self._newest or _FIRST)
        if self._before is not None:
            new = times > (_FIRST - 1 if self._before.newest is None else microseconds(self._before.newest))
            self._new_files += int(new.sum())
            self._new_bytes += int(sizes[new].sum())

    def all(self) -> SeenFiles | None:
        """All that has passed; None if it is too much to be compared."""
        if self.files > MOST_FILES:
            return None
        digests = np.sort(np.concatenate([np.empty(0, "S16"), *self._digests]))
        newest = None if self._newest is None else from_microseconds(self._newest)
        digest = sha256(digests.tobytes()).hexdigest()
        return SeenFiles(digest=digest, files=self.files, bytes=self._bytes, newest=newest)

    def new(self) -> tuple[int, int]:
        """About how many files and bytes have come since ``before``: those with a later time, or what it grew by."""
        before = self._before
        if before is None:
            return self.files, self._bytes
        return max(self._new_files, self.files - before.files), max(self._new_bytes, self._bytes - before.bytes)


def _portions(files: Iterator[tuple[str, int, int]]) -> Iterator[pa.Table]:
    """Tables of files, each with URI, size and modification time in microseconds."""
    while rows := list(islice(files, _AT_ONCE)):
        uris, sizes, times = zip(*rows, strict=True)
        modified_at = pa.array(times, FILES.field("modified_at").type)
        yield pa.table({"uri": pa.array(uris), "size": pa.array(sizes), "modified_at": modified_at})


def is_hidden(names: Iterable[str]) -> bool:
    """Whether one of the names of a path is of what sources leave out."""
    return any(name.startswith(_HIDDEN) for name in names)


class _Walk:
    """One listing of a folder."""

    def __init__(self, root: str, skipped: Callable[[str, str], None], unreadable: Callable[[str], None]) -> None:
        self._root, self._skipped, self._unreadable = root, skipped, unreadable
        self._real = os.path.realpath(root)
        self._folders: set[tuple[int, int]] = set()
        self._links: list[str] = []

    def files(self) -> Iterator[tuple[str, int, int]]:
        """URI, size and modification time in microseconds of each file."""
        try:
            status = Path(self._root).stat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            yield from self._file(self._root, status)
            return
        yield from self._below(self._root)
        # Links come after all real folders, in order of their names, so that each run gives a file the same name.
        while self._links:
            links, self._links = sorted(self._links), []
            for link in links:
                yield from self._followed(link)

    def _below(self, folder: str) -> Iterator[tuple[str, int, int]]:
        folders = [folder]
        while folders:
            path = folders.pop()
            # What is gone since the folder around it was read counts as not there.
            with suppress(FileNotFoundError), os.scandir(path) as entries:
                if not self._is_new(path):
                    self._skipped(path, "its folder is listed under another name")
                    continue
                for entry in entries:
                    if entry.name.startswith(_HIDDEN):
                        continue
                    if entry.is_symlink():
                        self._links.append(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        with suppress(FileNotFoundError):
                            yield from self._file(entry.path, entry.stat(follow_symlinks=False))

    def _followed(self, link: str) -> Iterator[tuple[str, int, int]]:
        try:
            status = Path(link).stat()
        except OSError as error:
            self._skipped(link, f"the link leads nowhere: {error.strerror}")
            return
        if stat.S_ISDIR(status.st_mode):
            yield from self._below(link)
        elif not self._is_listed(os.path.realpath(link)):
            yield from self._file(link, status)

    def _is_new(self, folder: str) -> bool:
        status = Path(folder).stat()
        known = (status.st_dev, status.st_ino) in self._folders
        self._folders.add((status.st_dev, status.st_ino))
        return not known

    def _is_listed(self, path: str) -> bool:
        """Whether a real path is listed by itself: it is below the root, and no part of it is hidden."""
        below = os.path.relpath(path, self._real).split("/")
        return below[0] != ".." and not is_hidden(below)

    def _file(self, path: str, status: os.stat_result) -> Iterator[tuple[str, int, int]]:
        if not stat.S_ISREG(status.st_mode):
            self._skipped(path, "it is no plain file")
        elif path.encode(errors="replace").decode() != path:
            # It has bytes that Python had to escape.
            self._unreadable(path)
        else:
            yield f"file://{path}", status.st_size, modified_at(status.st_mtime_ns)


def modified_at(nanoseconds: int) -> int:
    """Whole milliseconds in microseconds; a file system's time beyond the years 1 to 9999 is the nearest in them."""
    return min(max(_FIRST, nanoseconds // 1000), _LAST) // 1000 * 1000
