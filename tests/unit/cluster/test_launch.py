"""What is made for a run, and when."""

import asyncio
from dataclasses import replace
from typing import Any

from messagestore_operator.cluster.backend import KubeflowBackend
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.launch import Launcher
from messagestore_operator.settings import DriverSettings
from support.launches import launch


class _Client:
    """An API server that takes everything, and notes which kinds of objects were made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.made.append(body["kind"])
        return {**body, "metadata": {**body["metadata"], "uid": "1", "resourceVersion": "1"}}

    async def merge_patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"namespace": "default", "name": path.rpartition("/")[2], "resourceVersion": "2"}}


def test_a_namespace_that_lost_its_drivers_account_gets_it_again_and_others_are_not_asked_for_each_run() -> None:
    client: Any = _Client()
    now = 100.0
    backend = KubeflowBackend(client)
    launcher = Launcher(client, backend, Cache(backend.kind.name), clock=lambda: now)
    wanted = replace(launch(), driver=DriverSettings(cluster_role="drivers"))

    async def two_at_once_and_one_later() -> list[int]:
        nonlocal now
        counts = []
        for seconds in (0, 1, 60):
            now += seconds
            await launcher.launch(wanted)
            counts.append(client.made.count("ServiceAccount"))
        return counts

    assert asyncio.run(two_at_once_and_one_later()) == [1, 1, 2]
