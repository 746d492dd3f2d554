import subprocess
import sys
from collections.abc import Iterator

import pytest
from hack import kind

from support.kind import REPOSITORY, Cluster
from support.kind import cluster as running_cluster
from support.site import Site
from support.site import site as new_site


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--take-down", action="store_true", help="Take the cluster away again, where there was none.")


@pytest.fixture(scope="package")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster of these tests, with the operator: the first test creates it, and it stays for the next session."""
    goes = request.config.getoption("--take-down") and not kind.healthy()
    try:
        yield running_cluster()
    finally:
        if goes:
            subprocess.run([sys.executable, "-m", "hack.cluster", "down"], cwd=REPOSITORY, check=True)


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
    """This test's own namespace and bucket."""
    with new_site(cluster, request.node.name.removeprefix("test_")) as made:
        yield made
