"""Ingested files are archived or deleted once, and no others."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyarrow import fs

from messagestore_core.contract.records import FilesSource
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.files import SourceFile
from messagestore_jobs.source import after_ingest
from messagestore_jobs.source.after_ingest import AfterIngest
from support.external_writes import observing
from support.ingests import START, Heard, write_file

NAMES = ["a.jsonl", "folder/of/odd %20 #?&+é.jsonl"]


def listed(path: Path) -> SourceFile:
    """The file as in a listing, with its time in milliseconds."""
    found = path.stat()
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=found.st_mtime_ns // 1_000_000)
    return SourceFile(f"file://{path}", found.st_size, time)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    for name in NAMES:
        write_file(tmp_path / "landing" / name, name.encode(), START + timedelta(microseconds=1_234))
    return tmp_path / "landing"


def files_in(folder: Path) -> list[SourceFile]:
    return [listed(path) for path in sorted(folder.rglob("*")) if path.is_file()]


STORE = HeldStore("file:///store")


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def deleting(landing: Path, heard: Heard | None = None) -> AfterIngest:
    return AfterIngest(STORE, FilesSource(uri=f"file://{landing}", after_ingest="Delete"), heard or Heard())


def archiving(landing: Path) -> AfterIngest:
    archive = f"file://{landing.parent}/archive"
    source = FilesSource(uri=f"file://{landing}/", after_ingest="Archive", archive_uri=archive)
    return AfterIngest(STORE, source, Heard())


def test_files_that_were_read_are_deleted(landing: Path) -> None:
    deleting(landing).put_away(files_in(landing))
    assert names_in(landing.parent) == []


def test_files_that_were_read_are_archived_under_their_paths(landing: Path) -> None:
    archiving(landing).put_away(files_in(landing))
    assert names_in(landing) == []
    archive = landing.parent / "archive"
    assert {name: (archive / name).read_text() for name in names_in(archive)} == {name: name for name in NAMES}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", ["archive-file", "delete-file"])
def test_files_are_archived_by_the_next_run_after_a_crash_at_any_step(landing: Path, name: str, moment: str) -> None:
    def observer(at: str, when: str) -> None:
        if (at, when) == (name, moment):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), observing(observer):
        archiving(landing).put_away(files_in(landing))
    archiving(landing).put_away(files_in(landing))
    assert (names_in(landing), names_in(landing.parent / "archive")) == ([], sorted(NAMES))


def test_a_copy_that_was_cut_off_is_made_anew(landing: Path) -> None:
    write_file(landing.parent / "archive" / NAMES[0], b"a.j", START)
    archiving(landing).put_away(files_in(landing))
    assert (landing.parent / "archive" / NAMES[0]).read_text() == NAMES[0]


@pytest.mark.parametrize("content", ["a.jsonX", "a.jsonl and more"])
def test_a_file_that_has_changed_since_it_was_listed_is_kept(landing: Path, content: str) -> None:
    before = files_in(landing)
    write_file(landing / NAMES[0], content.encode(), START + timedelta(milliseconds=2))
    deleting(landing).put_away(before)
    assert names_in(landing) == [NAMES[0]]


def test_a_file_that_changes_while_it_is_archived_is_kept(landing: Path) -> None:
    def observer(at: str, when: str) -> None:
        if (at, when) == ("archive-file", "after"):
            write_file(landing / NAMES[0], b"a.jsonX", START)

    with observing(observer):
        archiving(landing).put_away([listed(landing / NAMES[0])])
    assert (landing / NAMES[0]).read_text() == "a.jsonX"


def test_a_file_that_is_gone_is_passed_over(landing: Path) -> None:
    before = files_in(landing)
    heard = Heard()
    (landing / NAMES[0]).unlink()
    deleting(landing, heard).put_away(before)
    assert (names_in(landing), heard.said) == ([], [])


def test_files_outside_of_the_source_are_not_touched(landing: Path) -> None:
    outside = write_file(landing.parent / "outside" / "kept.jsonl", b"kept", START)
    (landing / "link").symlink_to(outside.parent)
    through_link, upwards = landing / "link" / "kept.jsonl", landing / ".." / "outside" / "kept.jsonl"
    deleting(landing).put_away(map(listed, [through_link, upwards, outside]))
    assert outside.read_text() == "kept"


def test_a_file_that_may_not_be_deleted_is_reported_once_and_the_others_are_deleted(
    landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = os.unlink

    class Denying(fs.LocalFileSystem):
        def delete_file(self, path: str) -> None:
            if "denied" in path:
                raise PermissionError(f"{path}: not allowed")
            delete(path)

    monkeypatch.setattr(after_ingest.fs, "LocalFileSystem", Denying)
    for n in range(3):
        write_file(landing / f"denied-{n}", b"", START)
    heard = Heard()
    after = deleting(landing, heard)
    for _ in range(2):
        after.put_away(files_in(landing))
    assert names_in(landing) == ["denied-0", "denied-1", "denied-2"]
    assert [text.partition(" was ingested")[0] for text in heard.said] == [f"file://{landing}/denied-0"]
    assert "not allowed" in heard.said[0]
