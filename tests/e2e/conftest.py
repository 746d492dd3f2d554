from collections.abc import Iterator

import pytest

from support.kind import Cluster
from support.kind import cluster as running_cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The one cluster of all tests: made by the first that needs it, left running for the next session."""
    return running_cluster()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("e2e") as name:
        yield name


@pytest.fixture
def bucket(cluster: Cluster) -> Iterator[str]:
    with cluster.bucket("e2e") as name:
        yield name
