"""One Spark session and one object store for all tests of the jobs: starting one takes longer than most of them."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from messagestore_jobs.session import local_session
from support import kafkabroker, keys
from support.objectstore import ENVIRONMENT, ObjectStore, running_object_store

# A test is over before the work of a JVM's second compiler has paid: with the first alone it takes half the time. A JVM
# with one compiler keeps 48 MiB of compiled code by default. The tests fill them in minutes, and from then on it spends
# two fifths of its time making room.
COMPILE_ONCE = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m"}

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
# To compile a plan takes longer than to interpret it over ten rows. One task puts the state of a small table together.
# A process of ours does one run; this one does thousands, whose plans drive each other out of a cache for a hundred.
SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.cache.maxEntries": "10000",
    "spark.databricks.delta.snapshotPartitions": "1",
}

# Before there is a JVM, which never hears of later changes.
os.environ.update(ENVIRONMENT | kafkabroker.ENVIRONMENT | keys.ENVIRONMENT | COMPILE_ONCE)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session(cores=2, memory="2g", settings=SETTINGS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    with running_object_store() as store:
        yield store


@pytest.fixture(scope="module")
def compiled(spark: SparkSession) -> Iterator[None]:
    """Plans are compiled, as those of a run are: for tests of what expressions mean."""
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    yield
    for name in COMPILED:
        spark.conf.set(name, SETTINGS[name])
