"""Files that are broken, unusual, late, or change while a run reads them."""

import gzip
import json
import os
import re
import zlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts, Memory
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.source import file_arrivals, records
from messagestore_jobs.source.local_files import list_local_files
from support.ingests import (
    BYTE_ORDER_MARK,
    START,
    Stream,
    adds_up,
    at_the_messages_commit,
    lines,
    packed,
    positions_have_no_gap,
    received_in,
    record,
)
from support.long import few
from support.packing import PACKERS, Packer, bzip2, skipped, zstd


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


class File(NamedTuple):
    """A file made of two records, the records that are stored, and those that are set aside."""

    name: str
    content: Callable[[bytes, bytes], bytes]
    stored: tuple[int, ...] = ()
    set_aside: Callable[[bytes, bytes], list[bytes]] = lambda a, b: []


def utf_16(text: bytes) -> bytes:
    return text.decode().encode("utf-16")


def wrong_sum(a: bytes, b: bytes) -> bytes:
    whole = packed(a, b)
    return whole[:-8] + b"\0\0\0\0" + whole[-4:]


def named(a: bytes, b: bytes) -> bytes:
    whole = packed(a, b)
    return whole[:3] + b"\x1c" + whole[4:10] + b"\x03\x00abc" + b"name\0" + b"comment\0" + whole[10:]


