"""Replicas and their leader on a real API server."""

import asyncio
import time
from itertools import count

import pytest

from messagestore_operator.kube.client import ApiError, KubeClient
from messagestore_operator.kube.leader import Leader, Timing
from messagestore_operator.kube.objects import LEASES, ApiObject
from support.apiserver import ApiServer
from support.kube import with_client
from support.waiting import scaled

FAST = Timing(duration=1.0, renew_deadline=0.6, retry=0.1)
_numbers = count()


@pytest.fixture
def name() -> str:
    return f"leader-{next(_numbers)}"


class Hanging(KubeClient):
    """A client whose requests get no answer."""

    hangs = False

    async def find(self, path: str) -> ApiObject | None:
        if self.hangs:
            await asyncio.sleep(60)
        return await super().find(path)


class Counting(KubeClient):
    """A client that counts requests."""

    asked = 0

    async def find(self, path: str) -> ApiObject | None:
        self.asked += 1
        return await super().find(path)


def _hanging(client: KubeClient) -> Hanging:
    return Hanging(client._api)


def test_of_two_replicas_the_second_leads_when_the_first_releases_the_lease(apiserver: ApiServer, name: str) -> None:
    async def scenario(client: KubeClient) -> tuple[str, bool]:
        first, second = (Leader(client, "default", name, identity, FAST) for identity in ("first", "second"))
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(0.3)
        seen, early = second.holder, waiting.done()
        await first.release()
        await asyncio.wait_for(waiting, scaled(0.8))
        return seen, early

    assert with_client(apiserver, scenario) == ("first", False)


def test_a_replica_takes_over_from_one_that_died_after_the_duration_and_not_before(
    apiserver: ApiServer, name: str
) -> None:
    async def scenario(client: KubeClient) -> float:
        dead, next_one = (Leader(client, "default", name, identity, FAST) for identity in ("dead", "next"))
        await dead.acquire()
        started = asyncio.get_running_loop().time()
        await asyncio.wait_for(next_one.acquire(), scaled(5))
        return asyncio.get_running_loop().time() - started

    assert 1.0 <= with_client(apiserver, scenario) < scaled(2.0)


def test_a_leader_that_renews_is_not_taken_over_from(apiserver: ApiServer, name: str) -> None:
    async def scenario(client: KubeClient) -> bool:
        first, second = (Leader(client, "default", name, identity, FAST) for identity in ("first", "second"))
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(2.5)
        took_over = waiting.done()
        for task in (holding, waiting):
            task.cancel()
        return took_over

    assert with_client(apiserver, scenario) is False


def test_a_leader_whose_requests_hang_stops_leading_before_another_may_lead(apiserver: ApiServer, name: str) -> None:
    async def scenario(client: KubeClient) -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        connection = _hanging(client)
        first, second = Leader(connection, "default", name, "first", FAST), Leader(client, "default", name, "b", FAST)
        await first.acquire()
        holding, waiting = asyncio.create_task(first.hold()), asyncio.create_task(second.acquire())
        ended: dict[str, float] = {}
        holding.add_done_callback(lambda _: ended.update(first=loop.time()))
        waiting.add_done_callback(lambda _: ended.update(second=loop.time()))
        await asyncio.sleep(0.3)
        connection.hangs = True
        await asyncio.wait_for(asyncio.gather(holding, waiting), scaled(10))
        return ended["first"], ended["second"]

    lost, taken = with_client(apiserver, scenario)
    assert lost < taken


def test_a_leader_that_was_frozen_past_its_deadline_ends_without_another_request(
    apiserver: ApiServer, name: str
) -> None:
    async def scenario(client: KubeClient) -> tuple[int, int]:
        frozen, connection = 0.0, Counting(client._api)
        leader = Leader(connection, "default", name, "first", FAST, lambda: time.monotonic() + frozen)
        await leader.acquire()
        holding = asyncio.create_task(leader.hold())
        await asyncio.sleep(0.3)
        before, frozen = connection.asked, 10.0
        await asyncio.wait_for(holding, scaled(5))
        return before, connection.asked

    before, after = with_client(apiserver, scenario)
    assert before > 1
    assert after == before


def test_a_leader_stops_when_another_holds_its_lease(apiserver: ApiServer, name: str) -> None:
    async def scenario(client: KubeClient) -> None:
        leader = Leader(client, "default", name, "first", FAST)
        await leader.acquire()
        await client.merge_patch(LEASES.path("default", name), {"spec": {"holderIdentity": "somebody"}})
        await asyncio.wait_for(leader.hold(), scaled(0.5))

    with_client(apiserver, scenario)


def test_a_deleted_lease_is_made_again_by_its_leader(apiserver: ApiServer, name: str) -> None:
    async def scenario(client: KubeClient) -> ApiObject | None:
        leader = Leader(client, "default", name, "first", FAST)
        await leader.acquire()
        holding = asyncio.create_task(leader.hold())
        await client.delete(LEASES.path("default", name))
        await asyncio.sleep(0.5)
        holding.cancel()
        return await client.find(LEASES.path("default", name))

    lease = with_client(apiserver, scenario)
    assert lease["spec"]["holderIdentity"] == "first"


def test_a_server_that_does_not_answer_is_a_readable_error() -> None:
    from kubernetes.aio.client import Configuration

    from messagestore_operator.kube.client import connect

    async def scenario() -> None:
        async with connect(Configuration(host="https://127.0.0.1:9")) as client:
            await client.get("/version")

    with pytest.raises(ApiError, match="no answer Unreachable"):
        asyncio.run(scenario())
