"""The release is uninstalled while a run is in progress, and installed again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.apiserver import ApiServer
from support.fakespark import fake_spark
from support.installed import ACCOUNT, installed_chart
from support.interception import intercepting
from support.launches import stream
from support.long import few
from support.operators import FAST, Operator, eventually, running_operator
from support.secrets import make_storage_secrets
from support.tenants import MERGE, RBAC

RUNS = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/{}/sparkapplications/{}"
_numbers = count()


@contextmanager
def released(server: ApiServer, own: str, folder: Path, *values: str) -> Iterator[Operator]:
    """The installed chart, and an operator with its account."""
    with installed_chart(server, own, folder, *values) as chart:
        settings = {**chart.settings, **FAST, "tenancy": chart.settings["tenancy"]}
        with running_operator(server, folder, settings, chart.kubeconfig) as operator:
            yield operator
            assert operator.stop() == 0


@pytest.mark.parametrize("chosen", few([False, True], True), ids=["all-namespaces", "chosen-namespaces"])
def test_a_run_outlives_the_release_and_the_next_one_follows_it(
    apiserver: ApiServer, tmp_path: Path, chosen: bool
) -> None:
    own, served = (f"removal-{next(_numbers)}" for _ in range(2))
    for name in (own, served):
        assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).accepted
    make_storage_secrets(apiserver, served)
    values = [f"watch.namespaces={{{served}}}"] if chosen else []
    streams = _streams(served)

    def status() -> dict[str, Any]:
        return dict(apiserver.request("GET", f"{streams}/orders").body.get("status", {}))

    def leases() -> list[tuple[str | None, int]]:
        """Holder and epoch of each table."""
        items = apiserver.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{own}/leases").body["items"]
        tables = [one["spec"] for one in items if one["metadata"]["name"].startswith("messagestore-")]
        return [(one.get("holderIdentity"), one["leaseTransitions"]) for one in tables]

    with fake_spark(apiserver, served) as spark:
        with released(apiserver, own, tmp_path, *values) as operator:
            document = stream("orders", namespace=served, trigger={"continuous": {"batchInterval": "PT1S"}}).to_dict()
            del document["metadata"]["uid"], document["metadata"]["generation"]
            assert apiserver.request("POST", streams, document).accepted
            eventually(lambda: status().get("totals"), of=operator)
        (run,), before, held = spark.launched("orders-"), status(), leases()
        assert [holder for holder, _ in held] == [f"{served}/{run.name}"]
        assert before["currentRun"]["name"] == run.name
        assert not run.over
        for left in (RUNS.format(served, run.name), f"/api/v1/namespaces/{served}/configmaps/{run.name}"):
            assert apiserver.request("GET", left).accepted, left
        kinds = (f"{RBAC}/v1/clusterroles", "admissionregistration.k8s.io/v1/validatingadmissionpolicies")
        for kind in kinds:
            names = [one["metadata"]["name"] for one in apiserver.request("GET", f"/apis/{kind}").body["items"]]
            assert not [name for name in names if name.startswith(ACCOUNT)], kind

        with released(apiserver, own, tmp_path, *values) as operator:
            assert apiserver.request("PATCH", f"{streams}/orders", {"spec": {"suspend": True}}, MERGE).accepted
            after = eventually(lambda: (one := status()).get("lastRun") and one, of=operator)
            assert (after["lastRun"]["name"], after["lastRun"]["state"]) == (run.name, "Succeeded")
            eventually(lambda: leases() == [(None, held[0][1])], of=operator)
        assert [one.name for one in spark.launched("orders-")] == [run.name]
    assert (spark.problems, spark.overlaps) == ([], [])
    apiserver.request("DELETE", f"{streams}/orders")


# Its own lists show it within seconds, or kopf ends after a minute of refused watches.
@pytest.mark.parametrize("resync", few(["PT5S", "PT10M"], "PT5S"))
def test_a_namespace_that_may_not_be_read_holds_up_no_other_and_is_served_again_once_it_may(
    apiserver: ApiServer, tmp_path: Path, resync: str
) -> None:
    own, lost, kept = (f"removal-{next(_numbers)}" for _ in range(3))
    for name in (own, lost, kept):
        assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).accepted
    bindings = f"/apis/{RBAC}/v1/namespaces/{lost}/rolebindings"

    def apply(name: str, namespace: str) -> None:
        document = stream(name, namespace=namespace, suspend=True).to_dict()
        del document["metadata"]["uid"], document["metadata"]["generation"]
        assert apiserver.request("POST", _streams(namespace), document).accepted

    def is_served(name: str, namespace: str) -> bool:
        status = apiserver.request("GET", f"{_streams(namespace)}/{name}").body.get("status", {})
        return status.get("observedGeneration") == 1

    with (
        intercepting(f"https://127.0.0.1:{apiserver.port}") as way,
        installed_chart(apiserver, own, tmp_path, f"watch.namespaces={{{lost},{kept}}}") as chart,
    ):
        config = json.loads(chart.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{way.port}"
        chart.kubeconfig.write_text(json.dumps(config))
        settings = {**chart.settings, **FAST, "tenancy": chart.settings["tenancy"], "resync": resync}
        with running_operator(apiserver, tmp_path, settings, chart.kubeconfig) as operator:
            for namespace in (lost, kept):
                apply("first", namespace)
                eventually(lambda namespace=namespace: is_served("first", namespace), of=operator)
            removed = apiserver.request("GET", bindings).body["items"]
            assert apiserver.request("DELETE", bindings).accepted
            eventually(lambda: not apiserver.request("GET", bindings).body["items"])
            way.cut()
            eventually(lambda: f"namespace {lost} can't be read" in operator.text, seconds=120, of=operator)
            apply("second", kept)
            eventually(lambda: is_served("second", kept), of=operator)
            assert operator.stop() == 0
        with running_operator(apiserver, tmp_path, settings, chart.kubeconfig) as operator:
            apply("third", kept)
            eventually(lambda: is_served("third", kept), of=operator)
            assert operator.get("/readyz")[0] == 200
            apply("second", lost)
            for binding in removed:
                binding["metadata"] = {"name": binding["metadata"]["name"]}
                assert apiserver.request("POST", bindings, binding).accepted
            eventually(lambda: is_served("second", lost), of=operator)
            apply("third", lost)
            eventually(lambda: is_served("third", lost), of=operator)
            assert operator.stop() == 0
    for namespace in (lost, kept):
        apiserver.request("DELETE", _streams(namespace))


def _streams(namespace: str) -> str:
    return f"/apis/messagestore.dev/v1alpha1/namespaces/{namespace}/messagestreams"
