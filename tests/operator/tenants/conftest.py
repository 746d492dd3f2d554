"""Two tenants on a real API server, each an editor of one namespace, and an operator as the chart installs it.

A file's fixture `tenancy` has what its tests need in that part of the operator's settings, and its fixture `values` has
the chart's other values.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from support.apiserver import ApiServer
from support.tenants import Tenants, make_namespaces, served_tenants


@pytest.fixture(scope="module")
def namespaces(apiserver: ApiServer) -> list[str]:
    """The namespaces of the operator and of the two tenants."""
    return make_namespaces(apiserver)


@pytest.fixture(scope="module")
def tenancy() -> dict[str, Any]:
    """The operator's setting `tenancy`."""
    return {}


@pytest.fixture(scope="module")
def values() -> tuple[str, ...]:
    """The chart's values, as `name=value`."""
    return ()


@pytest.fixture(scope="module")
def tenants(
    apiserver: ApiServer,
    namespaces: list[str],
    tenancy: dict[str, Any],
    values: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Tenants]:
    with served_tenants(apiserver, namespaces, tmp_path_factory.mktemp("tenants"), tenancy, values) as found:
        yield found
