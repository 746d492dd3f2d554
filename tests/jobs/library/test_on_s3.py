"""Writing and reading on an S3 server, with credentials from the environment alone."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from messagestore.errors import StorageError, StoreNotFoundError
from messagestore.reader import Reader
from messagestore.snapshot import Snapshot
from messagestore.writer import Writer
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.storage import Storage
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.index.store_index import StoreIndex
from support.objectstore import ACCESS_KEY, SECRET_KEY, WRONG, ObjectStore

AT = datetime(2026, 4, 6, tzinfo=UTC)


@pytest.fixture(scope="module")
def ingest(spark: SparkSession, object_store: ObjectStore) -> Callable[[], str]:
    """Creates a landing bucket and a store's bucket; each call ingests what has landed, and returns the store's URI."""
    lake, landing = object_store.make_bucket("library-lake"), object_store.make_bucket("library-landing")

    def run() -> str:
        document = RunDocument(
            run="run-1",
            resource=Resource(kind="MessageStream", namespace="default", name="orders"),
            table=Table(uri=f"{lake}/orders", owner=Owner(namespace="default", name="orders")),
            at=AT,
            storage=(object_store.entry("library-lake"), object_store.entry("library-landing")),
            task=IngestTask(source_id="landing", source=FilesSource(uri=f"{landing}/orders/"), claim_check_bytes=1000),
        )
        report = execute(document, lambda: spark, Silent(), 0, lambda: AT)
        assert report.error is None
        return document.table.uri

    return run


def test_what_is_written_is_read(object_store: ObjectStore, ingest: Callable[[], str]) -> None:
    with Writer("s3a://library-landing/orders/", storage=[object_store.entry("library-landing")]) as writer:
        writer.write_message("m1", "order-1", "Placed", {"n": 1})
        writer.write_message("m2", "order-1", "Placed", "x" * 2000)
    uri = ingest()

    with Reader(uri, storage=[object_store.entry("library-lake")]) as store:
        found = list(store.get_stream_messages("order-1"))

    assert [m.json() for m in found] == [{"n": 1}, "x" * 2000]
    assert found[1].payload_uri is not None
    assert len(object_store.names("library-landing/orders")) == 1


def test_the_environment_says_how_to_reach_a_bucket(
    object_store: ObjectStore, ingest: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = ingest()
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_store.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)

    with Reader(uri) as store:
        assert [m.message_id for m in store.get_stream_messages("order-1")] == ["m1", "m2"]


def test_an_id_is_looked_up_in_the_index(
    object_store: ObjectStore, ingest: Callable[[], str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, entry = ingest(), object_store.entry("library-lake")
    StoreIndex(spark, HeldStore(uri, Storage([entry]))).save()
    monkeypatch.delattr(Snapshot, "pages")

    with Reader(uri, storage=[entry]) as store:
        (found,) = store.outcome("m2")
        assert found.position == 1


def test_wrong_credentials_and_missing_stores_are_told_apart(
    object_store: ObjectStore, ingest: Callable[[], str]
) -> None:
    uri = ingest()

    with pytest.raises(StorageError):
        Reader(uri, storage=[object_store.entry("library-lake", WRONG)])
    with pytest.raises(StoreNotFoundError, match="is no message store"):
        Reader("s3a://library-lake/nowhere", storage=[object_store.entry("library-lake")])
