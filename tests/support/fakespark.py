"""Simulates what a bare API server lacks: the Spark operator, the kubelet, the drivers and the garbage collector.

Applications get a driver pod, run for a while, report to their ConfigMap and end. The simulation records what it saw,
and which drivers could write to one table at the same time.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from support import sparkoperator
from support.apiserver import ApiServer
from support.background import repeated
from support.outcomes import is_continuous, outcome

MERGE = "application/merge-patch+json"
DENIED = {"reason": "StorageDenied", "message": "403 from the object store"}


@dataclass
class Run:
    """An application that the simulation has seen."""

    namespace: str
    name: str
    table: str
    document: dict[str, Any]
    started: float
    over: bool = False
    ended: float | None = None

    @property
    def writes(self) -> bool:
        """Whether it changes its table; replays and previews only read."""
        task = self.document["task"]
        return task["kind"] != "replay" and not (task["kind"] == "purge" and task.get("mode", "DryRun") == "DryRun")


@dataclass
class FakeSpark:
    """Runs the applications of a namespace.

    `seconds` is how long a driver runs; `opens` returns a run's error for its document, or None. `goes_on` says whether
    a driver runs until it is asked to stop. `away` has the errors of some of a replay's several destinations. `tells`
    gets a run's document and its report, which it may change.
    """

    server: ApiServer
    namespace: str
    seconds: float = 0.3
    fails: bool = False
    opens: Callable[[dict[str, Any]], dict[str, str] | None] = lambda document: None
    goes_on: Callable[[dict[str, Any]], bool] = is_continuous
    away: dict[str, dict[str, str]] = field(default_factory=dict)
    tells: Callable[[dict[str, Any], dict[str, Any]], object] = lambda document, report: None
    runs: dict[str, Run] = field(default_factory=dict)
    overlaps: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def launched(self, prefix: str) -> list[Run]:
        """The runs with a prefix in their names, in the order of their start."""
        return sorted((run for run in self.runs.values() if run.name.startswith(prefix)), key=lambda run: run.started)

    def step(self) -> None:
        """Advance each application by one step."""
        answer = self.server.request("GET", sparkoperator.path(self.namespace))
        if not answer.accepted:
            # An overloaded server, for example: its objects are unknown then.
            return
        applications = {app["metadata"]["uid"]: app for app in answer.body["items"] or []}
        for uid, app in applications.items():
            state = app.get("status", {}).get("applicationState", {}).get("state", "")
            if uid not in self.runs:
                self._submit(uid, app)
            elif state == "RUNNING":
                self._drive(self.runs[uid])
        for uid, run in self.runs.items():
            if uid not in applications and not run.over:
                self._collect(run)

    def _submit(self, uid: str, app: dict[str, Any]) -> None:
        meta = app["metadata"]
        config_map = self.server.request("GET", _config_map(meta["namespace"], meta["name"]))
        if "run.json" not in (config_map.body.get("data") or {}):
            # Its pod waits for the ConfigMap, as a kubelet has it wait.
            return
        document = json.loads(config_map.body["data"]["run.json"])
        run = Run(meta["namespace"], meta["name"], document["table"]["uri"], document, time.monotonic())
        if any(other.name == run.name for other in self.runs.values()):
            self.problems.append(f"{run.name} was launched twice")
        self.overlaps += [
            (other.name, run.name)
            for other in self.runs.values()
            if other.table == run.table and not other.over and other.writes and run.writes
        ]
        self.runs[uid] = run
        template = app["spec"]["driver"]["template"]
        owner = {"apiVersion": app["apiVersion"], "kind": app["kind"], "name": run.name, "uid": uid}
        pod = {
            "metadata": {
                "name": f"{run.name}-driver",
                "labels": {**template["metadata"]["labels"], "spark-role": "driver"},
                "annotations": template["metadata"]["annotations"],
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "none"}]},
        }
        self.server.request("POST", f"/api/v1/namespaces/{run.namespace}/pods", pod)
        self._set_pod(run, "Running")
        sparkoperator.set_state(self.server, run.namespace, run.name, "RUNNING")
        self._report(run, "Running")

    def _drive(self, run: Run) -> None:
        config_map = self.server.request("GET", _config_map(run.namespace, run.name)).body
        told = json.loads(config_map.get("data", {}).get("control.json", "{}"))
        enough = time.monotonic() - run.started > self.seconds
        goes_on = self.goes_on(run.document)
        if told.get("stop") or (enough and not goes_on):
            error = DENIED if self.fails else self.opens(run.document) or self._all_away(run.document)
            ended = "Failed" if error else "Succeeded"
            self._report(run, ended, error, complete=not goes_on)
            self._set_pod(run, ended)
            run.over, run.ended = True, time.monotonic()
            sparkoperator.set_state(self.server, run.namespace, run.name, "FAILED" if error else "COMPLETED")

    def _all_away(self, document: dict[str, Any]) -> dict[str, str] | None:
        """The error of a replay that none of its several destinations takes."""
        to = document["task"].get("destination", {})
        tried = {route["name"] for route in to.get("routes", []) if not route.get("rests")}
        all_fail = bool(tried) and tried <= self.away.keys()
        return {"reason": "DestinationsFailed", "message": "no destination takes what is sent"} if all_fail else None

    def _collect(self, run: Run) -> None:
        self.server.request("DELETE", f"/api/v1/namespaces/{run.namespace}/pods/{run.name}-driver")
        self.server.request("DELETE", _config_map(run.namespace, run.name))
        run.over = True

    def _set_pod(self, run: Run, phase: str) -> None:
        path = f"/api/v1/namespaces/{run.namespace}/pods/{run.name}-driver/status"
        answer = self.server.request("PATCH", path, {"status": {"phase": phase}}, MERGE)
        if not answer.accepted:
            self.problems.append(str(answer.body))

    def _report(self, run: Run, state: str, error: dict[str, str] | None = None, *, complete: bool = True) -> None:
        now = datetime.now(UTC).isoformat()
        report: dict[str, Any] = {
            "run": run.name,
            "sequence": 1 if state == "Running" else 2,
            "state": state,
            "startedAt": now,
        }
        if state != "Running":
            report["finishedAt"] = now
        routes = run.document["task"].get("destination", {}).get("kind") == "routes"
        if state == "Succeeded" or routes or (state == "Running" and is_continuous(run.document)):
            report["outcome"] = outcome(run.document, now, complete=complete, away=self.away)
        if error:
            report["error"] = error
        self.tells(run.document, report)
        patch = {"data": {"report.json": json.dumps(report)}}
        self.server.request("PATCH", _config_map(run.namespace, run.name), patch, MERGE)


def _config_map(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


@contextmanager
def fake_spark(server: ApiServer, namespace: str) -> Iterator[FakeSpark]:
    """Runs applications in the background, with its own connection."""
    fake = FakeSpark(server.another(), namespace)

    def step() -> None:
        try:
            fake.step()
        except Exception as error:
            fake.problems.append(repr(error))
            raise

    try:
        with repeated(step, seconds=0.05):
            yield fake
    finally:
        fake.server.close()
