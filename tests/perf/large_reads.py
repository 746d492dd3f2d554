"""Reads of a large store by an application: ``python -m tests.perf.large_reads [--messages N]``.

The store is made once and kept: its days are ordered by stream, as after maintenance, the last one by arrival. To
measure an earlier reader on the same store, set PYTHONPATH to its ``library`` and ``spark_images``. With ``--indexed``
an index of ids is made too, as runs keep one, and looked up by the last row.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from rich.console import Console
from rich.table import Table as Shown
from tests.perf import data

from messagestore import reads
from messagestore.leaving import Leaving
from messagestore.reader import Reader
from messagestore_core.contract.purge import Rule
from messagestore_core.contract.stores import Table
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.layout import INDEX, INDEX_MANIFEST
from messagestore_core.store.schemas import MESSAGES, properties
from messagestore_core.store.storage import Storage
from messagestore_jobs.session import UNREPEATED

FIRST_DAY = date(2026, 1, 1)
END = datetime(2026, 1, 21, tzinfo=UTC)
"""The end of the default's days."""
REPEATS = 3
_GROUP, _PAGE = 1 << 16, 4096
_FILE_ROWS = 28 * _GROUP
"""About 128 MiB."""
_ROWS = f"""
select {data._ID} message_id, category || '-' || (n * 7919 % {data.STREAMS}) stream_name, category,
  n // {data.STREAMS} "position", n + 1 global_position, 'Changed' || (n % 20) "type",
  'saga-' || (n // 3) correlation_id, payload::blob payload, 'application/json' content_type,
  strlen(payload) payload_size, sha256(payload) payload_sha256, 'RECEIVED' status, 0 retries,
  moment "time", moment inserted_at
from (select *, md5('m' || n) h, '{{"n":' || n || ',"amount":' || (n * 37 % 100000) || '.25}}' payload,
  case when n % 20000 = 7 then 'refund' when n % 10 = 3 then 'order' else 'account' end category,
  $start + to_microseconds((n - $first) * 86400000000 // $count) moment
  from (select $first + i n from range($count) t(i)))
"""
"""One message in ten is of category order, one in 20,000 of refund."""


