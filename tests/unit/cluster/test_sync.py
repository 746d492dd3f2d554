"""Reading everything anew: what a watch has missed is made up for, and counted."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from messagestore_operator.cluster import sync
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.health import Health
from messagestore_operator.cluster.kinds import RESOURCES
from messagestore_operator.cluster.metrics import Metrics
from messagestore_operator.cluster.sync import Sync
from support.launches import stream

STREAMS = RESOURCES["MessageStream"]


class _Server:
    """Lists what it has."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []

    async def items(self, path: str, selector: str = "") -> AsyncIterator[dict[str, Any]]:
        for one in self.objects if path == STREAMS.path(None) else ():
            yield one


class _Kept:
    """A cache that is kept by reading alone: no watch ever shows anything."""

    def __init__(self) -> None:
        self.server: Any = _Server()
        self.cache, self.metrics = Cache("SparkApplication"), Metrics()
        self.touched: set[tuple[str, str, str]] = set()
        health = Health(60, 60)
        self._sync = Sync(self.server, self.cache, [STREAMS], (), "op", self.touched.update, self.metrics, health)

    def fill(self) -> None:
        asyncio.run(self._sync.fill())

    def read_again(self) -> float:
        """Read everything once more, and return how many changes no watch has shown, of all times."""

        async def once() -> None:
            reading = asyncio.create_task(self._sync.keep_up(0.01))
            await asyncio.sleep(0.05)
            reading.cancel()

        self.touched.clear()
        asyncio.run(once())
        found = self.metrics.registry.get_sample_value("messagestore_operator_watch_missed_total")
        assert found is not None
        return found

    def names(self) -> list[str]:
        return sorted(resource.metadata.name for resource in self.cache.resources())


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> _Kept:
    monkeypatch.setattr(sync, "_GRACE_SECONDS", 0.0)
    found = _Kept()
    found.server.objects = _streams("orders", "returns")
    found.fill()
    return found


def _streams(*names: str, versions: Sequence[int] = (1, 1)) -> list[dict[str, Any]]:
    found = []
    for name, version in zip(names, versions, strict=True):
        document = stream(name, uid=f"uid-{name}").to_dict()
        document["metadata"]["resourceVersion"] = str(version)
        found.append({**document, "kind": "MessageStream"})
    return found


def test_everything_there_is_is_looked_at_after_the_first_reading(kept: _Kept) -> None:
    assert kept.touched == {("MessageStream", "default", name) for name in ("orders", "returns")}


def test_what_is_known_already_counts_as_shown(kept: _Kept) -> None:
    assert kept.read_again() == 0
    assert kept.names() == ["orders", "returns"]


def test_a_change_that_no_watch_showed_is_taken_in_and_counted(kept: _Kept) -> None:
    kept.server.objects = _streams("orders", "returns", versions=(1, 2))
    assert kept.read_again() == 1
    assert ("MessageStream", "default", "returns") in kept.touched
    assert kept.read_again() == 1


def test_what_is_gone_is_dropped(kept: _Kept) -> None:
    kept.server.objects = _streams("orders", versions=(1,))
    kept.read_again()
    assert kept.names() == ["orders"]


def test_a_resource_that_was_made_again_unseen_takes_the_place_of_the_first(kept: _Kept) -> None:
    again, other = _streams("orders", "returns", versions=(9, 1))
    again["metadata"]["uid"] = "another"
    kept.server.objects = [again, other]
    assert kept.read_again() >= 1
    found = kept.cache.resource(("MessageStream", "default", "orders"))
    assert found is not None
    assert found.metadata.uid == "another"
