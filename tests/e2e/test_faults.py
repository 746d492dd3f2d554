"""Continuous streams and faults: pods and servers are deleted, and the store has each landed message once."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hack import docker, install, kind

from support.kind import Cluster
from support.laws import Source, check_laws, read_store, totals
from support.records import message, records
from support.site import OPERATOR, STREAM, Row, Site
from support.site import site as new_site
from support.waiting import scaled
from support.witness import Witness

SEED = 20260105
FILE_RECORDS = 40
NOW = ("--grace-period=0", "--force")
"""Force-deletes a pod, as when its node is lost."""


@dataclass
class Running:
    """A continuous stream named orders, and all that has landed for it."""

    site: Site
    witness: Witness
    lines: list[bytes] = field(default_factory=list)
    files: int = 0

    def land(self) -> None:
        """Land another file: new messages, two that were there before, and one bad line."""
        first = self.files * FILE_RECORDS
        new = records(range(first, first + FILE_RECORDS))
        again = records(range(max(0, first - 2), first))
        content = new + again + b'{"messageId": \n'
        self.files += 1
        self.site.land(f"orders/{self.files:04d}.jsonl", content)
        self.lines += content.splitlines()

    def catch_up(self, seconds: float = 300) -> None:
        """Wait until the store has all landed records, then check the invariants."""
        wanted = len(self.lines)
        self.site.until(
            lambda: totals(self.site, "orders").get("received") == wanted, f"{wanted} records received", seconds
        )
        check_laws(read_store(self.site, "orders"), Source(self.lines, message))
        self.witness.check()
        assert not self.witness.together

    def suspend(self, suspended: bool) -> None:
        """Suspend the stream, or let it go on."""
        patch = json.dumps({"spec": {"suspend": suspended}})
        self.site.kubectl("patch", STREAM, "orders", "--type=merge", "--patch", patch)

    def run(self) -> str:
        """The name of the current run."""
        current = self.site.wait(STREAM, "orders", _works, "a run that works")["currentRun"]
        return str(current["name"])

    def executor(self) -> str:
        """The name of the current run's executor, once that works."""
        of_run = f"spark-role=executor,messagestore.dev/run={self.run()}"
        pods = self.site.until(lambda: self._working(of_run), "it has an executor that works")
        return str(pods[0]["metadata"]["name"])

    def _working(self, selector: str) -> list[Row]:
        return [one for one in self.site.items("pod", "--selector", selector) if one["status"]["phase"] == "Running"]

    def past(self, run: str) -> Row:
        """A run's record in the status, once it has ended."""
        status = self.site.wait(STREAM, "orders", lambda found: _past(found, run), f"run {run} has ended")
        return _past(status, run)[0]


@pytest.fixture(scope="module")
def stream(cluster: Cluster) -> Iterator[Running]:
    """These tests' stream, with a first file ingested."""
    with new_site(cluster, "faults") as site, Witness(cluster, site.namespace) as witness:
        stream = Running(site, witness)
        stream.land()
        site.apply(site.stream(trigger={"continuous": {"batchInterval": "PT2S"}}, runHistoryLimit=50))
        stream.catch_up()
        yield stream
        # Its run would still write to the bucket, which is deleted next. In a terminating namespace none starts.
        site.cluster.kubectl("delete", "namespace", site.namespace, "--wait=false")
        site.kubectl("delete", "pod", "--all", "--wait=false", *NOW)


@pytest.fixture
def running(stream: Running) -> Running:
    """The stream with a run that works, whatever happened to the one before."""
    stream.suspend(False)
    stream.run()
    return stream


def test_an_executor_that_is_lost_is_replaced_in_the_same_run(running: Running) -> None:
    run = running.run()
    running.site.delete("pod", running.executor(), *NOW)
    running.land()
    running.catch_up()
    assert running.run() == run


@pytest.mark.long
def test_a_quota_that_refuses_executors_is_told_and_the_same_run_goes_on_without_it(running: Running) -> None:
    run, site = running.run(), running.site
    executor = running.executor()
    metadata = {"name": "small", "namespace": site.namespace}
    site.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "1"}}})
    site.until(lambda: site.status("resourcequota", "small").get("used"), "the quota is enforced")
    site.delete("pod", executor, *NOW)
    assert "exceeded quota: small" in site.condition(STREAM, "orders", "Ready", "False", "ExecutorsRefused")
    site.delete("resourcequota", "small")
    running.land()
    running.catch_up()
    assert running.run() == run


def test_a_run_stops_in_order_when_its_drivers_pod_is_deleted_and_so_does_the_next_when_it_is_suspended(
    running: Running,
) -> None:
    run = running.run()
    running.site.delete("pod", f"{run}-driver")
    running.land()
    ended = running.past(run)
    assert (ended["state"], ended["error"]["reason"]) == ("Cancelled", "RunStopped"), running.site.story()
    running.catch_up()
    following = running.run()
    assert following != run

    running.suspend(True)
    assert running.past(following)["state"] == "Succeeded"
    running.site.until(lambda: not running.site.drivers(), "no driver is left")
    running.catch_up()


def test_the_api_server_may_restart(running: Running) -> None:
    run = running.run()
    # Without the API server Spark starts no driver, and that run is tried again as another.
    running.executor()
    in_node("pkill", "-KILL", "-x", "kube-apiserver")
    running.land()
    running.catch_up()
    running.site.until(lambda: running.site.find(STREAM, "orders"), "the API server answers")
    assert running.run() == run


@pytest.mark.long
def test_the_s3_server_may_be_away_for_a_minute(running: Running) -> None:
    s3 = ("--namespace", install.STORAGE_NAMESPACE)
    cluster = running.site.cluster
    running.run()
    cluster.kubectl(*s3, "scale", "deployment/s3", "--replicas=0")
    try:
        cluster.kubectl(*s3, "wait", "pod", "--selector=app=s3", "--for=delete", f"--timeout={scaled(60):.0f}s")
        time.sleep(60)
    finally:
        cluster.kubectl(*s3, "scale", "deployment/s3", "--replicas=1")
    cluster.kubectl(*s3, "rollout", "status", "deployment/s3", f"--timeout={scaled(60):.0f}s")
    running.site.until(running.site.s3_answers, "the S3 server answers")
    running.land()
    running.catch_up()


@pytest.mark.long
def test_operators_killed_while_runs_begin_and_end_launch_nothing_twice_and_forget_nothing(running: Running) -> None:
    chance = random.Random(SEED)
    for _ in range(2):
        run = running.run()
        running.site.delete("pod", f"{run}-driver", *NOW)
        time.sleep(chance.uniform(0, 8))
        running.site.cluster.kubectl("delete", "pod", *OPERATOR, "--wait=false", *NOW)
        running.land()
        running.past(run)
        running.catch_up()
    status = running.site.status(STREAM, "orders")
    # Each run number was launched, and each run has a record.
    assert len(running.witness.launched) == status["runNumber"]
    known = {one["name"] for one in status["recentRuns"]} | {status["currentRun"]["name"]}
    assert known == set(running.witness.launched)


def in_node(*command: str) -> None:
    """Run a command in the cluster's node."""
    docker.find(kind.public_node_image()).run("exec", kind.NODE, *command)


def _works(status: Row) -> Any:
    return (status.get("currentRun") or {}).get("startedAt")


def _past(status: Row, run: str) -> list[Row]:
    return [one for one in status.get("recentRuns", []) if one["name"] == run]
