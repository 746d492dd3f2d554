"""The operator is replaced by one of another release while runs of each kind are under way."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.apiserver import ApiServer
from support.definitions import DEFINITIONS
from support.fakespark import FakeSpark
from support.launches import stream
from support.long import few
from support.operators import Operator, eventually, running_operator
from support.releases import earlier_code
from support.tenants import MERGE

ROOT = "/apis/messagestore.dev/v1alpha1/namespaces"
PLURALS = {"MessageStream": "messagestreams", "RetentionPolicy": "retentionpolicies", "ReplayJob": "replayjobs"}
RESOURCES = [
    ("MessageStream", "orders"),
    ("MessageStream", "daily"),
    ("RetentionPolicy", "old"),
    ("ReplayJob", "again"),
]
DEFINITION = f"{DEFINITIONS}/messagestreams.messagestore.dev"
ENDLESS = 1e9


@pytest.fixture
def newer_definition(apiserver: ApiServer) -> Iterator[None]:
    """Streams have a field that no operator knows."""
    before = apiserver.request("GET", DEFINITION).body
    changed = json.loads(json.dumps(before))
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"]["properties"]["newerField"] = {"type": "string"}
    assert apiserver.request("PATCH", DEFINITION, {"spec": changed["spec"]}, MERGE).accepted
    yield
    assert apiserver.request("PATCH", DEFINITION, {"spec": before["spec"]}, MERGE).accepted


def _path(namespace: str, kind: str, name: str = "") -> str:
    return f"{ROOT}/{namespace}/{PLURALS[kind]}/{name}".rstrip("/")


def _apply(server: ApiServer, namespace: str, kind: str, name: str, spec: dict[str, Any], **annotations: str) -> None:
    about = {"name": name, "annotations": {f"messagestore.dev/{key}": value for key, value in annotations.items()}}
    document = {"apiVersion": "messagestore.dev/v1alpha1", "kind": kind, "metadata": about, "spec": spec}
    answer = server.request("POST", f"{_path(namespace, kind)}?fieldValidation=Strict", document)
    assert answer.accepted, answer.body


def _stream(server: ApiServer, namespace: str, name: str, **spec: Any) -> None:
    _apply(server, namespace, "MessageStream", name, stream(name, namespace=namespace, **spec).to_dict()["spec"])


def _status(server: ApiServer, namespace: str, kind: str, name: str) -> dict[str, Any]:
    status: dict[str, Any] = server.request("GET", _path(namespace, kind, name)).body.get("status", {})
    return {**status, **(status["streams"][0] if status.get("streams") else {})}


def _start_one_of_each(server: ApiServer, namespace: str, spark: FakeSpark, operator: Operator) -> None:
    """A continuous ingest, one that ends, a purge and a replay, all under way."""
    _stream(server, namespace, "base", trigger={"interval": "P1D"})
    eventually(lambda: _status(server, namespace, "MessageStream", "base").get("lastRun"), of=operator)
    spark.seconds = ENDLESS
    _stream(server, namespace, "orders", trigger={"continuous": {"batchInterval": "PT1S"}})
    _stream(server, namespace, "daily", trigger={"interval": "P1D"})
    policy = {"streamRefs": [{"name": "base"}], "trigger": {"manual": {}}, "mode": "Enforce"}
    rules = [{"name": "old", "maxAge": "P1D"}]
    _apply(server, namespace, "RetentionPolicy", "old", {**policy, "rules": rules}, **{"run-requested": "now"})
    files = {"uri": "s3a://lake/again", "storage": stream().to_dict()["spec"]["storage"]}
    _apply(server, namespace, "ReplayJob", "again", {"streamRef": {"name": "base"}, "destination": {"files": files}})

    def under_way() -> bool:
        found = [_status(server, namespace, *one).get("currentRun") or {} for one in RESOURCES]
        return all(run.get("state") == "Running" for run in found)

    eventually(under_way, of=operator)


def _tell_newer_field(server: ApiServer, namespace: str) -> bool:
    """Write the field; the API server drops it until it knows the changed definition."""
    answer = server.request(
        "PATCH", _path(namespace, "MessageStream", "daily"), {"spec": {"newerField": "kept"}}, MERGE
    )
    return bool(answer.body.get("spec", {}).get("newerField") == "kept")


@pytest.mark.parametrize(
    ("first", "second"),
    few([("present", "present"), ("earlier", "present"), ("present", "earlier")], ("present", "present")),
)
@pytest.mark.usefixtures("newer_definition")
def test_an_operator_of_another_release_follows_current_runs_and_launches_none_twice(
    apiserver: ApiServer, namespace: str, spark: FakeSpark, tmp_path: Path, first: str, second: str
) -> None:
    codes = {"present": {}, "earlier": earlier_code(tmp_path) if "earlier" in (first, second) else {}}
    settings = {"namespace": namespace, "watchNamespaces": [namespace]}
    with running_operator(apiserver, tmp_path / "first", settings, environment=codes[first]) as operator:
        _start_one_of_each(apiserver, namespace, spark, operator)
        assert operator.stop() == 0
    before = {name: _status(apiserver, namespace, kind, name) for kind, name in RESOURCES}
    launched = {run.name for run in spark.launched("")}
    eventually(lambda: _tell_newer_field(apiserver, namespace))
    if second == "present":
        # As of an image that is newer than the operator.
        spark.tells = lambda document, report: report.update(newerField=1)

    with running_operator(apiserver, tmp_path / "second", settings, environment=codes[second]) as operator:
        eventually(lambda: operator.figure("messagestore_operator_reconcile_seconds_count") >= 5, of=operator)
        assert {run.name for run in spark.launched("")} == launched
        spark.seconds = 0
        suspended = {"spec": {"suspend": True}}
        assert apiserver.request("PATCH", _path(namespace, "MessageStream", "orders"), suspended, MERGE).accepted
        for kind, name in RESOURCES:
            run = before[name]["currentRun"]["name"]
            ended = eventually(
                lambda at=(kind, name): not (one := _status(apiserver, namespace, *at)).get("currentRun") and one,
                of=operator,
            )
            assert (ended["lastRun"]["name"], ended["lastRun"]["state"]) == (run, "Succeeded"), name
        daily = apiserver.request("GET", _path(namespace, "MessageStream", "daily")).body
        assert daily["spec"]["newerField"] == "kept"
        assert _status(apiserver, namespace, "MessageStream", "daily")["totals"]["stored"] == 2
    assert {run.name for run in spark.launched("")} == launched
