"""Each query of the dashboard has series in a Prometheus that scrapes an operator at work; the test fakes Spark."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hack.dashboard.build import FILE, chosen

from support.apiserver import ApiServer
from support.background import repeated
from support.fakespark import FakeSpark, fake_spark
from support.interception import Interception, intercepting
from support.launches import stream
from support.operators import Operator, eventually, running_operator
from support.prometheus import running_prometheus
from support.waiting import wait_until

SEEN, UNSEEN = "dashboard", "dashboard-without-spark"
ROOT = "/apis/messagestore.dev/v1alpha1/namespaces"
PLURALS = {"MessageStream": "messagestreams", "RetentionPolicy": "retentionpolicies", "ReplayJob": "replayjobs"}
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
SOON = timedelta(hours=8)


@pytest.fixture
def spark(apiserver: ApiServer) -> Iterator[FakeSpark]:
    """Spark in one of two namespaces: in the other no driver ever starts."""
    for name in (SEEN, UNSEEN):
        assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).accepted
    with fake_spark(apiserver, SEEN) as fake:
        yield fake
    for plural in PLURALS.values():
        for name in (SEEN, UNSEEN):
            apiserver.request("DELETE", f"{ROOT}/{name}/{plural}")
    assert (fake.problems, fake.overlaps) == ([], [])


def test_each_query_of_the_dashboard_has_series(apiserver: ApiServer, spark: FakeSpark, tmp_path: Path) -> None:
    spark.tells = _Telling()
    spark.goes_on = lambda document: document["run"].startswith("again-")
    spark.away = {"hook": {"reason": "DestinationDenied", "message": "401"}}
    with (
        _working(apiserver, tmp_path) as (operator, way),
        running_prometheus(tmp_path / "p", operator.metrics_port) as p,
    ):
        _apply_everything(apiserver)
        _fail_once(operator, way)
        with repeated(partial(_send, apiserver, spark, count(10)), 0.5):
            missing = set(_queries())

            def found() -> bool:
                missing.difference_update({query for query in missing if p.ask(_chosen(query))})
                return not missing

            wait_until(found, 30, lambda: f"no series of {missing}\n{operator.text[-3000:]}", beat=0.5)


def _queries() -> Iterator[str]:
    """All that the dashboard asks, the values of its variables too."""
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield _values_of(variable["query"])
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))


def _chosen(query: str) -> str:
    found = chosen(query, __rate_interval="10s", namespace=f"{SEEN}.*", stream=".*")
    assert "$" not in found.replace('"$1"', ""), "a variable that there is not"
    return found


def _values_of(query: str) -> str:
    """A query whose series have the values that Grafana's label_values lists."""
    selector, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(", ")
    return f"count by ({label}) ({selector})"


@contextmanager
def _working(server: ApiServer, folder: Path) -> Iterator[tuple[Operator, Interception]]:
    """An operator whose way to the API server can be cut; without election, as it would exit then."""
    settings = {"namespace": SEEN, "watchNamespaces": [SEEN, UNSEEN], "leader": {"enabled": False}}
    with intercepting(f"https://127.0.0.1:{server.port}") as way:
        config = ApiServer(way.port, server.certificate).kubeconfig(folder)
        with running_operator(server, folder, settings, config) as operator:
            yield operator, way


def _fail_once(operator: Operator, way: Interception) -> None:
    errors = "messagestore_operator_reconcile_errors_total"
    eventually(lambda: operator.figure("messagestore_operator_reconcile_seconds_count"), of=operator)
    way.break_down()
    eventually(lambda: operator.figure(errors), of=operator)
    way.mend()


