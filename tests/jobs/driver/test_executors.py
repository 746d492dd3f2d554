"""Why a run has no executor, by what Spark warns of as it asks the API server for some."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from messagestore_core.contract.run_report import ExecutorsRefused
from messagestore_jobs.driver.executors import Executors

NOW = datetime(2026, 4, 6, tzinfo=UTC)
LOGGER = "org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshotsStoreImpl"
QUOTA = 'pods "orders-exec-{}" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1'
SAID = QUOTA.format("…")
CLIENT = "Failure executing: POST at: https://10.0.0.1/api. Message: {}. Received status: Status(code=403)."
"""As Spark's client words it."""


@pytest.fixture
def executors(spark: SparkSession) -> Iterator[Executors]:
    """Those of a session on this machine, which has none; each look is a second later."""
    seconds = count()
    watched = Executors(lambda: NOW + timedelta(seconds=next(seconds)))
    watched.watch(spark)
    yield watched
    logger(spark).removeAppender(logger(spark).getAppenders().get(LOGGER))


def logger(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.logging.log4j.LogManager.getLogger(LOGGER)


def warn(spark: SparkSession, number: int) -> None:
    jvm: Any = spark._jvm
    refused = jvm.io.fabric8.kubernetes.client.KubernetesClientException(CLIENT.format(QUOTA.format(number)))
    logger(spark).warn("Exception when notifying snapshot subscriber.", refused)


def test_executors_that_nobody_refused_are_not_refused(executors: Executors) -> None:
    assert executors.refused() is None


def test_a_refusal_is_told_since_the_first_in_the_api_servers_words(executors: Executors, spark: SparkSession) -> None:
    for number in range(1, 5):
        warn(spark, number)
        assert executors.refused() == ExecutorsRefused(since=NOW, message=SAID)
    assert executors.refused() == ExecutorsRefused(since=NOW, message=SAID)


def test_a_refusal_ends_with_the_first_executor(
    executors: Executors, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    warn(spark, 1)
    assert executors.refused() is not None
    with monkeypatch.context() as there_is_one:
        there_is_one.setattr(Executors, "_exist", staticmethod(lambda spark: True))
        assert executors.refused() is None
    warn(spark, 2)
    assert executors.refused() == ExecutorsRefused(since=NOW + timedelta(seconds=1), message=SAID)


def test_nothing_is_refused_before_spark_has_started() -> None:
    assert Executors(lambda: NOW).refused() is None


def test_nothing_is_refused_once_spark_has_ended(
    executors: Executors, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(spark: SparkSession) -> bool:
        raise Py4JError("the JVM has gone")

    warn(spark, 1)
    monkeypatch.setattr(Executors, "_exist", staticmethod(ended))
    assert executors.refused() is None
