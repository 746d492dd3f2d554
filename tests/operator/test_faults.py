"""The operator under faults: killed, disconnected, with wrong clocks, and beside a second leader.

`make test-faults` runs it large. The seed determines which faults come when; their exact timing always differs.
"""

import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.perf.operator_load import audit
from tests.perf.operator_load.manifests import policies, streams
from tests.perf.operator_load.scene import OPERATOR, OWN, Stage, address, apply, stage

from messagestore_operator.names import TABLE
from support import sparkoperator
from support.interception import Interception, intercepting
from support.operators import FAST, SHORT_LEASE, Operator, eventually, running_operator, start_operator

_log = logging.getLogger(__name__)
SEED = int(os.environ.get("MESSAGESTORE_FAULTS_SEED", "7"))
WRONG_SECONDS = (0, 0, -300, 300)
"""How far a replica's clock is ahead."""
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
_MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class Size:
    """The size of a test; times are seconds."""

    streams: int
    policies: int
    interval: str
    run_seconds: float
    pause: float
    """The longest time between two faults."""
    kills: int
    restarts: int
    cuts: int
    depositions: int
    usurpers: int
    rest: float
    """The time limit until all resources are at rest."""


SMALL = Size(6, 2, "PT1S", 0.3, 1.0, kills=2, restarts=1, cuts=1, depositions=1, usurpers=1, rest=40)
LARGE = Size(100, 20, "PT10S", 1.0, 4.0, kills=100, restarts=20, cuts=30, depositions=20, usurpers=20, rest=300)


class Faults:
    """Two replicas, and the faults of them and of the API server."""

    def __init__(self, found: Stage, way: Interception, config: Path, dice: random.Random) -> None:
        self._found, self._way, self._config, self._dice = found, way, config, dice
        self.settings = _settings(found)
        self._running: list[Operator] = []
        self.ended: Counter[int] = Counter()
        """Exit codes of the replicas that were not killed."""

    def keep_two(self) -> None:
        """Replace the replicas that have ended."""
        for one in [one for one in self._running if one.process.poll() is not None]:
            self.ended[one.process.returncode] += 1
            self._running.remove(one)
        while len(self._running) < 2:
            self._start(self.settings)

    def work_goes_on(self) -> bool:
        """Whether there is a leader that is ready."""
        self.keep_two()
        leading = [one for one in self._running if one.figure("messagestore_operator_leading")]
        return any(one.get("/readyz")[0] == 200 for one in leading)

    def kill(self) -> None:
        """Kill one replica, most often the leader."""
        leading = [one for one in self._running if one.figure("messagestore_operator_leading")]
        victims = leading if leading and self._dice.random() < 0.7 else self._running
        victim = self._dice.choice(victims)
        self._running.remove(victim)
        victim.kill()

    def restart(self) -> None:
        """Kill the API server, and start it again."""
        self._found.server.restart()

    def cut(self) -> None:
        """Close all connections, including watches."""
        self._way.cut()

    def depose(self) -> None:
        """Remove the holder from the leader's Lease."""
        lease = f"{_LEASES}/{self.settings['leader']['lease']}"
        self._found.server.request("PATCH", lease, {"spec": {"holderIdentity": ""}}, _MERGE)

    def usurp(self) -> None:
        """Start a second leader, which ignores the Lease."""
        self._start({**self.settings, "leader": {**self.settings["leader"], "enabled": False}})

    def kill_all(self) -> None:
        """Kill all replicas."""
        for one in self._running:
            one.kill()

    def _start(self, settings: dict[str, Any]) -> None:
        ahead = self._dice.choice(WRONG_SECONDS)
        self._running.append(start_operator(self._found.server, self._found.folder, settings, self._config, ahead))


def _settings(found: Stage) -> dict[str, Any]:
    """The chart's settings, with shorter times."""
    quick = {"leader": {**found.settings["leader"], **SHORT_LEASE}, "runs": {**found.settings["runs"], **FAST["runs"]}}
    return {**found.settings, **quick, "resync": "PT10S", "statusInterval": "PT1S"}


@contextmanager
def _faults(found: Stage, dice: random.Random) -> Iterator[Faults]:
    with intercepting(f"https://127.0.0.1:{found.server.port}") as way:
        config = found.folder / "by-way"
        text = found.kubeconfig.read_text()
        config.write_text(text.replace(f":{found.server.port}", f":{way.port}"))
        faults = Faults(found, way, config, dice)
        try:
            yield faults
        finally:
            faults.kill_all()