def _apply_everything(server: ApiServer) -> None:
    """Streams, policies and replays by which each figure is told."""
    for namespace, name in ((SEEN, "orders"), (SEEN, "invoices"), (UNSEEN, "orders")):
        _apply(server, namespace, "MessageStream", name, stream(name, trigger={"interval": "PT1S"}).to_dict()["spec"])
    old: dict[str, Any] = {"streamRefs": [{"name": "orders"}], "trigger": {"manual": {}}, "mode": "Enforce"}
    _apply(
        server,
        SEEN,
        "RetentionPolicy",
        "old",
        {**old, "rules": [{"name": "old", "maxAge": "P1D"}], "approval": "Required"},
    )
    erased = {"name": "gone", "match": {"messageIds": ["m1"]}, "erase": True}
    _apply(server, SEEN, "RetentionPolicy", "gone", {**old, "rules": [erased]})
    files = {"files": {"uri": "s3a://replay/again"}}
    _apply(server, SEEN, "ReplayJob", "again", {"streamRef": {"name": "orders"}, "destination": files})
    topic = {"kafka": {"bootstrapServers": "kafka:9092", "topic": "out"}}
    several = [{"name": "hook", "where": "type = 'a'", **topic}, {"name": "rest", "otherwise": True, **topic}]
    out = {"start": {"at": "Beginning"}, "trigger": {"interval": "PT1S"}, "destinations": several}
    _apply(server, SEEN, "ReplayJob", "out", {"streamRef": {"name": "orders"}, **out})


def _apply(server: ApiServer, namespace: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    document = {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "annotations": {"messagestore.dev/run-requested": "now"}},
        "spec": spec,
    }
    answer = server.request("POST", f"{ROOT}/{namespace}/{PLURALS[kind]}?fieldValidation=Strict", document)
    assert answer.accepted, answer.body


class _Telling:
    """Gives the reports of the fake runs the figures that a store has which has seen much."""

    def __init__(self) -> None:
        self._ingests = count(1)

    def __call__(self, document: dict[str, Any], report: dict[str, Any]) -> None:
        outcome, now = report.get("outcome") or {}, datetime.now(UTC)
        lag = {"asOf": now.isoformat(), "files": 3, "records": 20, "oldestPendingTime": now.isoformat()}
        if report["state"] != "Running":
            report["usage"] = {"driverCpuSeconds": 2.5, "bytesWritten": 4096}
        match outcome.get("kind"):
            case "ingest":
                runs = next(self._ingests)
                counts = {
                    "received": 15,
                    "stored": 10,
                    "duplicates": 1,
                    "deadLettered": 2,
                    "filtered": 1,
                    "discarded": 1,
                }
                reasons = {"Unparseable": runs, "MissingField": runs}
                outcome["counts"] = counts
                outcome["totals"] = {name: number * runs for name, number in counts.items()}
                outcome["table"] |= {"deadLetters": 2 * runs, "deadLettersByReason": reasons, "smallFiles": 5}
                lost = {"topic": "orders", "partition": 0, "start": 0, "end": 4, "reason": "Retention"}
                if document["run"].startswith("invoices-"):
                    del lag["records"]  # as of files: records are counted in topics
                stages = ("readSeconds", "decideSeconds", "setAsideSeconds", "commitSeconds", "waitedSeconds")
                outcome["lastBatch"] = dict.fromkeys(stages, 0.5)
                outcome |= {"lag": lag, "loss": {"records": 4, "at": now.isoformat(), **lost}}
            case "purge" if document["run"].startswith("gone-"):
                outcome["purge"]["eraseDueBy"] = (now + SOON).isoformat()
            case "purge":
                outcome |= {"awaitingApproval": True, "purge": None}
                outcome["preview"] |= {"held": 2, "subscriptions": [{"name": "out", "waiting": 3}]}
            case "replay":
                for state in outcome.get("destinations", []):
                    state["cursor"] = {**state["cursor"], "lag": lag, "missed": 1, "setAside": 1}


def _send(server: ApiServer, spark: FakeSpark, numbers: Iterator[int]) -> None:
    """Have the replay that goes on tell that it has sent more."""
    for run in spark.launched("again-"):
        sent = next(numbers)
        outcome = {
            "kind": "replay",
            "selection": {"tableVersion": 1, "messages": 1000, "bytes": 100},
            "progress": {"replayed": sent, "failed": 1, "percent": sent // 10},
        }
        now = datetime.now(UTC).isoformat()
        report = {"run": run.name, "sequence": sent, "state": "Running", "startedAt": now, "outcome": outcome}
        path, merge = f"/api/v1/namespaces/{run.namespace}/configmaps/{run.name}", "application/merge-patch+json"
        server.request("PATCH", path, {"data": {"report.json": json.dumps(report)}}, merge)
