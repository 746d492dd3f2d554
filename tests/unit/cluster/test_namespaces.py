"""Which namespaces can take new runs."""

import asyncio
from typing import Any

from messagestore_operator.cluster.surroundings import Namespaces


class _Client:
    """An API server with one namespace; counts requests."""

    def __init__(self) -> None:
        self.phase, self.asked = "Active", 0
        self.annotations: dict[str, str] = {}

    async def find(self, path: str) -> dict[str, Any]:
        self.asked += 1
        return {"metadata": {"annotations": self.annotations}, "status": {"phase": self.phase}}


def test_a_namespace_that_was_made_again_is_seen_at_once() -> None:
    client: Any = _Client()
    namespaces = Namespaces(client)
    client.phase = "Terminating"
    assert asyncio.run(namespaces.terminating("demo"))
    client.phase = "Active"
    assert not asyncio.run(namespaces.terminating("demo"))


def test_a_namespace_that_is_well_is_not_asked_for_again_and_again() -> None:
    client: Any = _Client()
    namespaces = Namespaces(client)
    assert [asyncio.run(namespaces.terminating("demo")) for _ in range(3)] == [False] * 3
    assert client.asked == 1
    namespaces.note("demo", unwell=True)
    client.phase = "Terminating"
    assert asyncio.run(namespaces.terminating("demo"))


def test_a_namespace_that_is_paused_is_known_by_its_annotation_as_long_as_that_is_true() -> None:
    client: Any = _Client()
    namespaces = Namespaces(client)
    found = []
    for client.annotations in ({"messagestore.dev/paused": "true"}, {"messagestore.dev/paused": "false"}):
        asyncio.run(namespaces.terminating("demo"))
        found.append(namespaces.paused("demo"))
    assert found == [True, False]
