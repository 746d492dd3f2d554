"""Whatever labels, names and owners an editor gives to objects, the operator touches none that it did not make."""

import itertools
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from messagestore_operator.api import MessageStream
from messagestore_operator.cluster.labels import run_annotations, run_labels
from messagestore_operator.decide.snapshot import RunRef
from messagestore_operator.kube.objects import SELECTOR
from messagestore_operator.names import RUN
from messagestore_operator.translate.names import numbered_run_name
from support import sparkoperator
from support.fakespark import MERGE
from support.operators import eventually
from support.tenants import Tenants

Document = dict[str, Any]
ROLE = "message-store-driver-reports"
SEED = 39
OBJECTS = 60


@pytest.fixture(scope="module")
def orders(tenants: Tenants) -> MessageStream:
    """A stream that has had its run."""
    assert tenants.one.stream("orders", trigger={"manual": {}}, annotations=_asked(0)).accepted
    eventually(lambda: _runs(tenants) >= 1, of=tenants.operator)
    return MessageStream.model_validate(tenants.one.read("MessageStream", "orders"))


@pytest.fixture
def _others(tenants: Tenants, orders: MessageStream) -> Iterator[None]:
    """Applications and ConfigMaps of others, which are there before and after, unchanged."""
    _make(tenants, sparkoperator.path(tenants.one.namespace), _application("payroll"))
    for name in ("payments-config", "kube-root-ca.crt"):
        _make(tenants, _config_maps(tenants), {"metadata": {"name": name}, "data": {"theirs": "yes"}})
    before = _versions(tenants)
    yield
    assert before.items() <= _versions(tenants).items()
    for path in (sparkoperator.path(tenants.one.namespace), _config_maps(tenants)):
        for document in _list(tenants, path):
            if "-ingest-" not in document["metadata"]["name"]:
                tenants.one.server.request("DELETE", f"{path}/{document['metadata']['name']}")


@pytest.mark.usefixtures("_others")
@pytest.mark.parametrize("names", ["payroll", "kube-root-ca.crt", "payments-config"])
def test_the_operator_touches_neither_a_forged_config_map_nor_the_object_that_it_names_as_its_run(
    tenants: Tenants, orders: MessageStream, names: str
) -> None:
    _make(tenants, _config_maps(tenants), _forged(orders, f"labelled-{names}", names))
    _looked_again(tenants)
    assert {names, f"labelled-{names}"} & set(_reportable(tenants)) == set()
    assert f"labelled-{names}" in [found["metadata"]["name"] for found in _list(tenants, _config_maps(tenants))]


@pytest.mark.usefixtures("_others")
def test_a_label_on_the_config_map_of_a_run_does_not_turn_the_operator_against_another(
    tenants: Tenants, orders: MessageStream
) -> None:
    """As the cluster's administrator, because the API server refuses it to drivers."""
    own = f"{_config_maps(tenants)}/{numbered_run_name(orders, 'ingest', _runs(tenants))}"
    patch = {"metadata": {"labels": {RUN: "payroll"}}}
    assert tenants.one.server.request("PATCH", own, patch, MERGE).accepted
    _looked_again(tenants)
    assert "payroll" not in _reportable(tenants)


def test_a_run_whose_name_is_taken_fails_and_says_so(tenants: Tenants, orders: MessageStream) -> None:
    number = int(tenants.one.read("MessageStream", "orders")["status"]["runNumber"]) + 1
    taken = {"metadata": {"name": numbered_run_name(orders, "ingest", number)}, "data": {"theirs": "yes"}}
    _make(tenants, _config_maps(tenants), taken)
    _ask(tenants)
    events = eventually(lambda: tenants.one._events("MessageStream", "orders", "SubmissionFailed"), of=tenants.operator)
    assert any(taken["metadata"]["name"] in event["message"] for event in events)
    found = tenants.one.server.request("GET", f"{_config_maps(tenants)}/{taken['metadata']['name']}").body
    assert (found["data"], "ownerReferences" in found["metadata"]) == ({"theirs": "yes"}, False)
    eventually(lambda: _runs(tenants) > number, of=tenants.operator)


def test_a_driver_changes_the_data_of_its_config_map_and_no_metadata(tenants: Tenants, orders: MessageStream) -> None:
    run = numbered_run_name(orders, "ingest", _runs(tenants))
    _name_in_role(tenants, run)
    path, driver = (
        f"{_config_maps(tenants)}/{run}",
        f"system:serviceaccount:{tenants.one.namespace}:message-store-driver",
    )

    def answers(body: Document, expected: int) -> bool:
        status = tenants.one.server.request("PATCH", path, body, MERGE, driver, f"{run}-driver").status
        if status == 403:
            # The operator writes the Role, too.
            _name_in_role(tenants, run)
        return status == expected

    eventually(lambda: answers({"metadata": {"labels": {"try": str(time.monotonic())}}}, 422))
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]
    for change in (
        {"labels": {RUN: "payroll"}},
        {"annotations": {"messagestore.dev/run-number": "9"}},
        {"finalizers": ["example.org/stay"]},
        {"ownerReferences": owners},
        {"labels": None},
    ):
        eventually(lambda change=change: answers({"metadata": change}, 422))
    eventually(lambda: answers({"data": {"note": "report"}}, 200))


