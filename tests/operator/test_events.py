"""Events on a real API server: created once, then counted; and the cluster's Events about a pod."""

from typing import Any

from messagestore_operator.cluster.labels import object_reference
from messagestore_operator.kube.client import KubeClient
from messagestore_operator.kube.events import Events, NewEvent, last_warning
from support.apiserver import ApiServer
from support.kube import with_client
from support.launches import stream

DEAD = NewEvent("Warning", "DeadLetters", "records were set aside as dead letters")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _events(server: ApiServer, about: str) -> list[dict[str, Any]]:
    query = f"fieldSelector=involvedObject.name={about}"
    found: list[dict[str, Any]] = server.request("GET", f"/api/v1/namespaces/default/events?{query}").body["items"]
    return found


def test_the_same_event_is_one_object_with_a_count_also_after_a_restart(apiserver: ApiServer) -> None:
    resource, clock = object_reference(stream("told-often")), Clock()

    async def scenario(client: KubeClient) -> None:
        for _ in range(2):
            events = Events(client, "replica", clock)
            for _ in range(5):
                await events.record(resource, DEAD)
                clock.now += 61
        await events.record(resource, NewEvent("Normal", "RunStarted", "ingest run 1"))

    with_client(apiserver, scenario)
    told = {event["reason"]: event for event in _events(apiserver, "told-often")}
    assert set(told) == {"DeadLetters", "RunStarted"}
    assert told["DeadLetters"]["count"] == 10
    assert told["DeadLetters"]["involvedObject"]["kind"] == "MessageStream"


def test_an_event_that_is_repeated_within_a_minute_costs_no_request(apiserver: ApiServer) -> None:
    async def scenario(client: KubeClient) -> int:
        asked: list[str] = []
        counted = KubeClient(client._api, observe=lambda method, status: asked.append(method))
        events = Events(counted, "replica", Clock())
        for _ in range(10):
            await events.record(object_reference(stream("told-fast")), DEAD)
        return len(asked)

    assert with_client(apiserver, scenario) == 1


def test_an_event_that_can_not_be_sent_stops_nothing(apiserver: ApiServer) -> None:
    async def scenario(client: KubeClient) -> None:
        about = object_reference(stream("nowhere", namespace="no-such-namespace"))
        await Events(client, "replica", Clock()).record(about, DEAD)

    with_client(apiserver, scenario)
    assert _events(apiserver, "nowhere") == []


def test_the_last_warning_about_a_pod_is_found(apiserver: ApiServer) -> None:
    for minute, message in ((2, "secret lake-ca not found"), (1, "something before")):
        event = {
            "metadata": {"name": f"mount-{minute}", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "a-driver", "namespace": "default"},
            "type": "Warning",
            "reason": "FailedMount",
            "message": message,
            "lastTimestamp": f"2026-03-01T06:0{minute}:00Z",
        }
        assert apiserver.request("POST", "/api/v1/namespaces/default/events", event).accepted
    words = with_client(apiserver, lambda client: last_warning(client, "default", "a-driver"))
    assert words == "secret lake-ca not found"
    assert with_client(apiserver, lambda client: last_warning(client, "default", "b-driver")) == ""
