"""One kube-apiserver with the three kinds and kubeflow's SparkApplication installed, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from support.apiserver import ApiServer, running_apiserver
from support.definitions import install_definitions


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ApiServer]:
    with running_apiserver() as server:
        install_definitions(server)
        yield server
