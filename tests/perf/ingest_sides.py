"""The sides of the ingest benchmark. Each ingests the same files into a copy of the same store; each is timed alone."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.perf import data

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import Envelope, FieldMapping, FilesSource
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.progress import Silent
from messagestore_core.store.schemas import DEAD_LETTERS, MESSAGES
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.job import run_ingest


@dataclass(frozen=True)
class Timed:
    """Seconds: for opening the store, once per run, and for each batch."""

    opening: float
    batches: list[float]


Side = Callable[[SparkSession | None, str, list[Path]], Timed]
"""Ingests files into the store, one batch each."""

PATHS = {
    "messageId": "$.id",
    "streamName": "$.entity",
    "type": "$.event",
    "correlationId": "$.headers.correlation_id",
    "time": "$.received_at",
    "headers": "$.headers",
    "payload": "$.body",
}


class _Batches(Silent):
    """Records when the store is open, and when each batch ends."""

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.ends: list[float] = []

    def step(self, name: str, total: int | None = None) -> None:
        if name == "ingest":
            self.ends.append(time.perf_counter())

    def advance(self, done: int) -> None:
        self.ends.append(time.perf_counter())


def store(spark: SparkSession | None, uri: str, files: list[Path]) -> Timed:
    """This project."""
    assert spark is not None
    return store_from(spark, arrived(uri, files), Storage())


def arrived(uri: str, files: list[Path]) -> RunDocument:
    """The document of a run for which these files have arrived; each is a batch."""
    landing = Path(uri.removeprefix("file://") + "-landing")
    landing.mkdir()
    for i, file in enumerate(files):
        (landing / f"{i:03}.jsonl").hardlink_to(file)
    return document(uri, f"file://{landing}")


def document(uri: str, landing: str) -> RunDocument:
    """The document of a run that reads a folder; each file is a batch."""
    task = IngestTask(
        source_id="perf",
        source=FilesSource(uri=landing, max_files_per_batch=1),
        envelope=Envelope(format="Custom", fields={n: FieldMapping(path=p) for n, p in PATHS.items()}),
    )
    return data.document(uri, task)


def store_from(spark: SparkSession, document: RunDocument, storage: Storage) -> Timed:
    """This project, by a run's document."""
    heard = _Batches()
    run_ingest(Run.of(document, spark, heard, storage))
    return Timed(heard.ends[0] - heard.begun, np.diff(heard.ends).tolist())


