"""Files that change after they were read, where a line's place is its identity: each line of each content is stored."""

import gzip
import os
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messagestore_core.store.file_ends import FileEnds
from messagestore_core.store.files import Known, Range, SourceFile, known_of
from messagestore_core.store.schemas import FILES
from messagestore_core.store.storage import Storage
from messagestore_jobs.source.contents import Contents
from messagestore_jobs.source.local_files import list_local_files
from messagestore_jobs.source.plan import BatchLimits, next_files, pending_files, rest_of_files
from support.packing import PACKERS, Packer, compression, unpacked

NOW = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass
class Source:
    """A source: the plans that it shares with others, and the lines that are stored of them, by id."""

    folder: Path
    plans: list[dict[str, Any]] = field(default_factory=list)
    stored: dict[str, bytes] = field(default_factory=dict)
    source_id: str = "own"
    notes_digests: bool = True
    changes: int = 0

    def known(self, uris: Set[str]) -> dict[str, Known]:
        rows = [row for row in self.plans if row["uri"] in uris]
        return known_of(pa.Table.from_pylist(rows, FILES), self.source_id)

    def other(self) -> "Source":
        return replace(self, source_id="other")

    def change(self, content: bytes, name: str = "app.log") -> None:
        path = self.folder / name
        path.write_bytes(content)
        self.changes += 1
        at = NOW + timedelta(seconds=self.changes)
        os.utime(path, (at.timestamp(), at.timestamp()))

    def read(self, size: int = 1_000, batches: int = 100) -> None:
        contents = Contents(self, f"file://{self.folder}", Storage())
        own = [row for row in self.plans if row["source_id"] == self.source_id]
        ends = FileEnds([pa.Table.from_pylist(own, FILES)])
        listed = list_local_files(f"file://{self.folder}", self.refuse, self.refuse)
        waiting = contents.going_on(pending_files(listed, ends))
        while waiting and batches:
            taken = next_files(waiting, BatchLimits(9, size, 10_000), splittable=True)
            taken = contents.with_digests(taken) if self.notes_digests else taken
            self.plan(taken)
            waiting = rest_of_files(waiting, taken)
            batches -= 1

    def refuse(self, path: str, why: str = "") -> None:
        raise AssertionError(path, why)

    def plan(self, ranges: tuple[Range, ...]) -> None:
        number = max((row["batch"] for row in self.plans), default=0) + 1
        for r in ranges:
            about = {"source_id": self.source_id, "batch": number, "at": NOW, "uri": r.file.uri, "size": r.file.size}
            about |= {"modified_at": r.file.modified_at, "start": r.start, "end": r.end}
            self.plans.append(about | {"digest": r.digest, "generation": r.generation, "compression": r.compression})
            for offset, line in lines_of(r):
                message_id = f"{r.source_uri}#{offset}".removeprefix(f"file://{self.folder}/")
                assert self.stored.setdefault(message_id, line) == line, "another record has this id"


def lines_of(r: Range) -> Iterator[tuple[int, bytes]]:
    """The lines that start in a range, as the extension reads them."""
    raw = Path(r.file.uri.removeprefix("file://")).read_bytes()[: r.file.size]
    whole = r.start == 0 and r.end == r.file.size
    packed = whole and compression(raw) is not None
    content = unpacked(raw)[0] if packed else raw
    offset = 0
    for line in content.splitlines(keepends=True):
        if (packed or r.start <= offset < r.end) and line.strip():
            yield offset, line.rstrip(b"\n")
        offset += len(line)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_a_line_that_was_read_half_and_is_whole_now_is_another_record(source: Source) -> None:
    source.change(b"first line\npaid 10")
    source.read()
    source.change(b"first line\npaid 1000 to bob\n")
    source.read()
    assert source.stored == {
        "app.log#0": b"first line",
        "app.log#11": b"paid 10",
        "app.log//@2#11": b"paid 1000 to bob",
    }
    source.change(b"first line\npaid 1000 to bob\nend\n")
    source.read()
    assert source.stored["app.log//@2#28"] == b"end"
    assert len(source.stored) == 4


