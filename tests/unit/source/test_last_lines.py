"""A last line without an end is not read before its file rests, and the lines before it are."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from messagestore_core.contract.records import FileFormat, FilesSource
from messagestore_core.store.files import Range, SourceFile
from messagestore_core.store.storage import Storage
from messagestore_jobs.source.contents import LINE, LastLines
from support.packing import PACKERS, Packer

WRITTEN = datetime(2026, 1, 5, tzinfo=UTC)
REST = timedelta(minutes=1)
SOON, LATER, BEFORE = WRITTEN + timedelta(seconds=59), WRITTEN + REST, WRITTEN - timedelta(days=1)


def apart(
    path: Path, content: bytes, form: FileFormat, at: datetime = SOON, start: int = 0
) -> tuple[list[bytes], list[bytes]]:
    """What of a file is read from a byte on, and what waits."""
    path.write_bytes(content)
    file = SourceFile(f"file://{path}", len(content), WRITTEN)
    lines = LastLines(FilesSource(uri=f"file://{path.parent}", format=form), REST, Storage())
    ready, waiting = lines.apart([Range(file, start, len(content))], at)
    return [content[r.start : r.end] for r in ready], [content[r.start : r.end] for r in waiting]


LONG = b"x" * (2 * LINE + 5)


@pytest.mark.parametrize(
    ("form", "content", "open_line"),
    [
        ("Text", b"one\ntwo", b"two"),
        ("Text", b"one\ntwo\r", b"two\r"),
        ("Text", b"one\n{}", b"{}"),
        ("Text", b"one\n" + LONG, LONG),
        ("Text", b"half", b"half"),
        ("Text", b"one\ntwo\n", b""),
        ("Text", b"", b""),
        ("JSONLines", b'{"a": 1}\n{"a": {"b": 1}', b'{"a": {"b": 1}'),
        ("JSONLines", b'{"a": 1}\n12', b"12"),
        ("JSONLines", b'{"a": 1}\n{"a": "\xc3', b'{"a": "\xc3'),
        ("JSONLines", b"[" * 10_000, b"[" * 10_000),
        ("JSONLines", b'{"a": 1}\n{"a": 2}', b""),
        ("JSONLines", b'{"a": 1}', b""),
    ],
)
def test_only_a_line_that_may_go_on_waits(tmp_path: Path, form: FileFormat, content: bytes, open_line: bytes) -> None:
    ready, waiting = apart(tmp_path / "a.log", content, form)
    assert b"".join(waiting) == open_line
    assert b"".join(ready) + open_line == content
    assert (ready == []) == (open_line == content != b"")


@pytest.mark.parametrize("at", [LATER, BEFORE], ids=["the file rests", "its time is in the future"])
def test_the_last_line_is_read_once_its_file_rests_or_is_of_the_future(tmp_path: Path, at: datetime) -> None:
    assert apart(tmp_path / "a.log", b"one\ntwo", "Text", at) == ([b"one\ntwo"], [])


def test_of_a_file_whose_first_lines_were_read_the_last_line_waits(tmp_path: Path) -> None:
    assert apart(tmp_path / "a.log", b"one\ntwo", "Text", start=4) == ([], [b"two"])
    assert apart(tmp_path / "a.log", b"one\ntwo", "Text", start=7) == ([b""], [])


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_compressed_file_is_read_whole(tmp_path: Path, pack: Packer) -> None:
    packed = pack(b"one\ntwo")
    assert apart(tmp_path / "a.log", packed, "Text") == ([packed], [])


def test_of_a_file_that_is_no_gzip_the_last_line_waits_whatever_its_name(tmp_path: Path) -> None:
    assert apart(tmp_path / "a.gz", b"one\ntwo", "Text") == ([b"one\n"], [b"two"])
