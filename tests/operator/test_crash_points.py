"""The operator dies at each write of a run's life, before or after its effect, and another operator continues."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from messagestore_operator.cluster.metrics import Metrics, Telemetry
from messagestore_operator.decide.decision import decide
from messagestore_operator.kube.client import KubeClient
from messagestore_operator.kube.objects import ApiObject, at
from messagestore_operator.service import Service, health_of
from messagestore_operator.settings import Settings
from support import sparkoperator
from support.apiserver import ApiServer
from support.fakespark import MERGE, FakeSpark
from support.kube import connected
from support.launches import stream
from support.long import few
from support.secrets import make_storage_secrets

NAMESPACE = "crash-points"
STREAMS = f"/apis/messagestore.dev/v1alpha1/namespaces/{NAMESPACE}/messagestreams"
WRITES = 17
"""More writes than a run's life has, so that the last ones are never reached."""


class Killed(BaseException):
    """The process is gone."""


class Mortal(KubeClient):
    """A client whose process dies at its n-th write, or once it has written to a path with this end."""

    dies_at = 0
    dies_after = "nowhere"
    takes_effect = False
    writes = 0

    async def _request(self, method: str, path: str, *rest: Any, **named: Any) -> ApiObject:
        if method == "GET":
            return await super()._request(method, path, *rest, **named)
        self.writes += 1
        if self.writes == self.dies_at and not self.takes_effect:
            raise Killed
        answer = await super()._request(method, path, *rest, **named)
        if self.writes == self.dies_at or path.endswith(self.dies_after):
            raise Killed
        return answer


@pytest.fixture(scope="module", autouse=True)
def _namespace(apiserver: ApiServer) -> Iterator[None]:
    assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).accepted
    make_storage_secrets(apiserver, NAMESPACE)
    yield
    apiserver.request("DELETE", STREAMS)


POINTS = [(dies_at, takes_effect) for dies_at in range(1, WRITES + 1) for takes_effect in (False, True)]


# Each write once, in turn before and after its effect, and both past the end.
@pytest.mark.parametrize(
    ("dies_at", "takes_effect"),
    few(POINTS, *(point for point in POINTS if point[0] == WRITES or point[0] % 2 == point[1])),
)
def test_a_run_is_made_once_and_brought_to_its_end(apiserver: ApiServer, dies_at: int, takes_effect: bool) -> None:
    name = f"s{dies_at}-{'after' if takes_effect else 'before'}"
    _create(apiserver, name)
    spark = FakeSpark(apiserver, NAMESPACE, seconds=0)
    writes = asyncio.run(_live_twice(apiserver, spark, name, dies_at, takes_effect))
    status = apiserver.request("GET", f"{STREAMS}/{name}").body["status"]
    (run,) = spark.launched(f"{name}-")
    assert (run.name.split("-")[3], status["runNumber"], status["lastRun"]["name"]) == ("1", 1, run.name)
    assert (status["totals"]["stored"], "currentRun" in status, spark.problems) == (2, False, [])
    config_map = apiserver.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{run.name}").body
    assert at(config_map, "metadata", "ownerReferences", 0, "kind") == "SparkApplication"
    assert run.name in _reporting(apiserver)
    assert _holders(apiserver, name) == [None]
    # The last crash points are after the end: so the tests had all the others.
    assert dies_at < WRITES or writes < WRITES


@pytest.mark.parametrize(("collection", "runs"), [("/leases", 0), ("/sparkapplications", 0), ("/configmaps", 1)])
def test_a_stream_suspended_after_the_crash_ends_a_launched_run_and_takes_back_any_other(
    apiserver: ApiServer, collection: str, runs: int
) -> None:
    name = f"suspended-{collection.strip('/')}"
    _create(apiserver, name)
    spark = FakeSpark(apiserver, NAMESPACE, seconds=0)
    asyncio.run(_live_until_suspended(apiserver, spark, name, collection))
    launched = [run.name for run in spark.launched(f"{name}-")]
    status = apiserver.request("GET", f"{STREAMS}/{name}").body["status"]
    assert (len(launched), status["runNumber"], spark.problems) == (runs, 1, [])
    assert [run["name"] for run in status.get("recentRuns", [])] == launched
    # An application without a ConfigMap would wait for ever.
    assert _applications(apiserver, name) == launched


def _create(server: ApiServer, name: str) -> None:
    document = stream(name, namespace=NAMESPACE, trigger={"interval": "PT1H"}).to_dict()
    del document["metadata"]["uid"], document["metadata"]["generation"]
    assert server.request("POST", STREAMS, document).accepted


async def _live_twice(server: ApiServer, spark: FakeSpark, name: str, dies_at: int, takes_effect: bool) -> int:
    async with connected(server) as client:
        first = Mortal(client._api)
        first.dies_at, first.takes_effect = dies_at, takes_effect
        try:
            await _live(server, first, spark, name)
        except Killed:
            await _live(server, Mortal(client._api), spark, name)
        return first.writes


async def _live_until_suspended(server: ApiServer, spark: FakeSpark, name: str, collection: str) -> None:
    async with connected(server) as client:
        first = Mortal(client._api)
        first.dies_after = collection
        with pytest.raises(Killed):
            await _live(server, first, spark, name)
        assert server.request("PATCH", f"{STREAMS}/{name}", {"spec": {"suspend": True}}, MERGE).accepted
        await _live(server, Mortal(client._api), spark, name)


async def _live(server: ApiServer, client: KubeClient, spark: FakeSpark, name: str) -> None:
    """Run an operator until the stream has had its run."""
    settings = Settings(namespace=NAMESPACE, watch_namespaces=(NAMESPACE,))
    service = Service(settings, client, decide, Telemetry(Metrics(), health_of(settings)), "test")
    for _ in range(20):
        await service._sync.fill()
        await service._reconciler.reconcile(("MessageStream", NAMESPACE, name))
        await service._drivers.write(NAMESPACE)
        spark.step()
        status = server.request("GET", f"{STREAMS}/{name}").body["status"]
        has_ended = status.get("lastRun") or status.get("phase") == "Suspended"
        if has_ended and not status.get("currentRun") and set(_holders(server, name)) <= {None}:
            return
    raise AssertionError(f"the run never came to its end: {status}")


def _applications(server: ApiServer, name: str) -> list[str]:
    names = [app["metadata"]["name"] for app in server.request("GET", sparkoperator.path(NAMESPACE)).body["items"]]
    return [one for one in names if one.startswith(f"{name}-")]


def _reporting(server: ApiServer) -> list[str]:
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles"
    role = server.request("GET", f"{roles}/message-store-driver-reports").body
    return list(at(role, "rules", 0, "resourceNames") or [])


def _holders(server: ApiServer, name: str) -> list[str | None]:
    leases = server.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases").body["items"]
    uri = f"s3a://lake/{name}"
    return [
        at(lease, "spec", "holderIdentity")
        for lease in leases
        if str(at(lease, "metadata", "annotations", "messagestore.dev/table")).endswith(f" {uri}")
    ]
