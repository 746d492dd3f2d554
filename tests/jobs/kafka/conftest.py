"""One broker for all tests of Kafka."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.kafkabroker import BOUND, BOUND_PASSWORD, PASSWORD, USER, Broker, running_broker
from support.kafkastreams import KafkaStream
from support.kafkatopics import Topics


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with running_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def topics(spark: SparkSession, broker: Broker) -> Topics:
    topics = Topics(spark, broker)
    topics.let_in(USER, PASSWORD)
    topics.let_in(BOUND, BOUND_PASSWORD)
    return topics


@pytest.fixture
def stream_of(spark: SparkSession, broker: Broker, tmp_path: Path) -> Callable[..., KafkaStream]:
    """A new stream that reads topics; other arguments are fields of its source."""

    def make(*names: str, **source: Any) -> KafkaStream:
        return KafkaStream(spark, tmp_path, source={"cluster": broker.cluster(), "topics": names, **source})

    return make