@pytest.mark.usefixtures("_others")
def test_the_operator_touches_no_object_of_others_whatever_its_labels_name_and_owners(
    tenants: Tenants, orders: MessageStream
) -> None:
    chosen = random.Random(SEED)
    made = [_random(chosen, number, orders) for number in range(OBJECTS)]
    for document in made:
        path = sparkoperator.path(tenants.one.namespace) if "spec" in document else _config_maps(tenants)
        _make(tenants, path, document)
    before = _versions(tenants)
    _looked_again(tenants)
    assert _versions(tenants) == before
    assert {document["metadata"]["name"] for document in made} & set(_reportable(tenants)) == set()


def _random(chosen: random.Random, number: int, stream: MessageStream) -> Document:
    """An object of an editor, labelled, annotated, named and owned as if it belonged to a run."""
    kinds = ("ingest", "purge", "erase", "replay", "maintain", "delete")
    real = numbered_run_name(stream, "ingest", 1)
    names = ["payroll", "kube-root-ca.crt", "payments-config", real, "", "a/b", "x" * 63]
    ref = RunRef("", chosen.choice(names), chosen.choice([0, 1, 2, 10**9]), chosen.choice(kinds))
    labels = {key: value for key, value in run_labels(ref, stream).items() if "/" not in value}
    for label in chosen.sample(sorted(labels), chosen.randrange(3)):
        if not SELECTOR.startswith(label):
            del labels[label]
    later = numbered_run_name(stream, chosen.choice(kinds), 1000 + number)
    name = chosen.choice([f"of-others-{number}", later, f"{real[:-1]}-{number}", f"of-others-{number}-driver"])
    uid = stream.metadata.uid
    owner = {"apiVersion": "messagestore.dev/v1alpha1", "kind": "MessageStream", "name": "orders", "uid": uid}
    metadata = {
        "name": name,
        "labels": labels,
        "annotations": run_annotations(ref),
        "ownerReferences": chosen.choice([[], [owner]]),
    }
    return {**_application(name), "metadata": metadata} if chosen.random() < 0.4 else {"metadata": metadata}


def _forged(stream: MessageStream, name: str, run: str) -> Document:
    ref = RunRef(stream.metadata.namespace, run, 1, "ingest")
    return {"metadata": {"name": name, "labels": run_labels(ref, stream), "annotations": run_annotations(ref)}}


def _application(name: str) -> Document:
    spec = {
        "type": "Python",
        "mode": "cluster",
        "sparkVersion": "4.1.0",
        "mainApplicationFile": "local:///theirs.py",
        "driver": {},
        "executor": {},
    }
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": name},
        "spec": spec,
    }


def _make(tenants: Tenants, path: str, document: Document) -> None:
    answer = tenants.one.server.request("POST", path, document)
    assert answer.accepted or answer.body.get("reason") == "AlreadyExists", answer.body


def _config_maps(tenants: Tenants) -> str:
    return f"/api/v1/namespaces/{tenants.one.namespace}/configmaps"


def _list(tenants: Tenants, path: str) -> list[Document]:
    found: list[Document] = tenants.one.server.request("GET", path).body["items"]
    return found


def _versions(tenants: Tenants) -> dict[tuple[str, str], str]:
    """The objects that no run of the operator made, with uid and data; simulated Spark sets statuses of all."""
    runs = {run.name for run in tenants.sparks[tenants.one.namespace].runs.values()}
    found = {}
    for path in (sparkoperator.path(tenants.one.namespace), _config_maps(tenants)):
        for document in _list(tenants, path):
            name, uid = document["metadata"]["name"], document["metadata"]["uid"]
            if name not in runs:
                found[path, name] = f"{uid} {document.get('data')} {document['metadata'].get('ownerReferences')}"
    return found


def _reportable(tenants: Tenants) -> list[str]:
    """The ConfigMaps that the drivers of the namespace may change."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{tenants.one.namespace}/roles/{ROLE}"
    rules = tenants.one.server.request("GET", path).body.get("rules") or []
    return [name for rule in rules for name in rule["resourceNames"]]


def _name_in_role(tenants: Tenants, run: str) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{tenants.one.namespace}/roles/{ROLE}"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [run], "verbs": ["get", "patch"]}
    assert tenants.one.server.request("PATCH", path, {"rules": [rule]}, MERGE).accepted


_requests = itertools.count(1)


def _asked(number: int) -> dict[str, str]:
    return {"messagestore.dev/run-requested": str(number)}


def _ask(tenants: Tenants) -> None:
    patch = {"metadata": {"annotations": _asked(next(_requests))}}
    assert tenants.one.change("MessageStream", "orders", patch).accepted


def _runs(tenants: Tenants) -> int:
    """The number of the stream's last run, once that has ended."""
    status = tenants.one.read("MessageStream", "orders").get("status", {})
    return 0 if status.get("currentRun") or not status.get("lastRun") else int(status["runNumber"])


def _looked_again(tenants: Tenants) -> None:
    """Have the stream make another run, so that the operator decides about its runs and writes the Role."""
    before = _runs(tenants)
    _ask(tenants)
    eventually(lambda: _runs(tenants) > before, of=tenants.operator)
