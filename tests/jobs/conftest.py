"""One Spark session and one object store for all tests of the jobs: starting one takes longer than most tests."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from messagestore_jobs.session import local_session
from support import kafkabroker, keys
from support.objectstore import ENVIRONMENT, ObjectStore, running_object_store

# A test ends before a JVM's second compiler pays off: with only the first it takes half the time. A JVM with one
# compiler keeps 48 MiB of compiled code by default. The tests fill that in minutes; then the JVM spends two fifths of
# its time on making room.
COMPILE_ONCE = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m"}

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
# Compiling a plan takes longer than interpreting it over ten rows. One task is enough for the state of a small table.
# A job's process does one run; this one does thousands, and their plans would evict each other from a cache of 100.
SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.cache.maxEntries": "10000",
    "spark.databricks.delta.snapshotPartitions": "1",
}

# Set before the JVM starts, as it does not see later changes.
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
    """Compile plans, as a run does: for tests of the meaning of expressions."""
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    yield
    for name in COMPILED:
        spark.conf.set(name, SETTINGS[name])
