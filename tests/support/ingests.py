"""A landing folder, a store, and ingest runs between them; results are read by independent code."""

import gzip
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, IngestTask
from messagestore_core.contract.records import FileFormat, FilesSource
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.job import run_ingest
from support.external_writes import observing
from support.packing import unpacked

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""When tests begin; files arrive before it."""
OWNER = Owner(namespace="default", name="orders")
RESOURCE = Resource(kind="MessageStream", namespace="default", name="orders")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Row = dict[str, Any]

_OF_SOURCE = (
    *("format", "max_files_per_batch", "after_ingest", "archive_uri", "last_line_after"),
    *("include", "exclude", "records_path", "read_again", "max_bytes_per_batch"),
)


@dataclass
class Heard:
    """A progress listener that keeps all messages."""

    said: list[str] = field(default_factory=list)

    def step(self, name: str, total: int | None = None) -> None:
        pass

    def advance(self, done: int) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)


@dataclass
class Stream:
    """A message stream on local disk."""

    spark: SparkSession
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    heard: Heard = field(default_factory=Heard)
    runs: int = 0
    arrived: int = 0
    store: str = "store"
    remember_purged: timedelta | None = None

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    @property
    def table(self) -> Table:
        return Table(uri=f"file://{self.folder}/{self.store}", owner=OWNER, remember_purged=self.remember_purged)

    def arrive(self, name: str, content: bytes, at: datetime | None = None) -> Path:
        """Add a file; without ``at``, its time is a second after the one before it."""
        self.arrived += 1
        return write_file(
            self.landing / name, content, at or START - timedelta(days=1) + timedelta(seconds=self.arrived)
        )

    def document(self, at: datetime = START, **settings: Any) -> RunDocument:
        chosen = {**self.settings, **settings}
        source = FilesSource(
            uri=f"file://{self.landing}",
            **{name: chosen.pop(name) for name in _OF_SOURCE if name in chosen},
        )
        self.runs += 1
        task = IngestTask(source_id=chosen.pop("source_id", "landing"), source=source, **chosen)
        return RunDocument(run=f"run-{self.runs}", resource=RESOURCE, table=self.table, at=at, task=task)

    def run(self, at: datetime = START, **settings: Any) -> IngestOutcome:
        run = Run.of(self.document(at, **settings), self.spark, self.heard)
        open_folder(run.store)
        return run_ingest(run)

    def messages(self) -> list[Row]:
        """All messages, by global position."""
        rows = Store(self.table.uri).table("messages").to_pyarrow_table().sort_by("global_position").to_pylist()
        return [{**row, "headers": None if row["headers"] is None else dict(row["headers"])} for row in rows]

    def dead_letters(self) -> list[Row]:
        """All dead letters, by place."""
        rows = Store(self.table.uri).table("dead_letters").to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda r: (r["source"]["uri"], r["source"]["offset"]))

    def ids(self) -> list[str]:
        return [row["message_id"] for row in self.messages()]

    def set_aside(self) -> list[tuple[str, bytes]]:
        """Reason and bytes of each dead letter."""
        return [(row["reason"], row["raw"]) for row in self.dead_letters()]


def write_file(path: Path, content: bytes, modified_at: datetime) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, ns=(nanoseconds(modified_at), nanoseconds(modified_at)))
    return path


def nanoseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def record(message_id: str = "m1", **fields: Any) -> bytes:
    """A Native record; fields given as bytes are inserted unchanged, those given as ``...`` are left out."""
    full = {"messageId": message_id, "streamName": "order-1", "payload": b"{}", **fields}
    members = [
        json.dumps(name).encode() + b":" + (value if isinstance(value, bytes) else json.dumps(value).encode())
        for name, value in full.items()
        if value is not ...
    ]
    return b"{" + b",".join(members) + b"}"


def lines(*records: bytes) -> bytes:
    return b"".join(r + b"\n" for r in records)


def received(content: bytes, *, file_format: FileFormat = "JSONLines") -> int:
    """How many records a file's bytes contain: lines that are not blank, or documents and elements of arrays."""
    plain, broken = unpacked(content)
    if file_format == "JSON":
        return _documents(plain.removeprefix(BYTE_ORDER_MARK), broken=broken)
    return len(_lines(plain, broken=broken))