def test_of_a_file_that_grew_the_rest_is_read(source: Source) -> None:
    source.change(b"one\ntwo\n")
    source.read()
    source.change(b"one\ntwo\nthree\n")
    source.read()
    assert source.stored == {"app.log#0": b"one", "app.log#4": b"two", "app.log#8": b"three"}
    assert [(row["start"], row["end"]) for row in source.plans] == [(0, 8), (8, 14)]


@pytest.mark.parametrize("content", [b"uno\ntwo\n", b"uno\n", b"one\n", b"uno\ntwo\nthree\n", b"one\ntwa\nthree\n"])
def test_another_content_has_other_ids(source: Source, content: bytes) -> None:
    source.change(b"one\ntwo\n")
    source.read()
    source.change(content)
    source.read()
    again = {name: line for name, line in source.stored.items() if "@2" in name}
    assert b"".join(line + b"\n" for line in again.values()) == content
    source.change(b"\none\ntwo\n")
    source.read()
    assert [row["generation"] for row in source.plans] == [1, 2, 3]


def test_a_file_that_is_emptied_first_is_another_content(source: Source) -> None:
    for content in (b"one\n", b"", b"one\n"):
        source.change(content)
        source.read()
    assert source.stored == {"app.log#0": b"one", "app.log//@2#0": b"one"}


def test_of_a_file_that_was_touched_nothing_is_read(source: Source) -> None:
    source.change(b"one\ntwo")
    source.read()
    os.utime(source.folder / "app.log")
    source.read()
    source.read()
    assert [(row["start"], row["end"], row["generation"]) for row in source.plans] == [(0, 7, 1), (7, 7, 1)]


def test_a_source_that_reads_what_another_has_read_gives_the_same_ids(source: Source) -> None:
    source.change(b"first line\npaid 10")
    source.read()
    source.change(b"first line\npaid 1000 to bob\n")
    source.read()
    before = dict(source.stored)
    source.other().read()
    assert source.stored == before
    source.change(b"first line\npaid 1000 to bob\nend\n")
    source.other().read()
    source.read()
    assert source.stored == before | {"app.log//@2#28": b"end"}


def test_a_source_that_finds_another_content_than_another_read_gives_other_ids(source: Source) -> None:
    source.change(b"one\n")
    source.read()
    source.change(b"two\n")
    source.other().read()
    source.read()
    assert source.stored == {"app.log#0": b"one", "app.log//@2#0": b"two"}


def test_a_file_that_an_earlier_release_read_keeps_its_ids_until_its_digest_is_noted(source: Source) -> None:
    source.change(b"one\n")
    replace(source, notes_digests=False).read()
    source.change(b"one\ntwo\n")
    source.read()
    assert source.stored == {"app.log#0": b"one", "app.log#4": b"two"}
    source.change(b"1\ntwo\n")
    source.read()
    assert source.stored["app.log//@2#0"] == b"1"


def test_a_batch_that_ends_within_a_line_has_read_it_whole(source: Source) -> None:
    source.change(b"one\ntwo\nthree\n")
    source.read(size=6, batches=1)
    source.change(b"one\ntwo\nthree\nfour\n")
    source.read(size=6)
    assert source.stored == {"app.log#0": b"one", "app.log#4": b"two", "app.log#8": b"three", "app.log#14": b"four"}


def test_the_rest_of_a_partly_read_content_keeps_its_generation(source: Source) -> None:
    source.change(b"one\n")
    source.read()
    source.change(b"uno\ndue\n")
    source.read(size=4, batches=1)
    source.read()
    assert source.stored == {"app.log#0": b"one", "app.log//@2#0": b"uno", "app.log//@2#4": b"due"}


