"""A file that can't be cut by its bytes, and has more than a batch holds, is read as if it were read at once."""

import gzip
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import Memory
from messagestore_core.contract.records import Envelope, FieldMapping
from messagestore_core.store.handle import Store
from support.ingests import START, Row, Stream, adds_up, lines, record
from support.long import few
from support.purges import break_off

NAMES = [f"m{n}" for n in range(7)]
RECORDS = [record(name, time="2026-01-05T11:00:00Z") for name in NAMES]
FEW = Memory(batch_records=3)
"""A batch holds three records."""
TEXT = Envelope(format="Custom", fields={"category": FieldMapping(value="c")})
NESTED = {"format": "JSON", "records_path": ("$.of.Records",)}


@dataclass(frozen=True, eq=False)
class Shape:
    """A file, as one writes it, and how a source reads it."""

    name: str
    content: bytes
    settings: dict[str, Any]


def nested(*records: bytes, after: bytes = b"") -> bytes:
    return b'{"v":[1],"of":{"n":1,"Records":[' + b" ,\n".join(records) + b"]" + after + b"}}"


SHAPES = [
    Shape("array", b"[" + b",".join(RECORDS) + b"]", {"format": "JSON"}),
    Shape("concatenated", b" ".join(RECORDS), {"format": "JSON"}),
    Shape("sequence", b"".join(b"\x1e" + one + b"\n" for one in RECORDS), {"format": "JSON"}),
    Shape("arrays", b"[" + b",".join(RECORDS[:5]) + b"]\n[" + b",".join(RECORDS[5:]) + b"]", {"format": "JSON"}),
    Shape("nested", nested(*RECORDS), NESTED),
    Shape("two documents", nested(*RECORDS[:4]) + nested(*RECORDS[4:]), NESTED),
    Shape("two arrays", nested(*RECORDS[:4], after=b',"Records":[' + b",".join(RECORDS[4:]) + b"]"), NESTED),
    Shape("damage behind the records", nested(*RECORDS, after=b',"n" 1'), NESTED),
    Shape("no end", nested(*RECORDS)[:-3], NESTED),
    Shape("elements that are missing", b"[" + b",,,".join(RECORDS) + b",]", {"format": "JSON"}),
    Shape("lines", lines(*RECORDS, b"", b"garbage"), {}),
]


def read_in(memory: Memory, spark: SparkSession, folder: Path, name: str, shape: Shape, content: bytes) -> Stream:
    """A stream of one file, ingested, whose counts add up."""
    stream = Stream(spark, folder, {**shape.settings, "memory": memory})
    stream.arrive(name, content)
    assert adds_up(stream.run().totals)
    return stream


def kept(stream: Stream) -> tuple[list[Any], list[Any]]:
    """All that a store holds of its records: of messages, and of dead letters."""
    place = stream.landing.as_uri()
    messages = [
        (m["message_id"], m["position"], m["global_position"], m["payload"], str(m["source"]).replace(place, ""))
        for m in stream.messages()
    ]
    dead = [
        (d["reason"], d["detail"], d["raw"], d["cut"], str(d["source"]).replace(place, ""))
        for d in stream.dead_letters()
    ]
    return messages, dead


def in_order(stream: Stream) -> list[Row]:
    """Which parts of files were read, by batch."""
    return list(Store(stream.table.uri).table("files").to_pyarrow_table().sort_by("batch").to_pylist())


def ranges(stream: Stream) -> list[tuple[int, int, int | None, int | None]]:
    """The same of one file, in bytes as they are stored and unpacked."""
    return [(row["start"], row["end"], row["from"], row["to"]) for row in in_order(stream)]


