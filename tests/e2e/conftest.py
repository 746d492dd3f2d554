from collections.abc import Iterator

import pytest

from support.kind import Cluster
from support.kind import cluster as running_cluster
from support.site import Site
from support.site import site as new_site


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The one cluster of all tests, the operator in it: made by the first that needs it, left for the next session."""
    return running_cluster()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("e2e") as name:
        yield name


@pytest.fixture
def bucket(cluster: Cluster) -> Iterator[str]:
    with cluster.bucket("e2e") as name:
        yield name


@pytest.fixture
def site(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A namespace and a bucket of this test's own."""
    with new_site(cluster, request.node.name.removeprefix("test_")) as made:
        yield made