@pytest.mark.parametrize("name", ["a.gz", "a.log"])
@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_compressed_file_that_grew_is_read_again_and_another_content_has_other_ids(
    source: Source, pack: Packer, name: str
) -> None:
    for text in (b"one\n", b"two\n"):
        source.change(pack(text), name)
        source.read()
    assert source.stored == {f"{name}#0": b"one", f"{name}//@2#0": b"two"}
    source.change(pack(b"two\n") + pack(b"three\n"), name)
    source.read()
    assert source.stored == {f"{name}#0": b"one", f"{name}//@2#0": b"two", f"{name}//@2#4": b"three"}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_compressed_file_whose_last_line_goes_on_has_other_ids(source: Source, pack: Packer) -> None:
    source.change(pack(b"one\ntwo"))
    source.read()
    source.change(pack(b"one\ntwo") + pack(b"1\nend\n"))
    source.read()
    again = {name: line for name, line in source.stored.items() if "@2" in name}
    assert again == {"app.log//@2#0": b"one", "app.log//@2#4": b"two1", "app.log//@2#9": b"end"}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_compressed_file_that_was_cut_short_goes_on_under_its_ids(source: Source, pack: Packer) -> None:
    first, second = pack(b"one\n"), pack(b"two\n")
    source.change(first + second[:-3])
    source.read()
    source.change(first + second)
    source.read()
    assert source.stored == {"app.log#0": b"one", "app.log#4": b"two"}


def test_a_file_that_is_no_gzip_has_its_lines_whatever_its_name(source: Source) -> None:
    source.change(b"one\ntwo\n", "a.gz")
    source.read()
    source.change(b"one\ntwo\nthree\n", "a.gz")
    source.read()
    assert source.stored == {"a.gz#0": b"one", "a.gz#4": b"two", "a.gz#8": b"three"}
    assert [(row["start"], row["end"], row["compression"]) for row in source.plans] == [(0, 8, "none"), (8, 14, "none")]


@pytest.mark.parametrize(
    ("name", "content"), [("a.gz", b"one\n"), ("a.log", gzip.compress(b"one\n"))], ids=["no gzip", "another name"]
)
def test_a_file_that_an_earlier_release_read_by_its_name_is_read_by_its_content_once_it_has_grown(
    source: Source, name: str, content: bytes
) -> None:
    source.change(content, name)
    source.read()
    # The earlier release made a dead letter of the first, and lines of the bytes of the second.
    source.stored = {f"{name}#{at}": b"garbage" for at in (0, 4, 8)} if name == "a.log" else {}
    for row in source.plans:
        row["compression"] = None
    source.change(content + content, name)
    source.read()
    again = {name: line for name, line in source.stored.items() if "@2" in name}
    assert again == {f"{name}//@2#0": b"one", f"{name}//@2#4": b"one"}


def test_a_file_that_shows_only_later_that_it_is_compressed_has_other_ids(source: Source) -> None:
    packed = PACKERS["bzip2"](b"one\n")
    for size in (3, len(packed)):
        source.change(packed[:size])
        source.read()
    assert source.stored == {"app.log#0": b"BZh", "app.log//@2#0": b"one"}


TEXTS = st.lists(st.sampled_from([b"a", b"b", b"aa", b"\n", b"ab\n"]), max_size=5).map(b"".join)
CHANGES = st.lists(st.tuples(st.sampled_from(["append", "rewrite", "cut"]), TEXTS, st.integers(1, 9)), max_size=8)


@given(changes=CHANGES, small=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_each_line_of_each_content_that_a_run_sees_is_stored(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, bytes, int]], small: int
) -> None:
    source = Source(tmp_path_factory.mktemp("landing"))
    content = b""
    for number, (how, text, size) in enumerate(changes):
        content = {"append": content + text, "rewrite": text, "cut": content[:size]}[how]
        path = source.folder / "app.log"
        path.write_bytes(content)
        os.utime(path, (number, number))
        (source if number % 3 else source.other()).read(size=small)
        file = SourceFile(f"file://{path}", len(content), NOW)
        for offset, line in lines_of(Range(file, 0, len(content))):
            assert any(name.endswith(f"#{offset}") and source.stored[name] == line for name in source.stored)