@pytest.mark.parametrize(
    ("shape", "packed"),
    few(
        # Lines that are not packed are cut by bytes.
        [(shape, packed) for shape in SHAPES for packed in (False, True) if packed or shape.name != "lines"],
        (SHAPES[7], True),
    ),
    ids=lambda value: getattr(value, "name", "packed" if value else "plain"),
)
def test_a_file_gives_the_same_messages_in_several_batches_as_in_one(
    spark: SparkSession, tmp_path: Path, shape: Shape, packed: bool
) -> None:
    name, content = ("a.gz", gzip.compress(shape.content)) if packed else ("a", shape.content)
    at_once = read_in(Memory(), spark, tmp_path / "at-once", name, shape, content)
    assert [r[2:] for r in ranges(at_once)] == [(None, None)]
    in_batches = read_in(FEW, spark, tmp_path / "in-batches", name, shape, content)
    assert kept(in_batches) == kept(at_once)
    read = ranges(in_batches)
    assert len(read) > 1
    assert read[0][0] == read[0][2] == 0
    assert read[-1][1] == len(content)
    assert read[-1][3] is None
    assert all((one[1], one[3]) == (other[0], other[2]) for one, other in pairwise(read))
    again = in_batches.run(at=START + timedelta(hours=1))
    assert again.batches == 0
    assert again.lag.files == 0


KILLS = [
    (shape, *at)
    for shape in (SHAPES[6], SHAPES[9], SHAPES[10])
    for at in [
        *((name, moment, 1) for name in ("plan", "plan-anew", "messages") for moment in ("before", "after")),
        *((name, moment, 2) for name in ("plan", "messages") for moment in ("before", "after")),
        *(("dead-letters", moment, 1) for moment in ("before", "after")),
    ]
]
"""Dead letters come in the last batch, in each, and in the last one of lines."""


@pytest.mark.parametrize(
    ("shape", "name", "moment", "nth"),
    few(KILLS, (SHAPES[10], "messages", "after", 1)),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_an_ingest_that_was_killed_within_a_large_file_ends_with_the_same_store(
    spark: SparkSession, tmp_path: Path, shape: Shape, name: str, moment: str, nth: int
) -> None:
    content = gzip.compress(shape.content)
    at_once = read_in(Memory(), spark, tmp_path / "at-once", "a.gz", shape, content)
    stream = Stream(spark, tmp_path / "killed", {**shape.settings, "memory": FEW})
    stream.arrive("a.gz", content)
    break_off(stream.run, name, moment, nth)
    assert adds_up(stream.run(at=START + timedelta(hours=1)).totals)
    assert kept(stream) == kept(at_once)
    assert stream.run(at=START + timedelta(hours=2)).batches == 0


@pytest.mark.parametrize("text", few([False, True], True))
def test_a_file_that_grows_between_two_of_its_batches_is_read_once(
    spark: SparkSession, tmp_path: Path, text: bool
) -> None:
    settings: dict[str, Any] = {"format": "Text", "envelope": TEXT} if text else {}
    stream = Stream(spark, tmp_path, {**settings, "memory": FEW})
    packed = [gzip.compress(lines(*part)) for part in (RECORDS[:4], RECORDS[4:])]
    stream.arrive("a.gz", packed[0])
    break_off(stream.run, "plan", "before", 2)
    stream.arrive("a.gz", b"".join(packed))
    counts = stream.run(at=START + timedelta(hours=1)).totals
    assert adds_up(counts)
    assert (counts.stored, counts.dead_lettered, counts.duplicates) == (7, 0, 3)
    assert [m["payload"] for m in stream.messages()] == ([*RECORDS] if text else [b"{}"] * 7)


def test_files_around_a_large_one_keep_their_order(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, {"format": "JSON", "memory": FEW})
    for name, records in {"a": RECORDS[:1], "b": RECORDS[1:6], "c": RECORDS[6:]}.items():
        stream.arrive(name, b"[" + b",".join(records) + b"]")
    counts = stream.run().counts
    assert (counts.received, counts.stored) == (7, 7)
    assert stream.ids() == NAMES
    assert [(row["start"] == 0, row["to"] is None) for row in in_order(stream)] == [
        *((True, True), (True, False), (False, True), (True, True))
    ]


def test_a_limit_of_bytes_cuts_a_file_between_records(spark: SparkSession, tmp_path: Path) -> None:
    size = len(RECORDS[0]) + 1
    stream = Stream(spark, tmp_path, {"format": "JSON", "memory": Memory(batch_bytes=2 * size)})
    stream.arrive("a.json", b"[" + b",".join(RECORDS) + b"]")
    assert stream.run().counts.stored == 7
    assert stream.ids() == NAMES
    assert [(row["from"], row["to"]) for row in in_order(stream)] == [
        *((0, 1 + 2 * size), (1 + 2 * size, 1 + 4 * size), (1 + 4 * size, 1 + 6 * size), (1 + 6 * size, None))
    ]
