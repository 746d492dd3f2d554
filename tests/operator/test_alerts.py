"""Faults raise the chart's alerts in a real Prometheus and Alertmanager; what the runbooks say ends them.

The operator and the API server are real, Spark is faked. Times of the rules are short here: `for` is a second, and what
they look back at ten seconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.alerts import quick_rules, wait_for_alerts
from support.apiserver import ApiServer
from support.fakespark import DENIED, fake_spark
from support.launches import stream
from support.operators import FAST, running_operator
from support.prometheus import Alertmanager, running_alertmanager, running_prometheus
from support.reader import OURS, Reader

OWN = "messaging"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
LEADER = "message-store-operator-leader"
LABELS = {"namespace": "messagestore", "service": "store-message-store-operator-metrics"}
"""What a ServiceMonitor gives the operator's own series, and the rules ask for."""
OF_RESOURCES = {"StreamStalled", "DeadLetterSpike", "RecordsLost", "ApprovalWaiting", "ReplayFailing"}
TOPIC = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["clicks"]}}


@dataclass
class World:
    """What runs meet outside of the cluster, and what they report of it."""

    keys_are_wrong: bool = True
    records_are_broken: bool = True
    topic_forgets: bool = True
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("received", "stored", "deadLettered"), 0))
    lost: int = 0

    def opens(self, document: dict[str, Any]) -> dict[str, str] | None:
        """The error of a run of stream orders or replay orders-again."""
        return DENIED if self.keys_are_wrong and document["resource"]["name"] in ("orders", "orders-again") else None

    def tells(self, document: dict[str, Any], report: dict[str, Any]) -> None:
        """Change the report of a run that has ended."""
        outcome, name = report.get("outcome") or {}, document["resource"]["name"]
        if outcome.get("kind") == "ingest" and name != "orders":
            self.totals["received"] += 10
            self.totals["deadLettered" if self.records_are_broken else "stored"] += 10
            outcome["totals"] = {**dict.fromkeys(("duplicates", "filtered", "discarded"), 0), **self.totals}
            if name == "clicks" and self.topic_forgets and self.totals["received"] > 50:
                self.lost += 4
            if name == "clicks" and self.lost:
                where = {"topic": "clicks", "partition": 0, "start": 0, "end": 4, "reason": "Retention"}
                outcome["loss"] = {"records": self.lost, "at": datetime.now(UTC).isoformat(), **where}
        if outcome.get("kind") == "purge" and document["task"].get("approvedPreview") != outcome["preview"]["id"]:
            outcome |= {"awaitingApproval": True, "purge": None}


@pytest.fixture
def reader(apiserver: ApiServer, tmp_path: Path) -> Iterator[Reader]:
    """Somebody who follows runbooks; no replica leads, as a Lease names one that is gone."""
    assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": OWN}}).accepted
    held = {"holderIdentity": "gone", "leaseDurationSeconds": 3600, "leaseTransitions": 0}
    assert apiserver.request("POST", LEASE, {"metadata": {"name": LEADER}, "spec": held}).accepted
    yield Reader(apiserver, tmp_path)
    for plural in ("messagestreams", "retentionpolicies", "replayjobs"):
        apiserver.request("DELETE", f"{OURS}/{plural}")


@pytest.fixture
def alerts(tmp_path: Path) -> Iterator[Alertmanager]:
    with running_alertmanager(tmp_path / "alertmanager") as server:
        yield server


def test_faults_raise_alerts_and_what_runbooks_say_ends_them(
    apiserver: ApiServer, reader: Reader, alerts: Alertmanager, tmp_path: Path
) -> None:
    settings = {"namespace": OWN, "watchNamespaces": [OWN], "runs": {**FAST["runs"], "stalledAfter": "PT1S"}}
    world = World()
    with (
        fake_spark(apiserver, OWN) as spark,
        running_operator(apiserver, tmp_path / "operator", settings) as operator,
        running_prometheus(
            tmp_path / "p", operator.metrics_port, labels=LABELS, rules=quick_rules(), alertmanager=alerts.port
        ),
    ):
        wait_for_alerts(alerts, {"OperatorHasNoLeader"})
        assert alerts.firing() == {"MessageStoreOperatorHasNoLeader"}
        spark.opens, spark.tells = world.opens, world.tells
        _apply_everything(reader)
        apiserver.request("DELETE", f"{LEASE}/{LEADER}")
        wait_for_alerts(alerts, OF_RESOURCES)
        _mend(world, reader)
        wait_for_alerts(alerts, set())
    assert (spark.problems, spark.overlaps) == ([], [])


def _mend(world: World, reader: Reader) -> None:
    """Do what the runbooks say, outside of the cluster and by their commands."""
    told = {name: reader.follow("docs/runbooks.md", f"MessageStore{name}") for name in sorted(OF_RESOURCES)}
    assert "403 from the object store" in told["StreamStalled"]
    assert told["ReplayFailing"] == "StorageDenied: 403 from the object store"
    assert told["ApprovalWaiting"].startswith("p1: 1 messages\n")
    world.keys_are_wrong = world.records_are_broken = world.topic_forgets = False
    # The replay has ended: another one takes its place.
    _apply_replay(reader, "orders-once-more")
    reader.server.request("DELETE", f"{OURS}/replayjobs/orders-again")


def _apply_everything(reader: Reader) -> None:
    sources: dict[str, dict[str, Any]] = {
        "orders": {"trigger": {"manual": {}}},
        "invoices": {"trigger": {"interval": "PT1S"}},
        "clicks": {"trigger": {"interval": "PT1S"}, "source": TOPIC},
    }
    for name, spec in sources.items():
        _apply(reader, "MessageStream", name, stream(name, **spec).to_dict()["spec"])
    rules = [{"name": "old", "maxAge": "P90D"}]
    policy = {"streamRefs": [{"name": "invoices"}], "trigger": {"manual": {}}, "rules": rules}
    _apply(reader, "RetentionPolicy", "old-orders", {**policy, "mode": "Enforce", "approval": "Required"})
    _apply_replay(reader, "orders-again")


def _apply_replay(reader: Reader, name: str) -> None:
    files = {"files": {"uri": f"s3a://replay/{name}"}}
    _apply(reader, "ReplayJob", name, {"streamRef": {"name": "invoices"}, "destination": files})


def _apply(reader: Reader, kind: str, name: str, spec: dict[str, Any]) -> None:
    plural = {"MessageStream": "messagestreams", "RetentionPolicy": "retentionpolicies", "ReplayJob": "replayjobs"}
    about = {"name": name, "annotations": {"messagestore.dev/run-requested": "first"}}
    document = {"apiVersion": "messagestore.dev/v1alpha1", "kind": kind, "metadata": about, "spec": spec}
    answer = reader.server.request("POST", f"{OURS}/{plural[kind]}", document)
    assert answer.accepted, answer.body
