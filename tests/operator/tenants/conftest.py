"""Two tenants on a real API server, each an editor of one namespace, and an operator as the chart installs it.

What a file's tests need of `tenancy` in the operator's settings it says with a fixture of that name.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from support.apiserver import ApiServer
from support.tenants import Tenants, served_tenants


@pytest.fixture(scope="module")
def tenancy() -> dict[str, Any]:
    """The operator's settings of this name."""
    return {}


@pytest.fixture(scope="module")
def tenants(
    apiserver: ApiServer, tenancy: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenants]:
    with served_tenants(apiserver, tmp_path_factory.mktemp("tenants"), tenancy) as found:
        yield found
