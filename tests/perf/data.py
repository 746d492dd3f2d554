"""Inputs of the benchmarks: records, and stores of any size with the messages before them. Made once, then kept.

Message n has an id, stream and payload that depend only on n, so that two sides can be compared row by row.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import EraseTask, PurgeTask
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import MaintainTask, Resource, RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.delta_log import CommitNote
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.maintain import run_maintain
from messagestore_jobs.rows.messages import committing
from messagestore_jobs.session import SETTINGS

STREAMS = 100_000
SPECIAL = "account-special"
"""A stream of a thousand messages in ten million."""
DAYS = 20
OWNER = Owner(namespace="perf", name="perf")


def folder() -> Path:
    """Where the inputs are kept between runs: outside the work tree."""
    cache = os.environ.get("MESSAGESTORE_CACHE") or Path.home() / ".cache" / "message-store-operator"
    path = Path(cache) / "perf"
    path.mkdir(parents=True, exist_ok=True)
    return path


_ID = "concat_ws('-', substr(h,1,8), substr(h,9,4), substr(h,13,4), substr(h,17,4), substr(h,21,12))"
_STREAM = f"case when n % 10000 = 7 then '{SPECIAL}' else 'account-' || (n * 7919 % {STREAMS}) end"
# No number here ends in 0: DuckDB rewrites such numbers, and the comparison is byte by byte.
PAYLOAD = """'{"seq":' || n || ',"amount":' || (n * 37 % 100000) || '.25,"currency":"EUR",'
 || '"customer":{"name":"Customer ' || (n % 5000) || '","segment":"retail","tags":["a","b","c"]},"note":"'
 || md5('x' || n) || md5('y' || n) || '","lines":[{"sku":"' || substr(md5('s' || n), 1, 10)
 || '","qty":' || (n % 9) || '}]}'"""


def records(count: int, first: int, seed: int) -> Path:
    """``count`` lines from message ``first`` on; 1 % repeat another message, 0.1 % are cut in half.

    Half of the repeated ones are from this file, half from the hundred thousand messages that every base has.
    """
    path = folder() / "records" / f"{count}-{first}-{seed}" / "records.jsonl"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    number = f"""case when u < 50 and i > 10 then {first} + i - 1 - v % 10
      when u < 100 then (v % 100000)::bigint else {first} + i end"""
    record = f"""'{{"id":"' || {_ID} || '","entity":"' || {_STREAM} || '","event":"Category' || (n % 20)
      || 'Changed","received_at":"2026-11-' || lpad((1 + n % 20)::varchar, 2, '0') || 'T10:'
      || lpad((n % 60)::varchar, 2, '0') || ':00.123Z","headers":{{"correlation_id":"' || substr(md5('c' || n), 1, 16)
      || '","trace":"' || substr(md5('t' || n), 1, 16) || '"}},"body":' || {PAYLOAD} || '}}'"""
    connection.execute(
        f"""copy (select case when u between 100 and 109 then left(line, 150 + (v % 200)::int) else line end from (
              select i, u, v, {record} line from (select *, md5('m' || n) h from (
                select *, {number} n from (
                  select i, hash(i * 31 + {seed}) % 10000 u, hash(i * 17 + {seed}) v from range({count}) t(i)))))
            order by i) to '{path}' (format csv, header false, quote '', escape '', delimiter E'\\x01')"""
    )
    return path


def base(session: Callable[[], SparkSession], count: int) -> Path:
    """A store with messages 0 to ``count`` - 1, ingested over DAYS days; copy it before writing.

    Written as the jobs write today: other settings make another store.
    """
    settings = hashlib.sha256(json.dumps(SETTINGS, sort_keys=True).encode()).hexdigest()
    path = folder() / f"base-{count}-{settings[:8]}-indexed"
    if (path / "complete").exists():
        return path / "store"
    shutil.rmtree(path, ignore_errors=True)
    spark = session()
    uri = f"file://{path}/store"
    open_folder(HeldStore.of(Table(uri=uri, owner=OWNER), Storage()))
    numbered = spark.range(0, count, 1, max(4, count // 250_000)).selectExpr("id n", "md5('m' || id) h")
    day = f"timestamp'2026-10-01' + make_dt_interval(0, 0, 0, n * {DAYS * 86400} div {count})"
    rows = numbered.selectExpr(
        f"{_ID} message_id",
        f"{_STREAM} stream_name",
        "'account' category",
        f"if(n % 10000 = 7, n div 10000, n div {STREAMS}) position",
        "n + 1 global_position",
        "'Category' || (n % 20) || 'Changed' type",
        "substr(md5('c' || n), 1, 16) correlation_id",
        "map('correlation_id', substr(md5('c' || n), 1, 16), 'trace', substr(md5('t' || n), 1, 16)) headers",
        f"cast({PAYLOAD} as binary) payload",
        f"{day} inserted_at",
    ).selectExpr(
        "*",
        "'application/json' content_type",
        "cast(octet_length(payload) as bigint) payload_size",
        "sha2(payload, 256) payload_sha256",
        "'RECEIVED' status",
        "0 retries",
        "inserted_at time",
        "to_date(inserted_at) inserted_date",
    )
    store = HeldStore(uri)
    store.table("messages")
    with committing(spark, store, "base", CommitNote(run="perf")):
        rows.sortWithinPartitions("stream_name", "position").write.format("delta").mode("append").save(
            f"{uri}/messages"
        )
    StoreIndex(spark, store).save()
    (path / "complete").write_text(json.dumps({"messages": count}))
    return path / "store"


def maintained(session: Callable[[], SparkSession], count: int) -> Path:
    """Like :func:`base`, after its days and a maintenance; only for reading."""
    store = base(session, count)
    path = store.parent / "maintained"
    if not (store.parent / "maintenance-done").exists():
        run_maintain(Run.of(document(copy(store, path), MaintainTask()), session(), Silent()))
        (store.parent / "maintenance-done").touch()
    return path


def document(
    uri: str, task: EraseTask | IngestTask | MaintainTask | PurgeTask | ReplayTask, at: datetime | None = None
) -> RunDocument:
    """The document of a run on a store, at a time or now."""
    resource = Resource(kind="MessageStream", namespace="perf", name="perf")
    return RunDocument(run="perf", resource=resource, table=Table(uri=uri, owner=OWNER), at=at, task=task)


def copy(store: Path, to: Path) -> str:
    """A copy for writing: data files never change in place, so they are hard links."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(store, to, copy_function=os.link)
    for log in to.glob("*/_delta_log"):
        shutil.rmtree(log)
        shutil.copytree(store / log.relative_to(to), log)
    # Upgrades a base that an earlier release made, as a run would.
    open_folder(HeldStore.of(Table(uri=f"file://{to}", owner=OWNER), Storage()))
    return f"file://{to}"
