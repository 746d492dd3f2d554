"""The operator as a process with a real API server; the test fakes Spark."""

import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hack.programs import program

from messagestore_operator.kube.scrapes import FRESH_SECONDS
from support import sparkoperator
from support.apiserver import ApiServer
from support.definitions import no_spark_applications
from support.fakespark import FakeSpark, fake_spark
from support.interception import intercepting
from support.kstatus import verdict
from support.launches import stream
from support.operators import SHORT_LEASE, Operator, eventually, running_operator, start_operator
from support.waiting import scaled

STREAMS = "/apis/messagestore.dev/v1alpha1/namespaces/{}/messagestreams"


def _settings(namespace: str) -> dict[str, Any]:
    return {"namespace": namespace, "watchNamespaces": [namespace]}


@pytest.fixture
def operator(apiserver: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    with running_operator(apiserver, tmp_path, _settings(namespace)) as started:
        yield started


def _apply(server: ApiServer, namespace: str, name: str, **spec: Any) -> None:
    document = stream(name, namespace=namespace, **spec).to_dict()
    for given in ("uid", "generation"):
        del document["metadata"][given]
    answer = server.request("POST", STREAMS.format(namespace), document)
    assert answer.accepted, answer.body


def _status(server: ApiServer, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.request("GET", f"{STREAMS.format(namespace)}/{name}").body.get("status", {})
    return found


def _condition(status: dict[str, Any], kind: str = "Ready") -> dict[str, Any]:
    found: list[dict[str, Any]] = [one for one in status.get("conditions", []) if one["type"] == kind]
    return found[0] if found else {}


def _annotate(server: ApiServer, path: str, **annotations: str) -> None:
    found = {f"messagestore.dev/{name}": value for name, value in annotations.items()}
    answer = server.request("PATCH", path, {"metadata": {"annotations": found}}, "application/merge-patch+json")
    assert answer.accepted, answer.body


def test_a_stream_that_is_applied_gets_a_run_and_its_report_becomes_the_status(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _apply(apiserver, namespace, "orders", trigger={"interval": "PT1H"})
    status = eventually(lambda: (found := _status(apiserver, namespace, "orders")).get("lastRun") and found)
    assert (status["phase"], status["totals"]["stored"], status["observedGeneration"]) == ("Idle", 2, 1)
    assert _condition(status)["status"] == "True"
    (run,) = spark.launched("orders-")
    assert status["lastRun"]["name"] == run.name
    # The operator observes a run once its outcome is written.
    for name in ("run", "driver_start"):
        eventually(lambda name=name: operator.figure(f"messagestore_{name}_seconds_count") == 1, of=operator)
    time.sleep(1.5)
    assert len(spark.launched("orders-")) == 1


def test_changes_of_a_run_in_quick_succession_are_reconciled_together(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _apply(apiserver, namespace, "orders", trigger={"interval": "PT1H"})
    eventually(lambda: _status(apiserver, namespace, "orders").get("lastRun"))
    (run,) = spark.launched("orders-")
    before = operator.figure("messagestore_operator_reconcile_seconds_count")
    for number in range(50):
        note = {"metadata": {"annotations": {"note": str(number)}}}
        answer = apiserver.request(
            "PATCH", sparkoperator.path(namespace, run.name), note, "application/merge-patch+json"
        )
        assert answer.accepted
    time.sleep(FRESH_SECONDS)
    looks = operator.figure("messagestore_operator_reconcile_seconds_count") - before
    assert 1 <= looks <= 15


def test_many_scrapes_hold_up_neither_the_lead_nor_the_work(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    patient = {"leader": {"duration": 10.0, "renewDeadline": 8.0, "retry": 1.0}}
    with running_operator(apiserver, tmp_path, {**_settings(namespace), **patient}) as operator:
        _scrape_while_it_works(apiserver, namespace, operator)


def _scrape_while_it_works(apiserver: ApiServer, namespace: str, operator: Operator) -> None:
    for number in range(100):
        _apply(apiserver, namespace, f"idle-{number}", trigger={"schedule": {"cron": "0 0 1 1 *"}})
    eventually(lambda: _condition(_status(apiserver, namespace, "idle-99")), of=operator)
    ended = threading.Event()

    def scrape() -> list[int]:
        answers = []
        while not ended.is_set():
            answers.append(operator.get("/metrics")[0])
        return answers

    with ThreadPoolExecutor(100) as pool:
        scrapes = [pool.submit(scrape) for _ in range(100)]
        try:
            # Longer than a leader that can't renew its Lease leads.
            until = time.monotonic() + 9
            for number in count():
                _apply(apiserver, namespace, f"busy-{number}", trigger={"schedule": {"cron": "0 0 1 1 *"}})
                eventually(lambda name=f"busy-{number}": _condition(_status(apiserver, namespace, name)), 5, operator)
                if time.monotonic() > until:
                    break
        finally:
            ended.set()
    assert 200 in {answer for one in scrapes for answer in one.result()}
    assert operator.process.poll() is None
    assert operator.figure("messagestore_operator_leading") == 1


def test_the_objects_of_a_run_belong_to_it_and_its_driver_may_reach_only_its_own_report(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    spark.seconds = 60
    _apply(apiserver, namespace, "orders", trigger={"interval": "PT1H"})
    run = eventually(lambda: spark.launched("orders-"))[0]
    owner = apiserver.request("GET", f"{STREAMS.format(namespace)}/orders").body["metadata"]
    application = apiserver.request("GET", sparkoperator.path(namespace, run.name)).body["metadata"]
    assert application["ownerReferences"][0]["uid"] == owner["uid"]
    maps = f"/api/v1/namespaces/{namespace}/configmaps"

    def owned_by() -> str:
        metadata = apiserver.request("GET", f"{maps}/{run.name}").body["metadata"]
        return str(metadata["ownerReferences"][0]["uid"])

    # The stream owns it until there is an application, which then owns it.
    eventually(lambda: owned_by() == application["uid"])
    driver = f"system:serviceaccount:{namespace}:message-store-driver"
    patch = {"data": {"note": "mine"}}

    def asked(name: str) -> int:
        return apiserver.request("PATCH", f"{maps}/{name}", patch, "application/merge-patch+json", driver).status

    eventually(lambda: asked(run.name) == 200)
    assert asked("kube-root-ca.crt") == 403
    assert apiserver.request("GET", maps, user=driver).status == 403


def test_two_streams_on_one_table_never_have_two_writers(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    names = ("first", "second")
    for name in names:
        table = {"uri": f"s3a://lake/{namespace}-shared"}
        _apply(apiserver, namespace, name, table=table, trigger={"interval": "PT1S"})
    eventually(lambda: all(len(spark.launched(f"{name}-")) >= 3 for name in names))
    assert spark.overlaps == []


def test_a_continuous_stream_stops_after_its_batch_when_it_is_suspended_and_goes_on_when_it_is_not(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    _apply(apiserver, namespace, "orders", trigger={"continuous": {"batchInterval": "PT1S"}})
    eventually(lambda: _status(apiserver, namespace, "orders").get("phase") == "Running")
    _suspend(apiserver, namespace, "orders", True)
    eventually(lambda: _status(apiserver, namespace, "orders").get("phase") == "Suspended")
    assert all(run.over for run in spark.runs.values())
    _suspend(apiserver, namespace, "orders", False)
    eventually(lambda: len(spark.launched("orders-")) == 2)


def _suspend(server: ApiServer, namespace: str, name: str, suspend: bool) -> None:
    patch = {"spec": {"suspend": suspend}}
    answer = server.request("PATCH", f"{STREAMS.format(namespace)}/{name}", patch, "application/merge-patch+json")
    assert answer.accepted, answer.body


def test_a_failed_run_is_retried_and_the_status_says_why_it_failed(
    apiserver: ApiServer, namespace: str, operator: Operator, spark: FakeSpark
) -> None:
    spark.fails = True
    _apply(apiserver, namespace, "orders", trigger={"interval": "PT1H"})
    eventually(lambda: len(spark.launched("orders-")) >= 2)
    ready = _condition(eventually(lambda: (one := _status(apiserver, namespace, "orders")).get("lastRun") and one))
    assert (ready["status"], ready["reason"]) == ("False", "StorageDenied")
    assert "403 from the object store" in ready["message"]
    spark.fails = False
    eventually(lambda: _condition(_status(apiserver, namespace, "orders")).get("status") == "True")


def test_wrong_credentials_leave_the_lag_unknown_then_stall_the_stream_until_they_are_corrected(
    apiserver: ApiServer, namespace: str, spark: FakeSpark, tmp_path: Path
) -> None:
    def wait(condition: str) -> None:
        config = ["--kubeconfig", str(apiserver.kubeconfig(tmp_path)), "--namespace", namespace]
        asked = ["wait", f"--for=condition={condition}", "messagestream/orders", f"--timeout={int(scaled(60))}s"]
        subprocess.run([program("kubectl"), *config, *asked], check=True)

    path = f"{STREAMS.format(namespace)}/orders"
    runs = {"lookAgain": "PT1S", "backoffBase": "PT1S", "stalledAfter": "PT5S"}
    with running_operator(apiserver, tmp_path, {**_settings(namespace), "runs": runs}) as operator:
        _apply(apiserver, namespace, "orders", trigger={"manual": {}})
        _annotate(apiserver, path, **{"run-requested": "first"})
        eventually(lambda: _status(apiserver, namespace, "orders").get("lastRun"))
        assert _status(apiserver, namespace, "orders")["lag"]["files"] == 0
        spark.fails = True
        _annotate(apiserver, path, **{"run-requested": "second"})
        eventually(lambda: _condition(_status(apiserver, namespace, "orders"), "Reconciling"))
        wait("Stalled")
        found = apiserver.request("GET", path).body
        assert verdict(found) == "Failed"
        assert (found["status"]["phase"], found["status"]["lastingFailure"]["reason"]) == ("Stalled", "StorageDenied")
        assert found["status"]["lastingFailure"]["attempts"] >= 2
        assert found["status"]["lag"].keys() == {"asOf", "summary"}
        assert f"since {found['status']['lag']['asOf']} is unknown" in _condition(found["status"])["message"]
        eventually(lambda: "messagestore_lag_files{" not in operator.get("/metrics")[1])
        spark.fails = False
        wait("Ready")
        assert verdict(apiserver.request("GET", path).body) == "Current"
        assert "lastingFailure" not in _status(apiserver, namespace, "orders")


def test_an_operator_killed_over_and_over_launches_nothing_twice_and_forgets_nothing(
    apiserver: ApiServer, namespace: str, spark: FakeSpark, tmp_path: Path
) -> None:
    dice = random.Random(7)
    names = ("one", "two", "three", "four")
    settings = {**_settings(namespace), "leader": {"enabled": False}}
    for name in names:
        _apply(apiserver, namespace, name, trigger={"interval": "PT1S"})
    for _ in range(5):
        # It begins to work within a second after its start: these kills come during that.
        operator = start_operator(apiserver, tmp_path, settings)
        try:
            eventually(lambda started=operator: started.get("/readyz")[0] == 200)
            time.sleep(dice.uniform(0.0, 1.0))
        finally:
            operator.kill()
    with running_operator(apiserver, tmp_path, settings):
        reached = {name: len(spark.launched(f"{name}-")) for name in names}
        eventually(lambda: all(len(spark.launched(f"{name}-")) > reached[name] for name in names))
        for name in names:
            _suspend(apiserver, namespace, name, True)
        eventually(
            lambda: (
                all(_status(apiserver, namespace, name).get("phase") == "Suspended" for name in names)
                and all(run.over for run in spark.runs.values())
            )
        )
        for name in names:
            status = eventually(lambda name=name: _at_rest(_status(apiserver, namespace, name)))
            launched = [int(run.name.split("-")[2]) for run in spark.launched(f"{name}-")]
            # Every reserved number was launched, except one that the suspension may have taken back.
            assert launched == list(range(1, len(launched) + 1))
            assert status["runNumber"] - len(launched) in (0, 1)
            assert status["lastRun"]["name"] == spark.launched(f"{name}-")[-1].name


def _at_rest(status: dict[str, Any]) -> dict[str, Any] | None:
    return None if status.get("currentRun") else status


def test_the_operator_is_ready_without_the_spark_operator_and_starts_runs_once_that_is_installed(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    settings = {**_settings(namespace), "resync": "PT10M"}
    with ExitStack() as there:
        with no_spark_applications(apiserver):
            operator = there.enter_context(running_operator(apiserver, tmp_path, settings))
            eventually(lambda: operator.get("/readyz")[0] == 200, of=operator)
            # Its predicate is read while kopf watches, which starts anew once the kind is installed.
            _apply(apiserver, namespace, "orders", trigger={"interval": "PT1H"}, filter={"where": "type = 'a'"})
            ready = eventually(lambda: _condition(_status(apiserver, namespace, "orders")), of=operator)
            assert (ready["status"], ready["reason"]) == ("False", "SparkOperatorMissing")
            assert "sparkapplications.sparkoperator.k8s.io is not installed" in ready["message"]
        there.enter_context(fake_spark(apiserver, namespace))
        # No full list comes meanwhile: the watch of applications shows that the run has ended.
        run = eventually(lambda: _status(apiserver, namespace, "orders").get("lastRun"), seconds=40, of=operator)
        assert run["state"] == "Succeeded"
        eventually(lambda: "watching again" in operator.text, of=operator)
        _suspend(apiserver, namespace, "orders", True)
        eventually(lambda: _status(apiserver, namespace, "orders").get("phase") == "Suspended", of=operator)
        assert operator.stop() == 0


def test_another_replica_takes_over_when_the_leader_dies_and_only_then(
    apiserver: ApiServer, namespace: str, spark: FakeSpark, tmp_path: Path
) -> None:
    settings = {**_settings(namespace), "leader": SHORT_LEASE}
    with (
        running_operator(apiserver, tmp_path / "a", settings) as first,
        running_operator(apiserver, tmp_path / "b", settings) as second,
    ):
        replicas = [first, second]
        leader = eventually(lambda: _leader(replicas))
        waiting = next(one for one in replicas if one is not leader)
        eventually(lambda: waiting.get("/readyz")[0] == 200)
        _apply(apiserver, namespace, "orders", trigger={"interval": "PT1S"})
        eventually(lambda: spark.launched("orders-"))
        assert waiting.figure("messagestore_operator_leading") == 0
        leader.kill()
        before = len(spark.launched("orders-"))
        eventually(lambda: len(spark.launched("orders-")) > before, seconds=10)
        assert waiting.figure("messagestore_operator_leading") == 1


def _leader(replicas: list[Operator]) -> Operator | None:
    return next((one for one in replicas if one.figure("messagestore_operator_leading")), None)


def test_a_leader_that_was_frozen_finds_itself_replaced_and_ends_without_another_word(
    apiserver: ApiServer, namespace: str, spark: FakeSpark, tmp_path: Path
) -> None:
    settings = {**_settings(namespace), "leader": SHORT_LEASE}
    with running_operator(apiserver, tmp_path / "a", settings) as frozen:
        _apply(apiserver, namespace, "orders", trigger={"interval": "PT1S"})
        eventually(lambda: spark.launched("orders-"))
        frozen.process.send_signal(signal.SIGSTOP)
        with running_operator(apiserver, tmp_path / "b", settings) as other:
            eventually(lambda: other.figure("messagestore_operator_leading"))
            before = len(spark.launched("orders-"))
            eventually(lambda: len(spark.launched("orders-")) > before)
            frozen.process.send_signal(signal.SIGCONT)
            assert frozen.process.wait(timeout=scaled(10)) == 3


def test_after_an_operator_was_told_to_end_the_next_one_leads_at_once(
    apiserver: ApiServer, namespace: str, spark: FakeSpark, tmp_path: Path
) -> None:
    with running_operator(apiserver, tmp_path, _settings(namespace)) as first:
        eventually(lambda: first.figure("messagestore_operator_leading"))
        assert first.stop() == 0
    with running_operator(apiserver, tmp_path, _settings(namespace)) as second:
        eventually(lambda: second.figure("messagestore_operator_leading"), seconds=10)


@pytest.mark.long
def test_an_api_server_that_breaks_down_again_and_again_makes_no_run_twice_and_forgets_none(
    apiserver: ApiServer, namespace: str, spark: FakeSpark, tmp_path: Path
) -> None:
    names = [f"orders-{number}" for number in range(8)]
    with intercepting(f"https://127.0.0.1:{apiserver.port}") as way:
        config = ApiServer(way.port, apiserver.certificate).kubeconfig(tmp_path)
        # Without election: a leader that can't renew exits, which has its own tests.
        settings = {**_settings(namespace), "leader": {"enabled": False}}
        with running_operator(apiserver, tmp_path, settings, config) as operator:
            for name in names:
                _apply(apiserver, namespace, name, trigger={"interval": "PT1S"})
            for breakdown in range(4):
                before = len(spark.runs)
                eventually(lambda before=before: len(spark.runs) >= before + len(names), of=operator)
                if breakdown % 2:
                    way.cut()
                    continue
                way.break_down()
                time.sleep(1.5)
                way.mend()
            eventually(lambda: all(len(spark.launched(f"{name}-")) >= 4 for name in names), 40, of=operator)
            for name in names:
                _suspend(apiserver, namespace, name, True)
            suspended = [(apiserver, namespace, name) for name in names]
            eventually(lambda: all(_status(*one)["phase"] == "Suspended" for one in suspended), 40, of=operator)
    for name in names:
        status, launched = _status(apiserver, namespace, name), [run.name for run in spark.launched(f"{name}-")]
        told = [run["name"] for run in reversed(status["recentRuns"])]
        assert told == launched[-len(told) :]
        # Every reserved number was launched, except one that the suspension may have taken back.
        assert status["runNumber"] - len(launched) in (0, 1)
        assert [run for run in status["recentRuns"] if run["state"] != "Succeeded"] == []


def test_runs_that_wait_for_a_paused_namespace_or_a_bound_say_so_and_start_in_order(
    apiserver: ApiServer, namespace: str, spark: FakeSpark, tmp_path: Path
) -> None:
    spark.seconds = 1.5
    runs = {"lookAgain": "PT1S", "atOnce": {"inNamespace": 1}}
    _annotate(apiserver, f"/api/v1/namespaces/{namespace}", paused="true")
    with running_operator(apiserver, tmp_path, {**_settings(namespace), "runs": runs}) as operator:
        _apply(apiserver, namespace, "orders-a", trigger={"interval": "PT1H"})
        reason = eventually(lambda: _condition(_status(apiserver, namespace, "orders-a")).get("reason"), of=operator)
        assert reason == "Paused"
        _annotate(apiserver, f"/api/v1/namespaces/{namespace}", paused="false")
        _annotate(apiserver, f"{STREAMS.format(namespace)}/orders-a", note="look")
        eventually(lambda: _status(apiserver, namespace, "orders-a").get("currentRun"), of=operator)
        for name in ("orders-b", "orders-c"):
            _apply(apiserver, namespace, name, trigger={"interval": "PT1H"})
            eventually(lambda name=name: _status(apiserver, namespace, name).get("currentRun"), of=operator)
        said = _condition(_status(apiserver, namespace, "orders-c"))
        assert said["reason"] == "WaitingForRoom"
        assert said["message"].endswith("1 run of a namespace may run at once (runs.atOnce.inNamespace)")
        eventually(lambda: _status(apiserver, namespace, "orders-c").get("lastRun"), of=operator)
    first, second, third = spark.launched("orders-")
    assert [run.name[:8] for run in (first, second, third)] == ["orders-a", "orders-b", "orders-c"]
    assert min(second.started - first.started, third.started - second.started) >= spark.seconds
