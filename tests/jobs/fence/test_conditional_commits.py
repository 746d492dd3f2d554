"""Two writers of one version on object storage: the second commit never overwrites the first."""

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import Row, SparkSession

from messagestore_core.store.storage import Storage
from messagestore_jobs.session import using
from support.interception import Interception, intercepting
from support.long import few
from support.objectstore import ObjectStore

LOG = "/_delta_log/00000000000000000001.json"


class Lake:
    """A Delta table that Spark reaches through an intercepting proxy, and delta-rs directly."""

    def __init__(self, spark: SparkSession, store: ObjectStore, bucket: str, way: Interception) -> None:
        self.spark, self.way = spark, way
        self.path = f"/{bucket}/table{LOG}"
        self._uri = f"{bucket}/table"
        self._options = Storage([store.entry(bucket)]).delta_options(f"s3a://{self._uri}")

    def spark_append(self, *ids: int) -> None:
        rows = self.spark.createDataFrame([(one,) for one in ids], "id long")
        rows.coalesce(1).write.format("delta").mode("append").save(f"s3a://{self._uri}")

    def read(self) -> list[Row]:
        return self.spark.read.format("delta").load(f"s3a://{self._uri}").collect()

    def rust_append(self, *ids: int) -> None:
        rows = pa.table({"id": pa.array(ids, pa.int64())})
        write_deltalake(f"s3://{self._uri}", rows, mode="append", storage_options=self._options)

    def table(self) -> DeltaTable:
        return DeltaTable(f"s3://{self._uri}", storage_options=self._options)

    def ids(self) -> list[int]:
        return sorted(self.table().to_pyarrow_table()["id"].to_pylist())

    def log_store(self) -> Any:
        jvm = self.spark._jvm
        configuration = self.spark._jsparkSession.sessionState().newHadoopConf()
        return jvm.dev.messagestore.spark.ConditionalLogStore(configuration), configuration

    def commit(self, version: int, text: str) -> None:
        store, configuration = self.log_store()
        actions = self.spark._jvm.java.util.ArrayList()
        actions.add(text)
        path = self.spark._jvm.org.apache.hadoop.fs.Path(f"s3a://{self._uri}/_delta_log/{version:020d}.json")
        store.write(path, actions.iterator(), False, configuration)


@pytest.fixture
def lake(spark: SparkSession, object_store: ObjectStore) -> Iterator[Lake]:
    bucket = f"commits-{uuid4().hex}"
    object_store.make_bucket(bucket)
    with intercepting(object_store.endpoint) as way:
        entry = object_store.entry(bucket).model_copy(update={"endpoint": way.endpoint})
        with using([entry], spark):
            lake = Lake(spark, object_store, bucket, way)
            lake.spark_append(1)
            yield lake


def test_sessions_create_commits_on_s3_conditionally(spark: SparkSession) -> None:
    assert spark.conf.get("spark.delta.logStore.s3a.impl") == "dev.messagestore.spark.ConditionalLogStore"


def test_an_object_in_a_folder_of_the_log_is_no_commit(lake: Lake, object_store: ObjectStore) -> None:
    object_store.put(f"{lake.path[1:].removesuffix(LOG)}/_delta_log/x/{1:020d}.json", b"{}")
    object_store.put(f"{lake.path[1:].removesuffix(LOG)}/_delta_log/x/{7:020d}.json", b"{}")
    lake.spark_append(2)
    assert lake.ids() == [1, 2]
    lake.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert sorted(row.id for row in lake.read()) == [1, 2]


@pytest.mark.parametrize("other", [Lake.spark_append, Lake.rust_append])
@pytest.mark.parametrize("again", few(range(3), 0))
def test_a_commit_that_was_overtaken_takes_the_next_version(lake: Lake, other: Callable[..., None], again: int) -> None:
    lake.way.before(f"PUT {lake.path}", lambda: other(lake, 3))
    lake.spark_append(2)
    assert not lake.way.armed
    assert lake.table().version() == 2
    assert lake.ids() == [1, 2, 3]


def test_a_conflict_of_what_was_read_fails_the_second_writer(lake: Lake) -> None:
    overwrite = lake.spark.createDataFrame([(9,)], "id long").coalesce(1).write.format("delta").mode("overwrite")
    lake.way.before(f"PUT {lake.path}", lambda: lake.table().delete())
    with pytest.raises(Exception, match="DELTA_CONCURRENT"):
        overwrite.option("replaceWhere", "id = 1 or id = 9").save(f"s3a://{lake.path[1:].removesuffix(LOG)}")
    assert not lake.way.armed
    assert lake.ids() == []


def test_a_version_is_written_once_whoever_is_first(lake: Lake) -> None:
    outcomes: list[str] = []

    def write(number: int) -> None:
        try:
            lake.commit(7, f'{{"commitInfo":{{"operation":"{number}"}}}}')
            outcomes.append(f"{number}")
        except Exception as error:
            outcomes.append("refused" if "FileAlreadyExistsException" in str(error) else str(error))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("refused") == 7
    (winner,) = (one for one in outcomes if one != "refused")
    store, configuration = lake.log_store()
    path = lake.spark._jvm.org.apache.hadoop.fs.Path(
        f"s3a://{lake.path[1:].replace(LOG, '/_delta_log/00000000000000000007.json')}"
    )
    assert f'"operation":"{winner}"' in store.read(path, configuration).next()


def test_a_commit_whose_answer_was_lost_is_no_conflict(lake: Lake) -> None:
    """The same bytes at the same version are this commit itself."""
    for _ in range(2):
        lake.commit(7, '{"commitInfo":{"operation":"mine"}}')
    with pytest.raises(Exception, match="FileAlreadyExistsException"):
        lake.commit(7, '{"commitInfo":{"operation":"other"}}')


def test_many_writers_at_once_lose_nothing(lake: Lake) -> None:
    failed: list[BaseException] = []

    def append(ids: range) -> None:
        try:
            for one in ids:
                lake.spark_append(one)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=append, args=(range(10 * i, 10 * i + 3),)) for i in range(1, 4)]
    for thread in threads:
        thread.start()
    for one in range(100, 106):
        lake.rust_append(one)
    for thread in threads:
        thread.join()
    assert failed == []
    assert lake.ids() == [1, 10, 11, 12, 20, 21, 22, 30, 31, 32, *range(100, 106)]
    assert lake.table().version() == 15