def start_of(b: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(packed(b)[:20])


def nothing(a: bytes, b: bytes) -> list[bytes]:
    return [b""]


def changed(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


def without_block(frame: bytes) -> bytes:
    """A frame of zstd with a first block of a kind that there is not."""
    return frame[:6] + bytes([frame[6] | 6]) + frame[7:]


def compressed(name: str, pack: Packer) -> list[File]:
    """Files of a compression, whole and damaged."""
    damaged: Packer = without_block if name == "zstd" else lambda stream: changed(stream, 30)
    return [
        File(f"{name} whole", lambda a, b: pack(lines(a, b)), (1, 2)),
        File(f"{name} of nothing", lambda a, b: pack(b"")),
        File(f"{name} of two members", lambda a, b: pack(a) + pack(b"\n" + b), (1, 2)),
        File(f"{name} with zeros after it", lambda a, b: pack(lines(a, b)) + bytes(99), (1, 2)),
        File(f"{name} with garbage after it", lambda a, b: pack(lines(a, b)) + b"garbage", (1, 2), nothing),
        File(f"{name} by its first bytes alone", lambda a, b: pack(a)[:10], (), nothing),
        File(f"{name} cut short", lambda a, b: pack(lines(a)) + pack(lines(b))[:8], (1,), nothing),
        File(f"{name} damaged in its middle", lambda a, b: pack(lines(a)) + damaged(pack(lines(b))), (1,), nothing),
        File(f"{name} damaged at its end", lambda a, b: changed(pack(lines(a, b)), -2), (1, 2), nothing),
    ]


MARK = BYTE_ORDER_MARK
FILES = [
    File("empty.jsonl", lambda a, b: b""),
    File("only breaks.jsonl", lambda a, b: b"\n\n\r\n \t\n\r\n"),
    File("only a byte order mark.jsonl", lambda a, b: MARK),
    File("byte order mark.jsonl", lambda a, b: MARK + lines(a, b), (1, 2)),
    File("two byte order marks.jsonl", lambda a, b: MARK * 2 + lines(a, b), (2,), lambda a, b: [MARK + a]),
    File("lines of Windows.jsonl", lambda a, b: a + b"\r\n" + b + b"\r\n", (1, 2)),
    File("lines of old Macintoshes.jsonl", lambda a, b: a + b"\r" + b + b"\r", (), lambda a, b: [a + b"\r" + b]),
    File("no break at the end.jsonl", lambda a, b: a + b"\n" + b, (1, 2)),
    File("blank lines between.jsonl", lambda a, b: b"\n\n" + a + b"\n \n\r\n" + b + b"\n\n", (1, 2)),
    File("utf-16.jsonl", lambda a, b: utf_16(a) + b"\n" + b + b"\n", (2,), lambda a, b: [utf_16(a)]),
    File("no suffix", lines, (1, 2)),
    File("packed.jsonl.gz", packed, (1, 2)),
    File("two members.jsonl.gz", lambda a, b: packed(a) + packed(b), (1, 2)),
    File("a line over two members.gz", lambda a, b: gzip.compress(a[:9]) + packed(a[9:], b), (1, 2)),
    File("packed byte order mark.gz", lambda a, b: packed(MARK + a, b), (1, 2)),
    File("nothing packed.gz", lambda a, b: gzip.compress(b"")),
    File("empty.gz", lambda a, b: b""),
    File("no gzip at all.gz", lines, (1, 2)),
    File("gzip by another name", packed, (1, 2)),
    File("zstd by the name of.gz", lambda a, b: zstd(lines(a, b)), (1, 2)),
    File("the first bytes of gzip alone", lambda a, b: packed(a)[:2], (), nothing),
    File("text that begins as bzip2", lambda a, b: b"BZh9" + lines(a, b), (2,), lambda a, b: [b"BZh9" + a]),
    File("zstd with another window", lambda a, b: zstd(lines(a, b), "--long=27", "-19"), (1, 2)),
    File("zstd of many frames", lambda a, b: skipped(b"1") + zstd(a) + skipped(b"") + zstd(b"\n" + b), (1, 2)),
    File("zstd to be skipped alone", lambda a, b: skipped(b"index") + skipped(b"")),
    File("zstd to be skipped, cut short", lambda a, b: zstd(lines(a)) + skipped(b"index")[:-1], (1,), nothing),
    *(file for name, pack in (("zstd", zstd), ("bzip2", bzip2)) for file in compressed(name, pack)),
    File("half a header.gz", lambda a, b: packed(a, b)[:5], (), nothing),
    File("wrong sum.gz", wrong_sum, (1, 2), nothing),
    File("wrong length.gz", lambda a, b: packed(a, b)[:-4] + bytes(4), (1, 2), nothing),
    File("zeros after it.gz", lambda a, b: packed(a, b) + bytes(1_000), (1, 2)),
    File("garbage after it.gz", lambda a, b: packed(a, b) + b"garbage", (1, 2), nothing),
    File("zeros and garbage after it.gz", lambda a, b: packed(a, b) + bytes(99) + b"garbage", (1, 2), nothing),
    File("a damaged header of a second member.gz", lambda a, b: packed(a) + b"\x1f\x8c" + packed(b)[2:], (1,), nothing),
    File("a name and a comment.gz", named, (1, 2)),
    File("an unknown flag.gz", lambda a, b: packed(a)[:3] + b"\x80" + packed(a)[4:], (), nothing),
    File(
        "a second member cut short.gz", lambda a, b: packed(a, b) + packed(b)[:20], (1, 2), lambda a, b: [start_of(b)]
    ),
    File("folder/of/a file.jsonl", lines, (1, 2)),
    File("odd name %20 #?&+é.jsonl", lines, (1, 2)),
    File("_upload under way.jsonl", lines),
    File(".hidden/file.jsonl", lines),
]


@pytest.fixture(scope="module")
def many(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Stream, IngestCounts]:
    """All files in one batch; each has its own records."""
    stream = Stream(spark, tmp_path_factory.mktemp("files"))
    for file in FILES:
        stream.arrive(file.name, file.content(*two(file)))
    return stream, stream.run().counts


def two(file: File) -> tuple[bytes, bytes]:
    return record(f"{file.name} 1"), record(f"{file.name} 2")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_of_a_file_every_record_has_its_place(many: tuple[Stream, IngestCounts], file: File) -> None:
    stream, _ = many
    uri = f"file://{stream.landing}/{file.name}"
    stored = [row["message_id"] for row in stream.messages() if row["source"]["uri"] == uri]
    assert stored == [f"{file.name} {n}" for n in file.stored]
    set_aside = [(row["reason"], row["raw"]) for row in stream.dead_letters() if row["source"]["uri"] == uri]
    assert set_aside == [("Unparseable", raw) for raw in file.set_aside(*two(file))]


def test_records_of_all_files_are_counted(many: tuple[Stream, IngestCounts]) -> None:
    stream, counts = many
    hidden = 4  # Two files of two records.
    assert adds_up(counts)
    assert counts.received == received_in(stream.landing) - hidden
    assert (counts.stored, counts.dead_lettered) == (len(stream.messages()), len(stream.dead_letters()))
    assert positions_have_no_gap(stream.messages())


def test_of_a_gzip_cut_short_what_can_be_unpacked_is_stored(stream: Stream) -> None:
    records = [record(f"{n} {os.urandom(40).hex()}") for n in range(2_000)]
    whole = packed(*records)
    stream.arrive("cut.gz", whole[: len(whole) // 2])
    counts = stream.run().counts
    assert counts == IngestCounts(received=received_in(stream.landing), stored=counts.stored, dead_lettered=1)
    assert 500 < counts.stored < 1_500
    ((reason, raw),) = stream.set_aside()
    assert reason == "Unparseable"
    assert "cut short" in stream.dead_letters()[0]["detail"]
    assert records[counts.stored].startswith(raw)
    assert stream.ids() == [r.split(b'"')[3].decode() for r in records[: counts.stored]]


@pytest.mark.parametrize("pack", [bytes, *PACKERS.values()], ids=["plain", *PACKERS])
def test_of_a_line_that_is_too_long_the_start_is_set_aside(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, pack: Packer
) -> None:
    monkeypatch.setattr(records, "too_many_bytes", lambda spark: 100_000)
    long = record("long", type="x" * 5_000_000)
    longest = record("longest", payload=json.dumps("x" * (100_000 - len(record("longest", payload='""')) + 1)).encode())
    content = [record("before"), long, longest, record("after")]
    stream.arrive("long", pack(lines(*content)))
    counts = stream.run().counts
    assert counts == IngestCounts(received=4, stored=3, dead_lettered=1)
    assert stream.ids() == ["before", "longest", "after"]
    assert stream.set_aside() == [("RecordTooLarge", long[:65_536])]
    assert f"the line is {len(long)} bytes long" in stream.dead_letters()[0]["detail"]


@pytest.mark.parametrize("pack", few(PACKERS.values(), zstd), ids=PACKERS)
def test_of_a_file_that_unpacks_past_all_measure_what_comes_before_is_stored(stream: Stream, pack: Packer) -> None:
    good, filler = record("good"), b" " * 1_000 + b"\n"
    stream.arrive("bomb", pack(lines(good) + filler * 20_000 + lines(record("behind"))))
    stream.arrive("one line", pack(b"x" * 40_000_000))
    stream.arrive("next.jsonl", lines(record("next")))
    assert stream.run().counts == IngestCounts(received=4, stored=2, dead_lettered=2)
    assert stream.ids() == ["good", "next"]
    first, second = stream.dead_letters()
    assert "more than 250 times its size" in first["detail"]
    assert "more than 250 times its size" in second["detail"]
    assert first["raw"].strip() == b""


def test_a_file_much_older_than_the_newest_is_read_first(stream: Stream) -> None:
    stream.arrive("new.jsonl", lines(record("new")), START)
    stream.arrive("old.jsonl", lines(record("old")), START - timedelta(days=8))
    assert stream.run().counts.received == 2
    assert stream.ids() == ["old", "new"]


def test_a_file_that_turns_up_late_with_an_old_time_is_read(stream: Stream) -> None:
    stream.arrive("new.jsonl", lines(record("new")), START)
    stream.run()
    stream.arrive("old.jsonl", lines(record("old")), START - timedelta(days=800))
    assert stream.run().counts == IngestCounts(received=1, stored=1)


def test_the_same_records_in_two_files_are_stored_once(stream: Stream) -> None:
    stream.arrive("a.jsonl", lines(record("m1"), record("m2"), b"garbage"))
    stream.arrive("b.jsonl", lines(record("m2"), record("m1"), b"garbage"))
    assert stream.run().counts == IngestCounts(received=6, stored=2, duplicates=2, dead_lettered=2)
    assert {row["source"]["uri"][-7:] for row in stream.messages()} == {"a.jsonl"}


def test_a_file_that_was_touched_is_read_again_and_all_in_it_are_duplicates(stream: Stream) -> None:
    content = lines(record("m1"), b"garbage", record("m2"))
    stream.arrive("a.jsonl", content)
    stream.run()
    stream.arrive("a.jsonl", content)
    assert stream.run().counts == IngestCounts(received=3, duplicates=3)
    assert stream.set_aside() == [("Unparseable", b"garbage")]


def test_a_run_without_new_files_makes_no_batch(stream: Stream) -> None:
    stream.arrive("a.jsonl", lines(record("m1")))
    first = stream.run()
    again = stream.run()
    assert (again.batches, again.counts, again.totals) == (0, IngestCounts(), first.totals)
    assert again.table == first.table


def test_a_batch_has_as_many_records_as_the_driver_may_hold_once_it_knows_them(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here 30: the first batch assumes 64 bytes per record, and has ten of 192; later batches know the size."""
    monkeypatch.setattr(records, "python_bytes", lambda spark: 3 * 500 * 30)
    every = [record(f"m{n:03}", payload=b'"' + b"x" * 135 + b'"') for n in range(90)]
    assert {len(line) + 1 for line in every} == {192}
    stream.arrive("a.jsonl", lines(*every))
    assert stream.run().batches == 4
    assert stream.ids() == [f"m{n:03}" for n in range(90)]


def test_a_landing_folder_that_is_not_there_holds_nothing(stream: Stream) -> None:
    outcome = stream.run()
    assert (outcome.batches, outcome.lag.files, outcome.table.messages) == (0, 0, 0)
    assert outcome.lag.source_found is False


def test_a_source_was_found_once_it_had_a_file_also_if_the_folder_is_empty_again(stream: Stream) -> None:
    path = stream.arrive("empty.jsonl", b"")
    assert stream.run().lag.source_found is True
    path.unlink()
    assert stream.run().lag.source_found is True


def test_of_a_file_that_grows_each_record_ends_in_the_store(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = (record(f"m{n}") for n in range(3))
    before = lines(a) + b[:10]
    stream.arrive("a.jsonl", before)
    listed = list(list_local_files(f"file://{stream.landing}", pytest.fail, pytest.fail))
    stream.arrive("a.jsonl", lines(a, b, c))
    with monkeypatch.context() as patched:
        patched.setattr(file_arrivals, "list_local_files", lambda *_: listed)
        assert stream.run().counts == IngestCounts(received=2, stored=1, dead_lettered=1)
    assert stream.run().counts == IngestCounts(received=3, stored=2, duplicates=1)
    assert stream.ids() == ["m0", "m1", "m2"]
    assert stream.set_aside() == [("Unparseable", b[:10])]


def test_of_a_file_that_shrank_the_rest_is_read(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = lines(record("m1"), record("m2")), lines(record("m1"))
    stream.arrive("a.jsonl", before)
    listed = list(list_local_files(f"file://{stream.landing}", pytest.fail, pytest.fail))
    stream.arrive("a.jsonl", after)
    monkeypatch.setattr(file_arrivals, "list_local_files", lambda *_: listed)
    # In two batches; the second begins after the end of the shorter file.
    outcome = stream.run(memory=Memory(batch_bytes=len(after) + 10))
    assert (outcome.batches, outcome.counts) == (2, IngestCounts(received=1, stored=1))


REPLACED = {
    "other ids": lines(record("m8"), record("m9")),
    "other streams": lines(record("m1", streamName="other-1"), record("m2", streamName="other-1")),
    "other order": lines(record("m2"), record("m1")),
    "fewer records": lines(record("m1")),
    "nothing": b"",
    "more records": lines(record("m1"), record("m2"), record("m3")),
    "more records before": lines(record("m3"), record("m1"), record("m2")),
    "garbage": lines(b"garbage", b"garbage"),
    "a longer record": lines(record("m1", type="x" * 500), record("m2")),
}


@pytest.mark.parametrize("other", few(REPLACED, "other ids", "garbage"))
def test_a_file_replaced_between_the_passes_corrupts_nothing(stream: Stream, other: str) -> None:
    stream.arrive("a.jsonl", lines(record("m1"), record("m2")))
    stream.arrive("b.jsonl", lines(record("b1"), record("b2", streamName="other-1")))
    refused: RunFailedError | None = None
    with at_the_messages_commit(lambda: stream.arrive("a.jsonl", REPLACED[other])):
        try:
            stream.run()
        except RunFailedError as error:
            refused = error
    if refused is not None:
        assert refused.reason == "SourceChanged"
        assert re.fullmatch(r"a file was replaced .* as seen at file:.*/[ab]\.jsonl; the next run .*", str(refused))
        assert stream.messages() == []
    totals = stream.run().totals
    assert adds_up(totals)
    assert totals.stored == len(stream.messages())
    assert totals.dead_lettered == len(stream.dead_letters())
    assert positions_have_no_gap(stream.messages())
    assert {"b1", "b2"} <= set(stream.ids())
    assert len(stream.ids()) == len(set(stream.ids()))


def test_a_file_deleted_before_its_batch_is_passed_over_and_said(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        stream.arrive(f"{name}.jsonl", lines(record(name)))
    listed = list(list_local_files(f"file://{stream.landing}", pytest.fail, pytest.fail))
    (stream.landing / "b.jsonl").unlink()
    monkeypatch.setattr(file_arrivals, "list_local_files", lambda *_: listed)
    assert stream.run().counts == IngestCounts(received=2, stored=2)
    assert stream.ids() == ["a", "c"]
    assert [text for text in stream.heard.said if "b.jsonl" in text]


@pytest.mark.parametrize("together", few([True, False], True), ids=["in a batch with others", "alone in its batch"])
def test_a_deleted_file_that_comes_back_as_it_was_is_read(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    if together:
        stream.arrive("a.jsonl", lines(record("a")))
    path = stream.arrive("b.jsonl", lines(record("b")))
    modified_at = path.stat().st_mtime_ns
    listed = list(list_local_files(f"file://{stream.landing}", pytest.fail, pytest.fail))
    path.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(file_arrivals, "list_local_files", lambda *_: listed)
        stream.run()
    assert "b" not in stream.ids()
    path.write_bytes(lines(record("b")))
    os.utime(path, ns=(modified_at, modified_at))
    assert stream.run().counts == IngestCounts(received=1, stored=1)


def test_a_batch_cut_off_and_its_file_deleted_goes_on_without_it(stream: Stream) -> None:
    def cut() -> None:
        raise InterruptedError

    stream.arrive("a.jsonl", lines(record("a")))
    gone = stream.arrive("b.jsonl", lines(record("b")))
    with pytest.raises(InterruptedError), at_the_messages_commit(cut):
        stream.run()
    gone.unlink()
    stream.arrive("c.jsonl", lines(record("c")))
    assert stream.run().counts == IngestCounts(received=2, stored=2)
    assert stream.ids() == ["a", "c"]
