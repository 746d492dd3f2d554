"""Policies and replays beside their streams, with the operator as a process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.apiserver import ApiServer
from support.fakespark import FakeSpark
from support.launches import stream
from support.operators import Operator, eventually, running_operator

ROOT = "/apis/messagestore.dev/v1alpha1/namespaces"
PLURALS = {"MessageStream": "messagestreams", "RetentionPolicy": "retentionpolicies", "ReplayJob": "replayjobs"}


@pytest.fixture
def operator(apiserver: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    settings = {"namespace": namespace, "watchNamespaces": [namespace]}
    with running_operator(apiserver, tmp_path, settings) as started:
        yield started


def _apply(server: ApiServer, namespace: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    document = {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    answer = server.request("POST", f"{ROOT}/{namespace}/{PLURALS[kind]}?fieldValidation=Strict", document)
    assert answer.accepted, answer.body


def _stream(server: ApiServer, namespace: str, name: str, **spec: Any) -> None:
    _apply(server, namespace, "MessageStream", name, stream(name, namespace=namespace, **spec).to_dict()["spec"])


def _policy(server: ApiServer, namespace: str, name: str, **spec: Any) -> None:
    rules = [{"name": "old", "maxAge": "P1D"}]
    _apply(server, namespace, "RetentionPolicy", name, {"trigger": {"manual": {}}, "rules": rules, **spec})
    _annotate(server, namespace, "RetentionPolicy", name, "messagestore.dev/run-requested", "now")


def _annotate(server: ApiServer, namespace: str, kind: str, name: str, annotation: str, value: str) -> None:
    path, body = f"{ROOT}/{namespace}/{PLURALS[kind]}/{name}", {"metadata": {"annotations": {annotation: value}}}
    assert server.request("PATCH", path, body, "application/merge-patch+json").accepted


def _status(server: ApiServer, namespace: str, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.request("GET", f"{ROOT}/{namespace}/{PLURALS[kind]}/{name}").body.get("status", {})
    return found


def _ready(server: ApiServer, namespace: str, policy: str) -> dict[str, Any]:
    conditions = _status(server, namespace, "RetentionPolicy", policy).get("conditions", [])
    return next((one for one in conditions if one["type"] == "Ready"), {})


def test_a_continuous_stream_gives_way_to_a_waiting_purge_and_goes_on(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _stream(apiserver, namespace, "orders", trigger={"continuous": {"batchInterval": "PT1S"}})
    eventually(lambda: spark.launched("orders-"), of=operator)
    _policy(apiserver, namespace, "old", streamRefs=[{"name": "orders"}], mode="Enforce")
    eventually(lambda: _status(apiserver, namespace, "RetentionPolicy", "old").get("purged") == 1, of=operator)
    eventually(lambda: len(spark.launched("orders-")) == 2, of=operator)
    kinds = [run.document["task"]["kind"] for run in spark.launched("")]
    assert kinds == ["ingest", "purge", "ingest"]


def test_a_purge_of_two_streams_tells_of_each(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    for name in ("orders", "returns"):
        _stream(apiserver, namespace, name, trigger={"manual": {}})
    _policy(apiserver, namespace, "old", streamRefs=[{"name": "orders"}, {"name": "returns"}], mode="Enforce")
    status = eventually(
        lambda: (one := _status(apiserver, namespace, "RetentionPolicy", "old")).get("purged") == 2 and one, of=operator
    )
    assert {entry["name"]: entry["lastPurge"]["purged"] for entry in status["streams"]} == {"orders": 1, "returns": 1}


def test_a_policy_on_a_missing_stream_says_so_and_runs_once_the_stream_exists(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _policy(apiserver, namespace, "old", streamRefs=[{"name": "orders"}])
    eventually(lambda: _ready(apiserver, namespace, "old").get("reason") == "StreamMissing", of=operator)
    _stream(apiserver, namespace, "orders", trigger={"manual": {}})
    eventually(lambda: _ready(apiserver, namespace, "old").get("reason") == "Previewed", of=operator)


def test_a_policy_that_would_archive_into_a_landing_folder_gets_no_run_until_the_stream_reads_elsewhere(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    landing = f"s3a://landing/{namespace}"
    _stream(apiserver, namespace, "orders", trigger={"manual": {}}, source={"files": {"uri": landing}})
    _policy(
        apiserver, namespace, "old", streamRefs=[{"name": "orders"}], archive={"uri": f"{landing}/old"}, mode="Enforce"
    )
    refused = eventually(
        lambda: (one := _ready(apiserver, namespace, "old")).get("reason") == "FoldersOverlap" and one, of=operator
    )
    assert "spec.archive.uri: must not contain spec.source.files.uri of MessageStream orders" in refused["message"]
    query = "fieldSelector=involvedObject.name=old,reason=FoldersOverlap"
    events = f"/api/v1/namespaces/{namespace}/events?{query}"
    (event,) = eventually(lambda: apiserver.request("GET", events).body["items"], of=operator)
    assert (event["type"], event["message"]) == ("Warning", refused["message"])
    assert spark.launched("old-") == []
    path = f"{ROOT}/{namespace}/messagestreams/orders"
    moved = {"spec": {"source": {"files": {"uri": f"s3a://arrivals/{namespace}"}}}}
    assert apiserver.request("PATCH", path, moved, "application/merge-patch+json").accepted
    eventually(lambda: _status(apiserver, namespace, "RetentionPolicy", "old").get("purged") == 1, of=operator)


def test_a_replay_to_files_runs_beside_a_stream_that_writes(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _stream(apiserver, namespace, "orders", trigger={"continuous": {"batchInterval": "PT1S"}})
    eventually(lambda: spark.launched("orders-"), of=operator)
    files = {"files": {"uri": f"s3a://replay/{namespace}"}}
    _apply(apiserver, namespace, "ReplayJob", "again", {"streamRef": {"name": "orders"}, "destination": files})
    eventually(lambda: _status(apiserver, namespace, "ReplayJob", "again").get("phase") == "Succeeded", of=operator)
    assert not spark.launched("orders-")[0].over
    assert len(spark.launched("orders-")) == len(spark.launched("again-")) == 1


def test_after_a_redrive_both_streams_show_their_new_figures(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _stream(apiserver, namespace, "orders", trigger={"interval": "P1D"})
    _stream(apiserver, namespace, "copy", trigger={"manual": {}})
    eventually(lambda: _status(apiserver, namespace, "MessageStream", "orders").get("table"), of=operator)
    redrive = {"streamRef": {"name": "orders"}, "origin": "DeadLetters", "destination": {"stream": {"name": "copy"}}}
    _apply(apiserver, namespace, "ReplayJob", "again", redrive)
    copy = eventually(lambda: _status(apiserver, namespace, "MessageStream", "copy").get("table"), of=operator)
    assert (copy["messages"], copy["lastGlobalPosition"]) == (4, 4)
    eventually(
        lambda: _status(apiserver, namespace, "MessageStream", "orders")["table"]["deadLetters"] == 1, of=operator
    )
    assert [run.document["task"]["kind"] for run in spark.launched("")] == ["ingest", "replay"]


def test_a_replay_stops_for_an_erasure_and_goes_on_after_it(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    def kinds() -> list[str]:
        return [run.document["task"]["kind"] for run in spark.launched("")]

    # The first run of the replay would go on for ever.
    spark.goes_on = lambda document: document["task"]["kind"] == "replay" and "erase" not in kinds()
    _stream(apiserver, namespace, "orders", trigger={"manual": {}})
    files = {"files": {"uri": f"s3a://replay/{namespace}"}}
    _apply(apiserver, namespace, "ReplayJob", "again", {"streamRef": {"name": "orders"}, "destination": files})
    eventually(lambda: spark.launched("again-"), of=operator)
    rules = [{"name": "gone", "match": {"messageIds": ["m1"]}, "erase": True}]
    named = [{"name": "orders"}]
    _policy(apiserver, namespace, "gone", streamRefs=named, mode="Enforce", rules=rules)
    eventually(lambda: _status(apiserver, namespace, "ReplayJob", "again").get("phase") == "Succeeded", of=operator)
    assert kinds() == ["replay", "purge", "erase", "replay"]
    first, _, erasure, second = spark.launched("")
    assert first.ended is not None
    assert first.ended < erasure.started
    assert erasure.ended is not None
    assert erasure.ended < second.started
    assert first.document["task"]["jobId"] == second.document["task"]["jobId"]
    (entry,) = _status(apiserver, namespace, "RetentionPolicy", "gone")["streams"]
    assert entry["lastPurge"]["erasedAt"] >= entry["lastPurge"]["at"]
    assert not _status(apiserver, namespace, "ReplayJob", "again").get("failures")


_TOPIC = {"kafka": {"bootstrapServers": "kafka:9092", "topic": "out"}}


def _continuous(server: ApiServer, namespace: str) -> None:
    spec = {"start": {"at": "Beginning"}, "trigger": {"continuous": {}}, "destination": _TOPIC}
    _apply(server, namespace, "ReplayJob", "out", {"streamRef": {"name": "orders"}, **spec})


def _change(server: ApiServer, namespace: str, **spec: Any) -> None:
    path, body = f"{ROOT}/{namespace}/{PLURALS['ReplayJob']}/out", {"spec": spec}
    assert server.request("PATCH", path, body, "application/merge-patch+json").accepted


def test_a_continuous_replay_goes_on_and_starts_again_for_a_reset_a_spec_and_a_pause(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _stream(apiserver, namespace, "orders", trigger={"manual": {}})
    _continuous(apiserver, namespace)

    def phase() -> str | None:
        found: str | None = _status(apiserver, namespace, "ReplayJob", "out").get("phase")
        return found

    def launched(count: int) -> bool:
        return len(spark.launched("out-")) == count and phase() == "Running"

    eventually(lambda: launched(1), of=operator)
    _annotate(apiserver, namespace, "ReplayJob", "out", "messagestore.dev/reset-to", "1")
    eventually(lambda: launched(2), of=operator)
    _change(apiserver, namespace, select={"categories": ["order"]})
    eventually(lambda: launched(3), of=operator)
    _change(apiserver, namespace, suspend=True)
    eventually(lambda: phase() == "Paused", of=operator)
    _change(apiserver, namespace, suspend=False)
    eventually(lambda: launched(4), of=operator)
    asked = [run.document["task"]["subscription"].get("reset") for run in spark.launched("out-")]
    assert [one and one["value"] for one in asked] == [None, "1", "1", "1"]
    assert all(run.document["task"]["subscription"]["continuous"] for run in spark.launched("out-"))


def test_an_erasure_runs_beside_a_continuous_replay_that_knows_its_tombstones(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _stream(apiserver, namespace, "orders", trigger={"manual": {}})
    _continuous(apiserver, namespace)
    eventually(lambda: spark.launched("out-"), of=operator)
    rules = [{"name": "gone", "match": {"messageIds": ["m1"]}, "erase": True}]
    _policy(apiserver, namespace, "gone", streamRefs=[{"name": "orders"}], mode="Enforce", rules=rules)

    def is_erased() -> bool:
        entries = _status(apiserver, namespace, "RetentionPolicy", "gone").get("streams", [])
        return any("erasedAt" in entry.get("lastPurge", {}) for entry in entries)

    eventually(is_erased, of=operator)
    (sending,) = spark.launched("out-")
    assert not sending.over


def test_each_destination_has_conditions_and_the_replay_is_stalled_only_if_all_are(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _stream(apiserver, namespace, "orders", trigger={"manual": {}})
    named = {"bootstrapServers": "kafka:9092", "topicFrom": {"header": "topic", "pattern": "orders[.].*"}}
    several = [{"name": "named", "where": "type = 'a'", "kafka": named}, {"name": "rest", "otherwise": True, **_TOPIC}]
    ahead = {"reason": "CursorAhead", "message": "the store was laid back"}
    spark.away = {"named": ahead}
    spec = {"streamRef": {"name": "orders"}, "start": {"at": "Beginning"}, "destinations": several}
    _apply(apiserver, namespace, "ReplayJob", "out", {**spec, "trigger": {"manual": {}}})

    def after(request: str, seen: dict[str, Any], **destinations: str) -> None:
        """Wait for these conditions after a run, of the replay and of each destination."""
        _annotate(apiserver, namespace, "ReplayJob", "out", "messagestore.dev/run-requested", request)

        def found() -> bool:
            status = _status(apiserver, namespace, "ReplayJob", "out")
            ones = {one["name"]: _true(one) for one in status.get("destinations", [])}
            return (_true(status), ones) == (seen["true"], destinations) and status.get("phase") == seen["phase"]

        eventually(found, of=operator)

    after("1", {"true": "Ready Degraded", "phase": "Idle"}, named="Stalled", rest="Ready")
    spark.away = {"named": ahead, "rest": ahead}
    after("2", {"true": "Stalled", "phase": "Stalled"}, named="Stalled", rest="Stalled")
    spark.away = {}
    after("3", {"true": "Ready", "phase": "Idle"}, named="Ready", rest="Ready")
    runs = len(spark.launched("out-"))
    # All the time, the run itself tells which fails.
    spark.away = {"named": ahead}
    _change(apiserver, namespace, trigger={"continuous": {}, "manual": None})
    after("3", {"true": "Ready Degraded", "phase": "Running"}, named="Stalled", rest="Ready")
    assert len(spark.launched("out-")) == runs + 1


def _true(status: dict[str, Any]) -> str:
    return " ".join(one["type"] for one in status.get("conditions", []) if one["status"] == "True")