def lines_of(path: Path) -> dict[int, bytes]:
    """The records of a file of lines, by the offset of each."""
    plain, broken = unpacked(path.read_bytes())
    return _lines(plain, broken=broken)


def _lines(content: bytes, *, broken: bool) -> dict[int, bytes]:
    found = {}
    at = len(BYTE_ORDER_MARK) if content.startswith(BYTE_ORDER_MARK) else 0
    *whole, rest = content[at:].split(b"\n")
    for line in whole:
        if line.strip(b" \t\r"):
            found[at] = line.removesuffix(b"\r")
        at += len(line) + 1
    # At the end of a truncated stream there is a truncated record, however short.
    if broken or rest.strip(b" \t\r"):
        found[at] = rest.removesuffix(b"\r")
    return found


_TOKEN = re.compile(
    rb'"(?:[^"\\]|\\.)*(?P<end>"|\\?\Z)|[ \t\r\n]+|[^"{}\[\], \t\r\n\x1e]+|.',
    re.DOTALL,
)


def _documents(content: bytes, *, broken: bool) -> int:
    """How many records a file of JSON has, by its tokens, with those that tell only of damage."""
    if not content.lstrip(b" \t\r\n").startswith(b"\x1e"):
        return _of_text(content, broken=broken)
    *texts, last = content.split(b"\x1e")
    return sum(_of_text(text, broken=False) for text in texts) + _of_text(last, broken=broken)


def _of_text(text: bytes, *, broken: bool) -> int:
    """The records where nothing ends a document but its own brackets."""
    count = depth = 0
    in_array = begun = due = False
    closed = True
    for found in _TOKEN.finditer(text):
        token, closed = found[0], found["end"] in (None, b'"')
        if depth:
            depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token, 0)
        elif token.isspace() or (token == b"\x1e" and not in_array and not begun):
            continue
        elif in_array and token in (b",", b"]"):
            count += not begun and (due or token == b",")
            begun, due, in_array = False, token == b",", token == b","
        elif in_array:
            count += not begun
            begun, depth = True, int(token in (b"{", b"["))
        elif token in (b"{", b"["):
            count += token == b"{"
            begun, due, in_array, depth = False, False, token == b"[", int(token == b"{")
        else:
            count += not begun
            begun = True
    return count + (closed and not depth and (in_array or broken))


def received_in(folder: Path, file_format: FileFormat = "JSONLines") -> int:
    """As :func:`received`, for all files below a folder."""
    return sum(received(path.read_bytes(), file_format=file_format) for path in folder.rglob("*") if path.is_file())


def adds_up(counts: IngestCounts) -> bool:
    """Law 1 within one report."""
    parts = counts.stored + counts.duplicates + counts.dead_lettered + counts.filtered + counts.discarded
    return counts.received == parts


def final_totals(stream: Stream) -> IngestCounts:
    """The totals of a stream after one more run; checks that they add up, and are what its tables hold."""
    totals = stream.run().totals
    assert adds_up(totals)
    assert (totals.stored, totals.dead_lettered) == (len(stream.messages()), len(stream.dead_letters()))
    return totals


def packed(*records: bytes) -> bytes:
    return gzip.compress(lines(*records), mtime=0)


def positions_have_no_gap(rows: Iterable[Row]) -> bool:
    """Whether each stream's positions are 0, 1, 2 … in order of arrival, and global positions rise."""
    heads: dict[str, int] = {}
    last = 0
    for row in rows:
        if row["position"] != heads.get(row["stream_name"], 0) or row["global_position"] <= last:
            return False
        heads[row["stream_name"]] = row["position"] + 1
        last = row["global_position"]
    return True


@contextmanager
def at_the_messages_commit(act: Callable[[], object]) -> Iterator[None]:
    """Call ``act`` once, between the two passes over a batch."""
    waiting = [act]

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("messages", "before") and waiting:
            waiting.pop()()

    with observing(observer):
        yield
    assert not waiting, "there was no commit"
