"""The operator serves a tenant in its own namespace; the tenant reaches no other, and may only edit the three kinds."""

from typing import Any

import pytest

from messagestore_operator.api import MessageStream
from messagestore_operator.cluster.labels import run_annotations, run_labels
from messagestore_operator.decide.snapshot import RunRef
from messagestore_operator.translate.names import numbered_run_name
from support.operators import eventually
from support.tenants import Tenants

THEIRS = {"name": "theirs", "namespace": "neighbour"}
"""A reference has only a name; the API server drops the namespace."""


def test_a_tenants_stream_is_served(tenants: Tenants) -> None:
    assert tenants.one.stream("served", trigger={"interval": "PT1H"}).accepted
    assert tenants.one.ready("served", of=tenants.operator)["totals"]["stored"] == 2
    assert tenants.operator.get("/readyz")[0] == 200


def test_a_refused_predicate_is_reported_in_the_status_and_by_an_event(tenants: Tenants) -> None:
    assert tenants.one.stream("refused", filter={"where": "java_method('java.lang.System', 'exit', 1) = 1"}).accepted
    told = tenants.one.told("refused", "PredicateRefused", of=tenants.operator)
    assert told.words.startswith("spec.filter.where: ")
    assert "PredicateRefused" in told.said
    assert not [name for name in tenants.launched(tenants.one) if name.startswith("refused")]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/{own}/secrets",
        "/api/v1/namespaces/{other}/pods",
        "/api/v1/namespaces/{other}/configmaps",
        "/api/v1/namespaces/{own}/serviceaccounts",
        "/apis/sparkoperator.k8s.io/v1beta2/namespaces/{other}/sparkapplications",
        "/apis/messagestore.dev/v1alpha1/namespaces/{other}/messagestreams",
        "/apis/coordination.k8s.io/v1/namespaces/{operators}/leases",
    ],
)
def test_a_tenant_can_not_read_other_objects(tenants: Tenants, path: str) -> None:
    names = {"own": tenants.one.namespace, "other": tenants.other.namespace}
    answer = tenants.one.request("GET", path.format(operators=tenants.chart.settings["namespace"], **names))
    assert answer.status == 403


@pytest.mark.parametrize("part", ["{streams}/own/status", "/api/v1/namespaces/{own}", "/api/v1/namespaces/{other}"])
def test_a_tenant_can_not_write_a_status_or_a_namespace(tenants: Tenants, part: str) -> None:
    streams, names = tenants.one.path("MessageStream"), {"own": tenants.one.namespace, "other": tenants.other.namespace}
    paused = {"metadata": {"annotations": {"messagestore.dev/paused": "true"}}, "status": {"runNumber": 7}}
    path = part.format(streams=streams, **names)
    assert tenants.one.request("PATCH", path, paused, "application/merge-patch+json").status == 403


def _conf(name: str, value: str) -> dict[str, Any]:
    return {"spark": {"conf": {name: value}}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (_conf("spark.dynamicAllocation.executorIdleTimeout", "TRANSFORM (id) USING 'sh'"), "the value must be a time"),
        (_conf("spark.sql.variable.substitute", "true"), "conf holds a setting that is not allowed"),
        (_conf("spark.jars", "s3a://theirs/code.jar"), "conf holds a setting that is not allowed"),
        (_conf("spark.driver.extraJavaOptions", "-javaagent:/tmp/x.jar"), "conf holds a setting that is not allowed"),
        (_conf("spark.authenticate", "false"), "conf holds a setting that is not allowed"),
        (_conf("spark.eventLog.enabled", "true"), "conf holds a setting that is not allowed"),
        ({"trigger": {"schedule": {"cron": "R 3 * * *"}}}, "spec.trigger.schedule.cron"),
        ({"table": {"uri": "s3a://lake/own/../theirs"}}, "must not hold . or .. as a part of its path"),
        ({"storage": {"endpoint": "https://user:secret@objects.example.org"}}, "spec.storage.endpoint"),
    ],
)
def test_the_api_server_itself_refuses_forbidden_values(tenants: Tenants, spec: dict[str, Any], words: str) -> None:
    answer = tenants.one.stream("at-once", **spec)
    assert answer.status == 422
    assert words in answer.body["message"]


@pytest.mark.parametrize(
    ("name", "kind", "spec"),
    [
        ("reads", "ReplayJob", {"streamRef": THEIRS}),
        (
            "sends",
            "ReplayJob",
            {"streamRef": {"name": "mine"}, "destination": {"stream": THEIRS}},
        ),
        ("purges", "RetentionPolicy", {"streamRefs": [THEIRS], "mode": "Enforce"}),
    ],
)
def test_a_policy_or_replay_is_about_streams_of_its_own_namespace(
    tenants: Tenants, name: str, kind: str, spec: dict[str, Any]
) -> None:
    tenants.other.stream("theirs", trigger={"manual": {}})
    tenants.one.stream("mine", trigger={"manual": {}})
    asked = {"messagestore.dev/run-requested": "now"}
    assert tenants.one.make(kind, name, spec, annotations=asked).accepted
    told = tenants.one.told(name, "StreamMissing", kind, of=tenants.operator)
    assert "there is no MessageStream theirs" in told.words
    assert not [run for tenant in (tenants.one, tenants.other) for run in tenants.launched(tenant) if name in run]


def test_a_selector_finds_streams_of_its_own_namespace(tenants: Tenants) -> None:
    labels, manual = {"team": "shop"}, {"trigger": {"manual": {}}}
    assert tenants.other.make("MessageStream", "labelled-there", manual, labels=labels).accepted
    assert tenants.one.make("MessageStream", "labelled-here", manual, labels=labels).accepted
    # Each kind has its own watch: that of policies may be ahead.
    eventually(lambda: tenants.one.read("MessageStream", "labelled-here").get("status"), of=tenants.operator)
    spec = {"streamRefs": None, "streamSelector": {"matchLabels": labels}, "mode": "Enforce"}
    asked = {"messagestore.dev/run-requested": "now"}
    assert tenants.one.make("RetentionPolicy", "selects", spec, annotations=asked).accepted
    status = tenants.one.ready("selects", "RetentionPolicy", of=tenants.operator)
    assert [entry["name"] for entry in status["streams"]] == ["labelled-here"]
    assert not [run for run in tenants.launched(tenants.other) if run.startswith("selects")]


def test_an_object_of_another_namespace_that_looks_like_a_run_is_not_taken_for_one(tenants: Tenants) -> None:
    """Anyone who may create ConfigMaps, such as the cluster's own editors, can give them any label."""
    assert tenants.one.stream("victim", suspend=True, trigger={"interval": "PT1H"}).accepted
    victim = MessageStream.model_validate(tenants.one.read("MessageStream", "victim"))
    forged = RunRef(tenants.other.namespace, numbered_run_name(victim, "ingest", 1), 1, "ingest")
    metadata = {"name": forged.name, "labels": run_labels(forged, victim), "annotations": run_annotations(forged)}
    path = f"/api/v1/namespaces/{tenants.other.namespace}/configmaps"
    assert tenants.one.server.request("POST", path, {"metadata": metadata}).accepted
    assert tenants.one.change("MessageStream", "victim", {"spec": {"suspend": False}}).accepted
    last = eventually(lambda: tenants.one.ready("victim", of=tenants.operator).get("lastRun"), of=tenants.operator)
    assert (last["name"], last["state"]) == (forged.name, "Succeeded")