@pytest.mark.timeout(7200)
def test_whatever_happens_no_run_is_launched_twice_or_forgotten_and_every_status_is_right_in_the_end() -> None:
    size, dice = LARGE if "MESSAGESTORE_FAULTS" in os.environ else SMALL, random.Random(SEED)
    wanted = [*streams(size.streams, size.interval), *policies(size.policies, minutes=1)]
    with stage(size.run_seconds, []) as found:
        with _faults(found, dice) as faults:
            faults.keep_two()
            for resource in wanted:
                apply(found.server, resource)
            eventually(lambda: any(_status(one).get("lastRun") for one in found.resources("MessageStream")), 60)
            for happens in _in_some_order(faults, size, dice):
                if dice.random() < 0.7:
                    # Otherwise few replicas would ever get to work.
                    eventually(faults.work_goes_on, 120)
                time.sleep(dice.uniform(0, size.pause))
                happens()
                faults.keep_two()
            _log.info("seed %d; ended by themselves, by exit code: %s", SEED, dict(faults.ended))
        with running_operator(found.server, found.folder, faults.settings, found.kubeconfig) as operator:
            for resource in wanted:
                answer = found.server.request("PATCH", address(resource), {"spec": {"suspend": True}}, _MERGE)
                assert answer.accepted, answer.body
            eventually(lambda: all(_rests(one) for one in _all(found)), size.rest, operator)
            # A table is released just after the status says that its run has ended.
            eventually(lambda: not _held(found), size.rest, operator)
        resources, applications = _all(found), _applications(found)
        record, requests = found.end(), audit.requests(found.folder)
    _log.info("runs started: %s, ended: %s", record["started"], record["ended"])
    assert record["problems"] == []
    made = Counter(one.name for one in requests if one.user == OPERATOR and _makes_an_application(one))
    assert set(made.values()) == {1}
    # Killed between an application and its ConfigMap, the operator takes the run of a suspended stream back.
    assert (set(made) - set(record["runs"])) & applications == set()
    for one in resources:
        _check(one, list(record["runs"]))


def _in_some_order(faults: Faults, size: Size, dice: random.Random) -> list[Callable[[], None]]:
    acts = [faults.kill] * size.kills + [faults.restart] * size.restarts + [faults.cut] * size.cuts
    acts += [faults.depose] * size.depositions + [faults.usurp] * size.usurpers
    dice.shuffle(acts)
    return acts


def _all(found: Stage) -> list[dict[str, Any]]:
    return [*found.resources("MessageStream"), *found.resources("RetentionPolicy")]


def _status(resource: dict[str, Any]) -> dict[str, Any]:
    status: dict[str, Any] = resource.get("status", {})
    return status


def _rests(resource: dict[str, Any]) -> bool:
    status = _status(resource)
    under_way = [status.get("currentRun"), *(one.get("currentRun") for one in status.get("streams", []))]
    return status.get("phase") == "Suspended" and not any(under_way)


def _applications(found: Stage) -> set[str]:
    listed = found.server.request("GET", f"/apis/{sparkoperator.GROUP}/v1beta2/{sparkoperator.PLURAL}").body["items"]
    return {application["metadata"]["name"] for application in listed}


def _makes_an_application(request: audit.Request) -> bool:
    return (request.resource, request.verb, request.status) == ("sparkapplications", "create", 201)


def _held(found: Stage) -> list[str]:
    """The runs that have a table."""
    leases = found.server.request("GET", _LEASES).body["items"]
    tables = [lease["spec"] for lease in leases if TABLE in lease["metadata"].get("annotations", {})]
    return [spec["holderIdentity"] for spec in tables if spec.get("holderIdentity")]


def _check(resource: dict[str, Any], runs: list[str]) -> None:
    """Check that a resource's status matches its runs."""
    status, prefix = _status(resource), f"{resource['metadata']['name']}-"
    launched = {int(name.removeprefix(prefix).split("-")[1]): name for name in runs if name.startswith(prefix)}
    # Every reserved number was launched, except one that the suspension may have taken back.
    assert sorted(launched) == list(range(1, len(launched) + 1)), json.dumps(status)
    assert status.get("runNumber", 0) - len(launched) in (0, 1), json.dumps(status)
    told = [run["name"] for run in status.get("recentRuns", [])]
    assert told == [launched[number] for number in sorted(launched, reverse=True)][: len(told)]
    assert [run for run in status.get("recentRuns", []) if run["state"] != "Succeeded"] == []
    if resource["kind"] == "MessageStream":
        assert status["lastRun"]["name"] == launched[len(launched)]
        ingests = [name for name in launched.values() if "-ingest-" in name]
        assert status["totals"]["stored"] == 2 * len(ingests)