def append(spark: SparkSession | None, uri: str, files: list[Path]) -> Timed:
    """Spark by itself: read, parse and append the same records, without deduplication or positions."""
    schema = "id string, entity string, event string, received_at string, headers map<string,string>, body string"
    seconds = []
    for file in files:
        start = time.perf_counter()
        cut = max(1 << 20, min(64 << 20, file.stat().st_size // 2 + 1))
        spark.conf.set("spark.sql.files.maxPartitionBytes", cut)
        read = (
            spark.read.schema(schema + ", broken string")
            .option("columnNameOfCorruptRecord", "broken")
            .json(f"file://{file}")
        )
        values = {
            "message_id": F.col("id"),
            "stream_name": F.col("entity"),
            "category": F.substring_index("entity", "-", 1),
            "position": F.lit(0).cast("bigint"),
            "global_position": F.monotonically_increasing_id(),
            "type": F.col("event"),
            "correlation_id": F.col("headers")["correlation_id"],
            "headers": F.col("headers"),
            "payload": F.col("body").cast("binary"),
            "content_type": F.lit("application/json"),
            "payload_size": F.octet_length("body").cast("bigint"),
            "payload_sha256": F.sha2("body", 256),
            "status": F.lit("RECEIVED"),
            "retries": F.lit(0),
            "time": F.col("received_at").cast("timestamp"),
            "inserted_at": F.current_timestamp(),
            "inserted_date": F.current_date(),
        }
        rows = read.where("broken is null").select(*(column.alias(name) for name, column in values.items()))
        rows.write.format("delta").mode("append").save(f"{uri}/messages")
        seconds.append(time.perf_counter() - start)
    return Timed(0, seconds)


def script(spark: SparkSession | None, uri: str, files: list[Path]) -> Timed:
    """The same work with DuckDB and delta-rs in one script: deduplication, positions, digests, dead letters."""
    connection = duckdb.connect()
    connection.execute("set threads = 2; set timezone = 'UTC'")
    path = uri.removeprefix("file://")
    start = time.perf_counter()
    held = DeltaTable(f"{path}/messages").file_uris()
    connection.execute("create table ids as select message_id from read_parquet(?)", [held])
    connection.execute(
        "create table heads as select stream_name, max(position) + 1 next from read_parquet(?) group by 1", [held]
    )
    following = connection.execute("select max(global_position) + 1 from read_parquet(?)", [held]).fetchone()[0]
    opening = time.perf_counter() - start
    seconds = []
    for number, file in enumerate(files):
        start = time.perf_counter()
        following = _script_batch(connection, path, file, number, following)
        seconds.append(time.perf_counter() - start)
    return Timed(opening, seconds)


_FIELDS = (
    '{"id":"VARCHAR","entity":"VARCHAR","event":"VARCHAR","received_at":"VARCHAR",'
    '"headers":"MAP(VARCHAR,VARCHAR)","body":"JSON"}'
)


def _script_batch(connection: duckdb.DuckDBPyConnection, path: str, file: Path, number: int, following: int) -> int:
    connection.execute(
        f"""create or replace temp table lines as select line, row_number() over () ix, case when json_valid(line)
              then from_json(line, '{_FIELDS}') end j
            from read_csv('{file}', columns = {{'line': 'VARCHAR'}}, delim = '\x01', quote = '', escape = '',
                          header = false, auto_detect = false)"""
    )
    once = CommitProperties(app_transactions=[Transaction("perf", number)])
    dead = connection.execute("select line::blob raw, ix from lines where j is null").to_arrow_table()
    at = pa.scalar(time.time_ns() // 1000, pa.timestamp("us", "UTC"))
    columns = [
        dead["raw"] if f.name == "raw"
        else pa.repeat("Unparseable", dead.num_rows) if f.name == "reason"
        else pa.repeat(at, dead.num_rows) if f.name == "failed_at"
        else pa.nulls(dead.num_rows, f.type)
        for f in DEAD_LETTERS
    ]  # fmt: skip
    write_deltalake(
        f"{path}/dead_letters", pa.table(columns, schema=DEAD_LETTERS), mode="append", commit_properties=once
    )
    connection.execute(
        """create or replace temp table kept as select * from (
             select *, row_number() over (partition by j.id order by ix) again from lines where j is not null)
           where again = 1 and j.id not in (select message_id from ids)"""
    )
    rows = connection.execute(
        f"""select k.j.id message_id, k.j.entity stream_name, split_part(k.j.entity, '-', 1) category,
              coalesce(h.next, 0) + row_number() over (partition by k.j.entity order by ix) - 1 "position",
              {following} + row_number() over (order by ix) - 1 global_position, k.j.event "type",
              k.j.headers['correlation_id'] correlation_id, k.j.headers headers, k.j.body::varchar::blob payload,
              'application/json' content_type, strlen(k.j.body::varchar) payload_size,
              sha256(k.j.body::varchar) payload_sha256, 'RECEIVED' status, 0::int retries,
              k.j.received_at::timestamptz "time", now() inserted_at, current_date inserted_date
            from kept k left join heads h on h.stream_name = k.j.entity"""
    ).to_arrow_reader(100_000)
    write_deltalake(f"{path}/messages", _full(rows), mode="append", commit_properties=once)
    connection.execute("insert into ids select j.id from kept")
    connection.execute(
        """create or replace table heads as select stream_name, max(next) next from (select * from heads union all
             select k.j.entity, coalesce(h.next, 0) + count(*) from kept k
             left join heads h on h.stream_name = k.j.entity group by 1, h.next) group by 1"""
    )
    return following + connection.execute("select count(*) from kept").fetchone()[0]


def _full(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """All columns of a message, as the table has them."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            have = set(batch.schema.names)
            columns = [
                batch[f.name].cast(f.type) if f.name in have else pa.nulls(batch.num_rows, f.type) for f in MESSAGES
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=MESSAGES)

    return pa.RecordBatchReader.from_batches(MESSAGES, batches())


SIDES: dict[str, Side] = {"store": store, "append": append, "script": script}
