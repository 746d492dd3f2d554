"""What is asked of the API server once more before a run is created."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from messagestore_core.contract.purge import PurgeTask
from messagestore_operator.cluster.apply import Applier
from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.pods import Launch
from messagestore_operator.decide.actions import CreateRun
from messagestore_operator.decide.run_queue import RunBounds
from messagestore_operator.decide.snapshot import RunRef
from messagestore_operator.kube.client import ConflictError
from messagestore_operator.settings import Settings
from messagestore_operator.translate.common import holds_of
from support.launches import stream

ORDERS = ("MessageStream", "default", "orders")
HOLDS = [{"name": "court"}]


class Server:
    """An API server with one stream."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    async def get(self, path: str) -> dict[str, Any]:
        assert path.endswith("/messagestreams/orders")
        return self._document


class Launches(list[str]):
    """The runs that were launched."""

    async def launch(self, launch: Launch) -> None:
        self.append(launch.run.run.name)


def version(number: int, **spec: Any) -> dict[str, Any]:
    document = {**stream(**spec).to_dict(), "kind": "MessageStream"}
    return {**document, "metadata": {**document["metadata"], "generation": number, "resourceVersion": str(number)}}


@pytest.mark.parametrize(
    ("seen", "holds", "launched"),
    [(1, [], []), (2, [], []), (2, HOLDS, ["tidy-purge-1"])],
    ids=["not seen yet", "seen since the decision", "known"],
)
def test_no_purge_begins_without_a_hold_that_its_stream_has(
    seen: int, holds: list[dict[str, str]], launched: list[str]
) -> None:
    versions = {1: version(1), 2: version(2, holds=HOLDS)}
    client: Any = Server(versions[2])
    unused: Any = None
    cluster = Cluster.of(client, "op", RunBounds())
    cluster.cache.put(versions[seen])
    applier, launches = Applier(cluster, unused, unused, Settings(), lambda _: None, unused), Launches()
    applier._launcher = launches  # type: ignore[assignment]
    document: Any = SimpleNamespace(task=PurgeTask.model_construct(holds=holds_of(stream(holds=holds))))
    create = CreateRun(RunRef("default", "tidy-purge-1", 1, "purge", stream="orders"), document, unused, unused)
    with nullcontext() if launched else pytest.raises(ConflictError, match="holds have changed"):
        asyncio.run(applier.carry_out(unused, [create]))
    assert launches == launched
    known: Any = cluster.cache.resource(ORDERS)
    assert [hold.name for hold in known.spec.holds] == ["court"]
