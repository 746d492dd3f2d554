"""A batch that was planned and cut off is read again as planned, if it is of this source."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource, KafkaCluster, KafkaSource
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import FILES, OFFSETS
from messagestore_jobs.context import Run
from messagestore_jobs.source.file_arrivals import FileArrivals
from messagestore_jobs.source.kafka_arrivals import KafkaArrivals
from support.stores import make_store

AT = datetime(2026, 1, 5, tzinfo=UTC)
CLUSTER = KafkaCluster(bootstrap_servers="127.0.0.1:9092")


def java_matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def namespace(path: str, value: Callable[..., Any]) -> SimpleNamespace:
    name, _, rest = path.partition(".")
    return SimpleNamespace(**{name: namespace(rest, value) if rest else value})


SPARK: Any = SimpleNamespace(_jvm=namespace("java.util.regex.Pattern.matches", java_matches))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_store(tmp_path / "store", [])


def planned(table: Table, name: str, schema: pa.Schema, **row: Any) -> None:
    full = {"source_id": "own", "batch": 1, "at": AT, "start": 0, "end": 9, **row}
    write_deltalake(Store(table.uri).table(name), pa.Table.from_pylist([full], schema=schema), mode="append")


def arrivals(table: Table, source: FilesSource | KafkaSource) -> FileArrivals | KafkaArrivals:
    task = IngestTask(source_id="own", source=source)
    resource = Resource(kind="MessageStream", namespace="default", name="orders")
    document = RunDocument(run="run", resource=resource, table=table, at=AT, task=task)
    if isinstance(source, KafkaSource):
        return KafkaArrivals(Run.of(document, SPARK, Silent()), task, source)
    return FileArrivals(Run.of(document, SPARK, Silent()), task, source)


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "file:///landing/../etc/passwd", "s3a://other/landing/a"])
def test_a_planned_file_outside_of_the_source_is_refused(table: Table, uri: str) -> None:
    planned(table, "files", FILES, uri=uri, size=9, modified_at=AT)

    with pytest.raises(TableRefusedError, match=r"store/files says that batch 1 reads .* not below file:///landing"):
        arrivals(table, FilesSource(uri="file:///landing")).uncommitted()


def test_a_planned_file_of_the_source_is_read(table: Table) -> None:
    planned(table, "files", FILES, uri="file:///landing/a", size=9, modified_at=AT)

    due = arrivals(table, FilesSource(uri="file:///landing/")).uncommitted()

    assert due is not None


@pytest.mark.parametrize(
    "source", [KafkaSource(cluster=CLUSTER, topics=("orders",)), KafkaSource(cluster=CLUSTER, topic_pattern="ord.*")]
)
def test_no_topic_of_others_is_read_for_a_plan(table: Table, source: KafkaSource) -> None:
    planned(table, "offsets", OFFSETS, topic="orders", topic_id="i", partition=0, latest=9)
    assert arrivals(table, source).uncommitted() is not None
    planned(table, "offsets", OFFSETS, topic="salaries", topic_id="i", partition=0, latest=9)

    with pytest.raises(TableRefusedError, match="store/offsets says that batch 1 reads topic salaries"):
        arrivals(table, source).uncommitted()
