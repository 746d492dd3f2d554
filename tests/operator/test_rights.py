"""The operator with the chart's own settings and rights, not an administrator's: none of its requests is refused."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from support.apiserver import ApiServer
from support.fakespark import FakeSpark, fake_spark
from support.installed import installed_chart
from support.launches import stream
from support.operators import FAST, Operator, eventually, running_operator
from support.secrets import make_storage_secrets

STREAMS = "/apis/messagestore.dev/v1alpha1/namespaces/{}/messagestreams"
_numbers = count()


@pytest.fixture(params=["chosen namespaces", "all namespaces"])
def operator(apiserver: ApiServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Operator, str]]:
    """An operator with the chart's account, and a namespace that it serves."""
    own, served = (f"rights-{next(_numbers)}" for _ in range(2))
    for name in (own, served):
        assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).accepted
    make_storage_secrets(apiserver, served)
    chosen = [f"watch.namespaces={{{served}}}"] if request.param == "chosen namespaces" else []
    with installed_chart(apiserver, own, tmp_path, *chosen) as chart:
        settings = {**chart.settings, **FAST, "tenancy": chart.settings["tenancy"]}
        with running_operator(apiserver, tmp_path, settings, chart.kubeconfig) as started:
            yield started, served
        apiserver.request("DELETE", STREAMS.format(served))


def test_the_chart_grants_every_right_that_the_operator_uses(
    apiserver: ApiServer, operator: tuple[Operator, str]
) -> None:
    started, namespace = operator
    with fake_spark(apiserver, namespace) as spark:
        _live(apiserver, namespace, spark, started)
    assert spark.problems == []
    assert 'status="403"' not in started.get("/metrics")[1]
    assert "orbidden" not in started.text


def _live(server: ApiServer, namespace: str, spark: FakeSpark, started: Operator) -> None:
    """Play a stream's whole life: runs, history, an Event, suspension and deletion."""
    document = stream("orders", namespace=namespace, trigger={"interval": "PT1S"}, runHistoryLimit=1).to_dict()
    document["spec"]["table"]["deletionPolicy"] = "Delete"
    del document["metadata"]["uid"], document["metadata"]["generation"]
    path = f"{STREAMS.format(namespace)}/orders"
    answer = server.request("POST", STREAMS.format(namespace), document)
    assert answer.accepted, answer.body
    eventually(lambda: len(spark.launched("orders-ingest")) >= 3, of=started)
    eventually(lambda: server.request("GET", f"/api/v1/namespaces/{namespace}/events").body["items"])
    server.request("PATCH", path, {"spec": {"suspend": True}}, "application/merge-patch+json")
    eventually(lambda: server.request("GET", path).body["status"]["phase"] == "Suspended", of=started)
    server.request("DELETE", path)
    eventually(lambda: server.request("GET", path).status == 404, of=started)
