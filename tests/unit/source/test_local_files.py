"""Which entries of a local folder are files of a source."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from messagestore_core.contract.records import FilesSource
from messagestore_jobs.source.local_files import Chosen, list_local_files, modified_at


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    (folder / "day").mkdir(parents=True)
    for name in ("a.jsonl", "day/größe.jsonl", ".half", "_tmp", "day/_tmp"):
        (folder / name).write_bytes(b"{}\n")
    return folder


def listed(folder: Path) -> tuple[set[str], dict[str, str], list[str]]:
    """The names of files, the names of skipped entries with the reasons, and the names that can't be read."""
    skipped: dict[str, str] = {}
    unreadable: list[str] = []
    portions = list(list_local_files(f"file://{folder}", skipped.__setitem__, unreadable.append))
    files = [uri.removeprefix(f"file://{folder}/") for portion in portions for uri in portion["uri"].to_pylist()]
    assert len(set(files)) == len(files)
    return set(files), {name.removeprefix(f"{folder}/"): why for name, why in skipped.items()}, unreadable


def test_files_are_listed_with_size_and_time(root: Path) -> None:
    os.utime(root / "a.jsonl", ns=(0, 1_700_000_000_123_456_789))
    (portion,) = list_local_files(f"file://{root}/a.jsonl", pytest.fail, pytest.fail)
    (row,) = portion.to_pylist()
    assert (row["uri"], row["size"]) == (f"file://{root}/a.jsonl", 3)
    assert row["modified_at"].timestamp() == 1_700_000_000.123


@pytest.mark.parametrize(
    ("seconds", "year"), [(-70_000_000_000, 1), (-12_300_000_000, 1580), (0, 1970), (260_000_000_000, 9999)]
)
def test_a_time_that_no_calendar_has_is_the_nearest(seconds: int, year: int) -> None:
    since_1970 = timedelta(microseconds=modified_at(seconds * 10**9 + 999))
    assert (datetime(1970, 1, 1, tzinfo=UTC) + since_1970).year == year


def test_hidden_names_are_left_out(root: Path) -> None:
    assert listed(root) == ({"a.jsonl", "day/größe.jsonl"}, {}, [])


def test_no_folder_has_no_files(tmp_path: Path) -> None:
    assert listed(tmp_path / "nothing") == (set(), {}, [])


def test_what_goes_while_its_folder_is_listed_is_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = os.scandir

    @contextmanager
    def removing(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with as_it_is(path) as entries:
            found = list(entries)
        (root / "b.jsonl").unlink(missing_ok=True)
        if (root / "day").exists():
            (root / "day").rename(root.parent / "moved")
        yield found

    (root / "b.jsonl").write_bytes(b"{}\n")
    monkeypatch.setattr(os, "scandir", removing)
    assert listed(root) == ({"a.jsonl"}, {}, [])


def test_what_is_no_plain_file_is_skipped(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "pipe")
    os.mkfifo(tmp_path / "pipe")
    (root / "linked").symlink_to(tmp_path / "pipe")
    (root / "nowhere").symlink_to("gone")
    files, skipped, _ = listed(root)
    assert files == {"a.jsonl", "day/größe.jsonl"}
    assert skipped["pipe"] == skipped["linked"] == "it is no plain file"
    assert skipped["nowhere"].startswith("the link leads nowhere")


def test_each_real_folder_is_listed_once(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.jsonl").write_bytes(b"")
    (root / "latest").symlink_to(".")
    (root / "again").symlink_to("day")
    (root / "x").symlink_to(outside)
    (root / "y").symlink_to(outside)
    (outside / "back").symlink_to(root)
    files, skipped, _ = listed(root)
    assert files == {"a.jsonl", "day/größe.jsonl", "x/b.jsonl"}
    assert skipped == dict.fromkeys(("latest", "again", "y", "x/back"), "its folder is listed under another name")


def test_a_link_to_a_file_counts_unless_that_is_listed_itself(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.jsonl").write_bytes(b"")
    (root / "current.jsonl").symlink_to("a.jsonl")
    (root / "outside.jsonl").symlink_to(tmp_path / "outside.jsonl")
    # As in a volume of a ConfigMap.
    (root / "..data").mkdir()
    (root / "..data" / "c.jsonl").write_bytes(b"")
    (root / "c.jsonl").symlink_to("..data/c.jsonl")
    assert listed(root)[0] == {"a.jsonl", "day/größe.jsonl", "outside.jsonl", "c.jsonl"}


def test_a_name_that_is_not_utf8_is_told(root: Path) -> None:
    with open(os.fsencode(root) + b"/\xff.jsonl", "wb"):  # noqa: PTH123
        pass
    files, _, unreadable = listed(root)
    assert files == {"a.jsonl", "day/größe.jsonl"}
    assert [os.fsencode(path) for path in unreadable] == [os.fsencode(root) + b"/\xff.jsonl"]


PATHS = ("a", "a.json", "b/a.json", "b/c/a.json", "b/c/d/a.json", "dt=1/x", "ä/b.json", "b.json/a", "b/a.json\nx", "(a")


@pytest.mark.parametrize(
    "folder", ["s3a://bucket/in/", "s3a://bucket", "file:///in", "file:/in", "/in", "abfss://a@b/ü"]
)
@pytest.mark.parametrize(
    ("include", "exclude", "chosen"),
    [
        ((), ("**",), ()),
        (("**",), (), PATHS),
        (("*",), (), ("a", "a.json", "(a")),
        (("*.json",), (), ("a.json",)),
        (("**/*.json",), (), ("a.json", "b/a.json", "b/c/a.json", "b/c/d/a.json", "ä/b.json")),
        (("b/**/a.json",), (), ("b/a.json", "b/c/a.json", "b/c/d/a.json")),
        (("b/**",), ("**/c/*",), ("b/a.json", "b/c/d/a.json", "b/a.json\nx")),
        (("?/*", "(?"), (), ("b/a.json", "ä/b.json", "b/a.json\nx", "(a")),
        (("dt=*/*", "a"), (), ("a", "dt=1/x")),
        ((), ("*", "b*/**"), ("dt=1/x", "ä/b.json")),
    ],
)
def test_globs_choose_files_by_their_path_below_the_folder(
    folder: str, include: tuple[str, ...], exclude: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    choice = Chosen(FilesSource(uri=folder, include=include, exclude=exclude))
    prefix = folder.rstrip("/") if "//" in folder else f"file://{folder.removeprefix('file:')}"
    listed = [pa.table({"uri": [f"{prefix}/{path}" for path in paths]}) for paths in (PATHS[:3], PATHS[3:])]
    for _ in range(2):
        read = [uri for portion in choice.of(listed) for uri in portion["uri"].to_pylist()]
        assert read == [f"{prefix}/{path}" for path in PATHS if path in chosen]
        assert choice.skipped == len(PATHS) - len(chosen)


def test_a_source_without_globs_reads_all_and_counts_nothing() -> None:
    choice = Chosen(FilesSource(uri="/in"))
    listed = [pa.table({"uri": ["file:///in/a"]})]
    assert (list(choice.of(listed)), choice.skipped) == (listed, None)
