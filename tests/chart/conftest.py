"""A kube-apiserver with three namespaces, before the chart is installed."""

from collections.abc import Iterator

import pytest

from support.apiserver import ApiServer, running_apiserver
from support.helm import NAMESPACE

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ApiServer]:
    with running_apiserver() as server:
        for name in (NAMESPACE, "billing", "shipping"):
            namespace = {"metadata": {"name": name, "labels": RESTRICTED}}
            answer = server.request("POST", "/api/v1/namespaces", namespace)
            assert answer.accepted, answer.body
        yield server
