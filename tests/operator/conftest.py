"""One kube-apiserver with the three kinds and kubeflow's SparkApplication installed, for all tests of this folder."""

from collections.abc import Iterator
from itertools import count

import pytest

from support import sparkoperator
from support.apiserver import ApiServer, running_apiserver
from support.definitions import install_definitions
from support.fakespark import FakeSpark, fake_spark

_PLURALS = ("messagestreams", "retentionpolicies", "replayjobs")
_numbers = count()


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ApiServer]:
    with running_apiserver() as server:
        install_definitions(server)
        yield server


@pytest.fixture
def namespace(apiserver: ApiServer) -> Iterator[str]:
    """The test's own namespace, without resources and runs afterwards."""
    name = f"test-{next(_numbers)}"
    assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).accepted
    yield name
    kinds = [f"/apis/messagestore.dev/v1alpha1/namespaces/{name}/{plural}" for plural in _PLURALS]
    for path in (*kinds, sparkoperator.path(name), f"/api/v1/namespaces/{name}/configmaps"):
        apiserver.request("DELETE", path)


@pytest.fixture
def spark(apiserver: ApiServer, namespace: str) -> Iterator[FakeSpark]:
    """A Spark operator that runs nothing, and never saw two runs write one table."""
    with fake_spark(apiserver, namespace) as fake:
        yield fake
    assert (fake.problems, fake.overlaps) == ([], [])
