"""The last line of a file, which may still be written: without an end it is read once the file rests."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa

from messagestore_core.contract.records import FilesSource
from messagestore_core.store.files import Range, SourceFile
from messagestore_core.store.objects import path_of, reached
from messagestore_core.store.storage import Storage

Opener = Callable[[SourceFile], pa.NativeFile]
LINE = 1 << 16
"""Bytes that are searched at once for an end of a line."""
_LONGEST = 1 << 20
"""Bytes. A longer last line isn't parsed to see whether it is whole."""


class LastLines:
    """The last lines of one source's files."""

    def __init__(self, source: FilesSource, rest: timedelta, storage: Storage) -> None:
        self._parses, self._rest = source.format == "JSONLines", rest
        self._open = opener(source.uri, storage)

    def apart(self, waiting: Iterable[Range], at: datetime) -> tuple[list[Range], list[Range]]:
        """What can be read at a time, and last lines that may still be written."""
        ready: list[Range] = []
        open_lines: list[Range] = []
        for r in waiting:
            # A time far in the future says nothing.
            rests = abs(at - r.file.modified_at) >= self._rest
            end = r.end if rests or r.file.uri.endswith(".gz") else self._ended(r)
            if end > r.start or r.start == r.end:
                ready.append(replace(r, end=end))
            if end < r.end:
                open_lines.append(replace(r, start=max(end, r.start)))
        return ready, open_lines

    def _ended(self, r: Range) -> int:
        """One past the last whole line of what waits of a file."""
        if r.end < r.file.size or r.start == r.end:
            return r.end
        with suppress(OSError), self._open(r.file) as content:
            end = after_last_line(content, r.end)
            if not (self._parses and r.end - end <= _LONGEST):
                return end
            content.seek(end)
            return r.end if _is_object(content.read(r.end - end)) else end
        return r.end


def opener(uri: str, storage: Storage) -> Opener:
    """Opens files below a URI, all by one client."""
    filesystem, _ = reached(uri, storage)
    return lambda file: filesystem.open_input_file(path_of(file.uri))


def after_last_line(content: pa.NativeFile, end: int) -> int:
    """One past the last end of a line before a byte of a file; 0 where there is none."""
    while end > 0:
        start = max(0, end - LINE)
        content.seek(start)
        newline = content.read(end - start).rfind(b"\n")
        if newline >= 0:
            return int(start + newline + 1)
        end = start
    return 0


def _is_object(line: bytes) -> bool:
    """Whether a line is a whole JSON object, which no part of one is."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
