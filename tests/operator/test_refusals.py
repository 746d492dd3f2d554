"""A refusal, by the operator or the API server, shows in the resource's status; retries cost little."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from messagestore_operator.kube.scrapes import FRESH_SECONDS
from support import sparkoperator
from support.apiserver import ApiServer
from support.fakespark import FakeSpark, fake_spark
from support.launches import stream
from support.operators import Operator, eventually, running_operator

MERGE = "application/merge-patch+json"
NEVER = {"interval": None, "schedule": {"cron": "0 25 * * *", "timeZone": "UTC"}}
QUOTA = "count/sparkapplications.sparkoperator.k8s.io"
_numbers = count()


class Cluster:
    """A namespace with its own operator."""

    def __init__(self, server: ApiServer, namespace: str, operator: Operator) -> None:
        self._server, self.namespace, self.operator = server, namespace, operator
        self._streams = f"/apis/messagestore.dev/v1alpha1/namespaces/{namespace}/messagestreams"

    def apply(self, name: str, **spec: Any) -> None:
        document = stream(name, namespace=self.namespace, **spec).to_dict()
        for given in ("uid", "generation"):
            del document["metadata"][given]
        assert self._server.request("POST", self._streams, document).accepted

    def change(self, name: str, **spec: Any) -> None:
        answer = self._server.request("PATCH", f"{self._streams}/{name}", {"spec": spec}, MERGE)
        assert answer.accepted, answer.body

    def delete(self, name: str) -> None:
        assert self._server.request("DELETE", f"{self._streams}/{name}").accepted

    def is_there(self, name: str) -> bool:
        return self._server.request("GET", f"{self._streams}/{name}").accepted

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._server.request("GET", f"{self._streams}/{name}").body.get("status", {})
        return found

    def ready(self, name: str) -> dict[str, str]:
        found = [one for one in self.status(name).get("conditions", []) if one["type"] == "Ready"]
        return found[0] if found else {"status": "", "reason": "", "message": ""}

    def events(self, name: str, reason: str) -> list[dict[str, Any]]:
        query = f"fieldSelector=involvedObject.name={name},reason={reason}"
        path = f"/api/v1/namespaces/{self.namespace}/events?{query}"
        found: list[dict[str, Any]] = self._server.request("GET", path).body["items"]
        return found

    def quota(self, most: int) -> None:
        """Give the namespace a quota of SparkApplications; sets the status that a cluster's controller would set."""
        quotas = f"/api/v1/namespaces/{self.namespace}/resourcequotas"
        wanted = {"metadata": {"name": "few"}, "spec": {"hard": {QUOTA: str(most)}}}
        self._server.request("POST", quotas, wanted)
        assert self._server.request("PATCH", f"{quotas}/few", {"spec": wanted["spec"]}, MERGE).accepted
        status = {"status": {"hard": {QUOTA: str(most)}, "used": {QUOTA: "0"}}}
        assert self._server.request("PATCH", f"{quotas}/few/status", status, MERGE).accepted

    def config_maps(self) -> list[str]:
        """The ConfigMaps of runs."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps?labelSelector=messagestore.dev/run"
        return [one["metadata"]["name"] for one in self._server.request("GET", path).body["items"]]

    def holders(self) -> list[str]:
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        found = self._server.request("GET", leases).body["items"]
        tables = [one["spec"] for one in found if one["metadata"]["name"].startswith("messagestore-")]
        return [spec["holderIdentity"] for spec in tables if spec.get("holderIdentity")]


@pytest.fixture
def cluster(apiserver: ApiServer, tmp_path: Path) -> Iterator[Cluster]:
    name = f"refusals-{next(_numbers)}"
    assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).accepted
    # Without renewals of a leader's Lease, which would count as requests.
    settings = {"namespace": name, "watchNamespaces": [name], "leader": {"enabled": False}}
    with running_operator(apiserver, tmp_path, settings) as operator:
        yield Cluster(apiserver, name, operator)
    apiserver.request("DELETE", sparkoperator.path(name))


@pytest.fixture
def spark(apiserver: ApiServer, cluster: Cluster) -> Iterator[FakeSpark]:
    with fake_spark(apiserver, cluster.namespace) as fake:
        yield fake
    assert (fake.problems, fake.overlaps) == ([], [])


def test_a_spec_that_only_the_operator_refuses_is_reported_until_it_is_corrected(
    cluster: Cluster, spark: FakeSpark
) -> None:
    cluster.apply("orders", trigger={"manual": {}})
    eventually(lambda: cluster.ready("orders")["reason"] == "Waiting", of=cluster.operator)
    cluster.change("orders", trigger={"manual": None, "schedule": {"cron": "0 3 * * *", "timeZone": "Europe/Viena"}})
    ready = eventually(lambda: (one := cluster.ready("orders"))["reason"] == "InvalidSpec" and one)
    assert ready["message"] == (
        "spec.trigger.schedule.timeZone: must be the name of a time zone, such as UTC or Europe/Vienna;"
        " there is none of this name"
    )
    (event,) = eventually(lambda: cluster.events("orders", "InvalidSpec"))
    assert (event["type"], event["message"]) == ("Warning", ready["message"])
    cluster.change("orders", trigger={"schedule": {"timeZone": "Europe/Vienna"}})
    eventually(lambda: cluster.ready("orders")["reason"] == "Waiting")


def test_a_run_is_followed_to_its_end_though_its_spec_came_to_be_refused(cluster: Cluster, spark: FakeSpark) -> None:
    spark.seconds = 4
    cluster.apply("orders", trigger={"interval": "PT1S"})
    run = eventually(lambda: cluster.status("orders").get("currentRun", {}).get("startedAt") and spark.launched(""))[0]
    cluster.change("orders", trigger=NEVER)
    eventually(lambda: cluster.ready("orders")["reason"] == "InvalidSpec")
    assert cluster.holders() == [f"{cluster.namespace}/{run.name}"]
    before = cluster.operator.figure("messagestore_operator_requests_total")
    last = eventually(lambda: cluster.status("orders").get("lastRun"), of=cluster.operator)
    assert (last["name"], last["state"]) == (run.name, "Succeeded")
    eventually(lambda: cluster.holders() == [])
    time.sleep(FRESH_SECONDS)
    # Such a resource once cost 28 requests a second for ever; these are for its end and two seconds of rest.
    assert cluster.operator.figure("messagestore_operator_requests_total") - before < 40
    assert len(spark.launched("")) == 1
    cluster.delete("orders")
    eventually(lambda: not cluster.is_there("orders"))


def test_a_launch_that_the_api_server_refuses_is_reported_and_the_table_is_released(
    cluster: Cluster, spark: FakeSpark
) -> None:
    cluster.quota(0)
    cluster.apply("orders", trigger={"interval": "PT1H"})
    ready = eventually(
        lambda: (one := cluster.ready("orders"))["reason"] == "SubmissionFailed" and one, of=cluster.operator
    )
    assert "is forbidden: exceeded quota: few" in ready["message"]
    (event,) = eventually(lambda: cluster.events("orders", "SubmissionFailed"))
    assert "exceeded quota" in event["message"]
    eventually(lambda: cluster.holders() == [] and cluster.config_maps() == [])
    assert cluster.events("orders", "RunStarted") == []
    cluster.quota(10)
    eventually(lambda: cluster.ready("orders")["status"] == "True", of=cluster.operator)
    assert len(spark.launched("")) == 1