def store_of(count: int, days: int) -> Path:
    """A store with this many messages."""
    path = data.folder() / f"large-{count}-{days}"
    if not (path / "complete").exists():
        shutil.rmtree(path, ignore_errors=True)
        uri = f"file://{path}/store"
        open_folder(HeldStore.of(Table(uri=uri, owner=data.OWNER), Storage()))
        messages = path / "store" / "messages"
        added = [action for day in range(days) for action in _day(messages, day, count // days, last=day == days - 1)]
        table = DeltaTable(messages)
        table.create_write_transaction(added, "append", table.schema(), ["inserted_date"])
        (path / "complete").touch()
    return path / "store"


def _day(messages: Path, number: int, count: int, *, last: bool) -> Iterator[AddAction]:
    day = FIRST_DAY + timedelta(days=number)
    folder = messages / f"inserted_date={day}"
    folder.mkdir()
    connection = duckdb.connect(config={"memory_limit": "6GB", "threads": 1})
    order = "global_position" if last else "stream_name, position"
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    values = {"first": number * count, "count": count, "start": start}
    groups = connection.execute(f"{_ROWS} order by {order}", values).to_arrow_reader(_GROUP)
    rows = pa.RecordBatchReader.from_batches(groups.schema, groups)
    files = -(-count // _FILE_ROWS)
    for file in range(files):
        path = folder / f"part-{file:05}.zstd.parquet"
        yield _written(path, rows, day)


def _written(path: Path, rows: pa.RecordBatchReader, day: date) -> AddAction:
    """The next rows in a file as the jobs write them."""
    schema = pa.schema([MESSAGES.field(name) for name in rows.schema.names])
    told = properties("messages")["delta.dataSkippingStatsColumns"].split(",")
    found: list[dict[str, Any]] = []
    count = 0
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        write_page_index=True,
        max_rows_per_page=_PAGE,
        use_dictionary=[name for name in schema.names if name not in UNREPEATED],
        dictionary_pagesize_limit=1 << 16,
        write_statistics=[name for name in schema.names if name != "payload"],
    ) as writer:
        while count < _FILE_ROWS and (batch := next(rows, None)) is not None:
            part = pa.Table.from_batches([batch]).cast(schema)
            writer.write_table(part)
            count += part.num_rows
            found.append({name: pc.min_max(part[name]).as_py() for name in told if name in schema.names})
    low = {name: _json(min(one[name]["min"] for one in found)) for name in found[0]}
    high = {name: _json(max(one[name]["max"] for one in found)) for name in found[0]}
    # Columns that the jobs would write as nulls are left out.
    nulls = {name: 0 if name in low else count for name in told}
    said = {"numRecords": count, "minValues": low, "maxValues": high, "nullCount": nulls}
    at = path.stat()
    name = f"{path.parent.name}/{path.name}"
    return AddAction(name, at.st_size, {"inserted_date": str(day)}, int(at.st_mtime * 1000), True, json.dumps(said))


def _json(value: Any) -> Any:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def main(
    messages: Annotated[int, typer.Option(help="How many the store holds.")] = 100_000_000,
    days: Annotated[int, typer.Option(help="Over how many days.")] = 20,
    streamed: Annotated[int, typer.Option(help="How many rows of a category are read at once.")] = 1_000_000,
    *,
    indexed: Annotated[bool, typer.Option("--indexed", help="Look an id up in an index too.")] = False,
) -> None:
    """Measure each read by the median of its repeats, without the first."""
    begin = time.perf_counter()
    store = store_of(messages, days)
    if (made := time.perf_counter() - begin) > 10:
        print(f"made in {made:.0f} s")  # noqa: T201
    table = Shown("read", "rows", "seconds", "of CPU", "rows a second of CPU")
    begin = time.perf_counter()
    reader = Reader(str(store))
    table.add_row("open", "", f"{time.perf_counter() - begin:.3f}")
    every = _reads(reader, messages, days, streamed)
    with _without_index(store):
        for name, read in every.items():
            table.add_row(name, *_row(read))
    if indexed:
        index_of(store)
        table.add_row("one by its id, by the index", *_row(every["one by its id"]))
    Console(width=120).print(table)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB, {os.cpu_count()} cores")  # noqa: T201


def index_of(store: Path) -> None:
    """Have the store's index of ids made, by a process of its own."""
    if not (store / INDEX / INDEX_MANIFEST).exists():
        code = (
            "import sys; from messagestore_core.store.fence import HeldStore; "
            "from messagestore_jobs.index.store_index import StoreIndex; "
            "from messagestore_jobs.session import local_session; "
            "StoreIndex(local_session(cores=2, memory='4g'), HeldStore(sys.argv[1])).save()"
        )
        subprocess.run([sys.executable, "-c", code, f"file://{store}"], check=True)


@contextmanager
def _without_index(store: Path) -> Iterator[None]:
    """Reads don't find the index that an earlier call made."""
    index, aside = store / INDEX, store.parent / "index"
    if index.exists():
        index.rename(aside)
    try:
        yield
    finally:
        if aside.exists():
            aside.rename(index)


def _row(read: Callable[[], int]) -> tuple[str, str, str, str]:
    seconds, cpu, rows = sorted(_measured(read) for _ in range(REPEATS + 1))[REPEATS // 2]
    return f"{rows:,}", f"{seconds:.3f}", f"{cpu:.3f}", f"{rows / cpu:,.0f}"


def _measured(read: Callable[[], int]) -> tuple[float, float, int]:
    begin, cpu = time.perf_counter(), time.process_time()
    rows = read()
    return time.perf_counter() - begin, time.process_time() - cpu, rows


def _reads(reader: Reader, messages: int, days: int, streamed: int) -> dict[str, Callable[[], int]]:
    day = messages // days
    over, today = (days - 1) // 2 * day + day // 2, messages - day + 1
    one = next(reader.get_category_messages("order", over, 1))

    def paged(position: int, count: int) -> int:
        """One call per page, like a consumer that keeps its position."""
        read = 0
        while read < count:
            page = reader.arrow.get_category_messages("order", position)
            position, read = page["global_position"][-1].as_py() + 1, read + page.num_rows
        return read

    def rows(category: str, position: int, count: int) -> int:
        asked = reads.category_messages(category, position, count, None, None, None, None)
        return sum(part.num_rows for part in reader.arrow.parts(asked))

    def objects(found: Iterator[Any]) -> int:
        return sum(1 for _ in found)

    def leaving() -> Leaving:
        return reader.leaving([Rule(name="old", max_age=timedelta(days=40))], as_of=END)

    return {
        "1,000 of the largest category, of a day that is over": lambda: rows("account", over, 1000),
        "1,000 of it, of today": lambda: rows("account", today, 1000),
        "1,000 of a tenth, of a day that is over": lambda: rows("order", over, 1000),
        "1,000 of a tenth, of today": lambda: rows("order", today, 1000),
        "1,000 of one in 20,000": lambda: rows("refund", 1, 1000),
        "40,000 of a tenth in pages of 1,000, of today": lambda: paged(today, 40_000),
        "40,000 of a tenth, of a day that is over": lambda: rows("order", over, 40_000),
        "streamed, of days that are over": lambda: rows("account", 1, streamed),
        "streamed, of today": lambda: rows("account", today, streamed),
        "streamed, of today, as messages": lambda: objects(reader.get_category_messages("account", today, streamed)),
        "a stream": lambda: objects(reader.get_stream_messages(one.stream_name)),
        "the newest ten of a category": lambda: len(reader.latest("order")),
        "one by its id": lambda: objects(iter([reader.get_message(one.message_id)])),
        "a correlation": lambda: objects(reader.load_for_correlation(one.correlation_id or "")),
        "the figures of a page": lambda: len(reader.overview().parts),
        "what a policy would remove in 30 days": lambda: sum(day.messages for day in leaving().days),
    }


if __name__ == "__main__":
    typer.run(main)
