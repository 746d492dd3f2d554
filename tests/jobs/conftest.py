"""One Spark session and one object store for all tests of the jobs: starting one takes longer than most tests."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DatetimeConverter, TimestampType

from messagestore_jobs.index import store_index
from messagestore_jobs.session import FEW_ROWS, local_session
from support import kafkabroker, keys
from support.indexes import OFTEN
from support.local_runs import LocalRuns
from support.objectstore import ENVIRONMENT, ObjectStore, running_object_store

# A JVM with only its first compiler takes half the time for a few files of tests. For all of them the second one pays
# off, if it compiles no more than what is called all the time. By default a JVM with one compiler keeps 48 MiB of
# compiled code. The tests fill that in minutes; then the JVM spends two fifths of its time on making room.
_OPTIONS, _CODE = "JDK_JAVA_OPTIONS", "-XX:ReservedCodeCacheSize=512m"
ONE_COMPILER = {_OPTIONS: f"{_CODE} -XX:TieredStopAtLevel=1"}
BOTH_COMPILERS = (
    f"{_CODE} -XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
MANY_FILES = 100

COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}
# Tests have few rows. One task is enough for the state of a small table.
# A job's process does one run; this one does thousands, and their plans would evict each other from a cache of 100.
SETTINGS = {
    **FEW_ROWS,
    "spark.sql.codegen.cache.maxEntries": "10000",
    "spark.databricks.delta.snapshotPartitions": "1",
}

# Set before the JVM starts, as it does not see later changes.
os.environ.update(ENVIRONMENT | kafkabroker.ENVIRONMENT | keys.ENVIRONMENT | ONE_COMPILER)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    files = {item.path for item in request.session.items if item.path.is_relative_to(Path(__file__).parent)}
    with pytest.MonkeyPatch.context() as patch:
        if len(files) > MANY_FILES:
            patch.setenv(_OPTIONS, BOTH_COMPILERS)
        session = local_session(cores=2, memory="2g", settings=SETTINGS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    with running_object_store() as store:
        yield store


@pytest.fixture(scope="module")
def compiled(spark: SparkSession) -> Iterator[None]:
    """Compile plans, as a run over many rows does: for tests of the meaning of expressions."""
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    yield
    for name in COMPILED:
        spark.conf.set(name, SETTINGS[name])


@pytest.fixture
def local_run(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> LocalRuns:
    """Local runs on the shared session."""
    return LocalRuns(tmp_path / "manifests", spark, monkeypatch)


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """A fresh folder for each example."""
    return (tmp_path / str(n) for n in range(1_000_000))


@pytest.fixture
def index_merged_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an index write, and merge, sorted runs after few ids."""
    for name, value in OFTEN.items():
        monkeypatch.setattr(store_index, name, value)


@pytest.fixture(scope="session", autouse=True)
def no_job_takes_a_time_by_the_zone_of_its_process() -> Iterator[None]:
    """Fail a job that collects a timestamp as a ``datetime``, or makes a literal of one; tests may."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((TimestampType, "fromInternal"), (DatetimeConverter, "convert")):
            patch.setattr(owner, name, _of_tests_only(getattr(owner, name)))
        yield


def _of_tests_only(convert: Callable[..., Any]) -> Callable[..., Any]:
    def converted(*given: Any) -> Any:
        frame = sys._getframe()
        while frame := frame.f_back:
            name = str(frame.f_globals.get("__name__"))
            assert not name.startswith("messagestore_jobs"), f"{name} makes a datetime by the zone of its process"
            if name.startswith("support.") or "/tests/" in frame.f_code.co_filename:
                break
        return convert(*given)

    return converted
