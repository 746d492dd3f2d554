"""What an ordinary run of a stream costs the API server in requests."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from messagestore_operator.cluster.metrics import Metrics, Telemetry
from messagestore_operator.decide.decision import decide
from messagestore_operator.kube.client import KubeClient
from messagestore_operator.kube.objects import ApiObject
from messagestore_operator.service import Service, health_of
from messagestore_operator.settings import Settings
from support.apiserver import ApiServer
from support.fakespark import FakeSpark
from support.kube import connected
from support.launches import stream
from support.secrets import make_storage_secrets

NAMESPACE = "requests"
STREAMS = f"/apis/messagestore.dev/v1alpha1/namespaces/{NAMESPACE}/messagestreams"
RUN = Counter(
    {
        # Its number is reserved, and its end recorded.
        "PATCH messagestreams/status": 2,
        # The table is taken and released.
        "PUT leases": 2,
        "POST sparkapplications": 1,
        "POST configmaps": 1,
        # Its report, as this driver's pod has no termination message.
        "GET configmaps": 1,
        # Runs of a namespace that begin within seconds share it.
        "PATCH roles": 1,
    }
)


class Counting(KubeClient):
    """A client that counts requests for single objects."""

    asked: Counter[str]

    async def _request(self, method: str, path: str, *rest: Any, **named: Any) -> ApiObject:
        kind, _, more = path.partition(f"/namespaces/{NAMESPACE}/")[2].partition("/")
        if more or method == "POST":
            self.asked[f"{method} {kind}{'/status' if more.endswith('/status') else ''}"] += 1
        return await super()._request(method, path, *rest, **named)


@pytest.fixture(scope="module", autouse=True)
def _namespace(apiserver: ApiServer) -> Iterator[None]:
    assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).accepted
    make_storage_secrets(apiserver, NAMESPACE)
    yield
    apiserver.request("DELETE", STREAMS)


def test_an_ordinary_run_costs_six_requests_its_report_and_a_share_of_a_role(apiserver: ApiServer) -> None:
    document = stream("orders", namespace=NAMESPACE, trigger={"interval": "PT1S"}).to_dict()
    del document["metadata"]["uid"], document["metadata"]["generation"]
    assert apiserver.request("POST", STREAMS, document).accepted
    spark = FakeSpark(apiserver, NAMESPACE, seconds=0)
    first, second = asyncio.run(_two_runs(apiserver, spark))
    assert second <= RUN
    # What all drivers of the namespace need, and the Event of the first.
    assert first.total() <= RUN.total() + 8
    assert spark.problems == []


async def _two_runs(server: ApiServer, spark: FakeSpark) -> list[Counter[str]]:
    """The requests of the first run, and of the second."""
    async with connected(server) as client:
        counting = Counting(client._api)
        settings = Settings(namespace=NAMESPACE, watch_namespaces=(NAMESPACE,))
        telemetry = Telemetry(Metrics(), health_of(settings))
        service = Service(settings, counting, decide, telemetry, "test")
        found = list[Counter[str]]()
        for number in (1, 2):
            counting.asked = Counter()
            await _until_ended(server, service, spark, number)
            found.append(counting.asked)
        return found


async def _until_ended(server: ApiServer, service: Service, spark: FakeSpark, number: int) -> None:
    for _ in range(40):
        await service._sync.fill()
        await service._reconciler.reconcile(("MessageStream", NAMESPACE, "orders"))
        await service._drivers.write(NAMESPACE)
        spark.step()
        status = server.request("GET", f"{STREAMS}/orders").body["status"]
        if status["runNumber"] == number and "currentRun" not in status:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"run {number} never came to its end: {status}")
