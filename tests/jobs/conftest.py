"""One Spark session for all tests of the jobs: starting one takes longer than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from messagestore_jobs.session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session(cores=2, memory="2g")
    yield session
    session.stop()
