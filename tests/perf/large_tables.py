"""Tables of a store that are larger than a benchmark can make with runs: they are written directly.

``python -m tests.perf.large_tables`` prints a table, each row from its own process: 10 M streams in ``heads``,
10,000 partitions in ``offsets``, 1 M messages in ``tombstones``.
"""

import json
import resource
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from tests.perf import data, ingest_sides
from tests.perf.processes import in_fresh_process

from messagestore_core.contract.stores import Table as StoreTable
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.heads import raise_heads, read_hidden_heads
from messagestore_core.store.layout import TOMBSTONE_KEY
from messagestore_core.store.offsets import OffsetBatch, OffsetRange, Partition, ReadOffsets
from messagestore_core.store.schemas import HEADS, TOMBSTONES
from messagestore_core.store.storage import Storage
from messagestore_core.store.tombstones import open_erased
from messagestore_jobs.session import local_session
from support.stores import add_rows

Figures = dict[str, float]

STREAMS, RAISED = 10_000_000, 100_000
PARTITIONS, BATCHES = 10_000, 20
ERASED, BATCH, REPEATS = 1_000_000, 400_000, 7
_AT = datetime(2026, 1, 5, tzinfo=UTC)


def heads() -> Figures:
    """A purge raises some of the heads."""
    with _store() as store:
        _apart(_write_heads, store.uri)
        some = pa.table({"stream_name": _names(0, STREAMS, STREAMS // RAISED), "next_position": np.full(RAISED, 9)})
        before, begun = _peak(), time.perf_counter()
        raise_heads(store, some, STREAMS)
        found = {"raise 100,000, s": time.perf_counter() - begun, "memory grew by, MiB": _peak() - before}
        return {**found, "what each run reads of them, s": _timed(lambda: read_hidden_heads(HeldStore(store.uri)))}


def offsets() -> Figures:
    """Batches that read all partitions, as a stream does every few seconds."""
    with _store() as store:
        read = ReadOffsets(store, "perf")
        seconds = [_timed(lambda number=number: read.write_down(_offsets(number))) for number in range(BATCHES)]
        opened = _timed(lambda: ReadOffsets(store, "perf"))
        rows = store.table("offsets").count()
        return {"write a batch down, s": statistics.median(seconds), "open, s": opened, "rows left": rows}


def tombstones() -> Figures:
    """Reading the tombstones, once per run."""
    with _store() as store:
        _apart(_write_tombstones, store.uri)
        before, begun = _peak(), time.perf_counter()
        assert open_erased(store).any()
        return {"open, s": time.perf_counter() - begun, "memory grew by, MiB": _peak() - before}


def ingest_without_tombstones() -> Figures:
    """Batches into a store without tombstones."""
    return _ingest(erased=False)


def ingest_with_tombstones() -> Figures:
    """The same batches into a store with this many tombstones."""
    return _ingest(erased=True)


SIDES: dict[str, Callable[[], Figures]] = {
    f"{STREAMS:,} streams": heads,
    f"{PARTITIONS:,} partitions": offsets,
    f"{ERASED:,} tombstones": tombstones,
    f"{BATCH:,} records, nothing erased": ingest_without_tombstones,
    f"{BATCH:,} records, {ERASED:,} tombstones": ingest_with_tombstones,
}


def _ingest(*, erased: bool) -> Figures:
    spark = local_session(cores=2, memory="4g")
    work = Path(tempfile.mkdtemp(prefix="messagestore-perf-", dir=data.folder()))
    uri = data.copy(data.base(lambda: spark, 100_000), work / "store")
    if erased:
        _write_tombstones(uri)
    files = [data.records(BATCH, 100_000_000 + i * BATCH, i) for i in range(REPEATS)]
    timed = ingest_sides.store(spark, uri, files)
    shutil.rmtree(work)
    return {"open, s": timed.opening, "batch, s": statistics.median(timed.batches[2:])}


def _write_heads(uri: str) -> None:
    count = 1_000_000
    for first in range(0, STREAMS, count):
        positions, nothing = pa.array(np.full(count, 5)), (pa.nulls(count, pa.int64()), pa.nulls(count, pa.string()))
        rows = pa.Table.from_arrays([_names(first, first + count, 1), positions, *nothing], schema=HEADS)
        add_rows(HeldStore(uri), "heads", rows)


def _names(first: int, end: int, step: int) -> pa.Array:
    return pc.binary_join_element_wise("account", pc.cast(pa.array(np.arange(first, end, step)), pa.string()), "-")


def _write_tombstones(uri: str) -> None:
    HeldStore(uri).objects().create(TOMBSTONE_KEY, secrets.token_bytes(32))
    keys = pa.array([secrets.token_hex(32) for _ in range(ERASED)])
    columns = {"message_key": keys, "erased_at": pa.array([_AT] * ERASED, TOMBSTONES.field("erased_at").type)}
    columns |= {"run": pa.array(["perf"] * ERASED), "global_position": pa.array(np.arange(1, ERASED + 1))}
    add_rows(HeldStore(uri), "tombstones", pa.table(columns).cast(TOMBSTONES))


def _offsets(number: int) -> OffsetBatch:
    first = number * 100
    every = (Partition("orders", "id", partition) for partition in range(PARTITIONS))
    return OffsetBatch(number + 1, _AT, tuple(OffsetRange(one, first, first + 100, first + 500) for one in every))


@contextmanager
def _store() -> Iterator[HeldStore]:
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-", dir=data.folder()) as work:
        uri = f"file://{work}/store"
        open_folder(HeldStore.of(StoreTable(uri=uri, owner=data.OWNER), Storage()))
        yield HeldStore(uri)


def _apart(write: Callable[[str], None], uri: str) -> None:
    """Write in another process, so that its memory does not count for what is measured."""
    code = f"from tests.perf import large_tables; large_tables.{write.__name__}({uri!r})"
    subprocess.run([sys.executable, "-c", code], check=True)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _peak() -> float:
    """The process's peak memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    table = Table("of", "figures")
    for side in SIDES:
        found = in_fresh_process("tests.perf.large_tables", "--side", side)
        table.add_row(side, ", ".join(f"{name}: {figure:,.2f}" for name, figure in found.items()))
    Console(width=140).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        sys.stdout.write(json.dumps(SIDES[sys.argv[2]]()) + "\n")
    else:
        main()
