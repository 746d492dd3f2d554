"""What a stream's snapshot has of the replays that read it, up to the document of its maintenance."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messagestore_operator.api.status import CurrentRun
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.cluster import Cluster, RunAdmission
from messagestore_operator.cluster.gather import Gatherer
from messagestore_operator.cluster.labels import run_annotations, run_labels
from messagestore_operator.cluster.lease import TableLeases, lease_name
from messagestore_operator.cluster.predicates import Predicates
from messagestore_operator.cluster.resources import RESOURCES
from messagestore_operator.cluster.surroundings import Namespaces
from messagestore_operator.decide.documents import stream_run
from messagestore_operator.decide.run_queue import RunBounds
from messagestore_operator.decide.snapshot import AppState, Defaults, RunRef, StreamSnapshot, TableKey
from messagestore_operator.kube.client import KubeClient
from messagestore_operator.kube.objects import CONFIG_MAPS, PODS, ResourceKey
from messagestore_operator.tenancy.predicate_process import PredicateProcess
from messagestore_operator.tenancy.settings import SecretBounds, Tenancy
from messagestore_operator.translate.names import numbered_run_name
from support import sparkoperator
from support.launches import UID, stream

TABLE = TableKey("default", "https://objects.example.org", "s3a://lake/orders")
EARLY, LATE = "2026-03-01T06:00:00Z", "2026-03-02T06:00:00Z"
UNASKED = Defaults(tenancy=Tenancy(secrets=SecretBounds(require_label=False)))
MAINTAIN = CurrentRun(name="orders-maintain-1", kind="maintain", number=1, state="Pending")


def replay(name: str, source: str = "orders", namespace: str = "default", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": "ReplayJob",
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": "1"},
        "spec": {"streamRef": {"name": source}, "destination": {"stream": {"name": "orders-copy"}}},
        "status": status,
    }


def gatherer_of(
    cache: Cache, client: Any, namespaces: Namespaces, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Gatherer:
    leases, admission = TableLeases(client, "op"), RunAdmission(cache, RunBounds())
    cluster = Cluster(client, cache, leases, namespaces, admission, now)
    return Gatherer(cluster, Predicates(PredicateProcess(), list), UNASKED)


def snapshot_with(*others: dict[str, Any]) -> StreamSnapshot:
    cache = Cache()
    orders = {**stream().to_dict(), "kind": "MessageStream"}
    orders["metadata"] |= {"labels": {"team": "a"}}
    for document in (orders, *others):
        cache.put(document)
    # No request goes to the API server: there is no run, and the namespace is known.
    client: Any = object.__new__(KubeClient)
    namespaces = Namespaces(client)
    namespaces.note("default", False)
    gatherer = gatherer_of(cache, client, namespaces)
    found = asyncio.run(gatherer.snapshot(("MessageStream", "default", "orders")))
    assert isinstance(found, StreamSnapshot)
    return found


def policy(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    given = {"trigger": {"manual": {}}, "rules": [{"name": "old", "maxAge": "P1D"}], "mode": "Enforce", **spec}
    about = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": "1"}
    document = {"apiVersion": "messagestore.dev/v1alpha1", "kind": "RetentionPolicy", "metadata": about}
    return {**document, "spec": given}


def test_a_stream_knows_the_policies_and_replays_of_its_namespace_that_name_or_select_it() -> None:
    snapshot = snapshot_with(
        policy("naming", streamRefs=[{"name": "orders"}]),
        policy("naming-another", streamRefs=[{"name": "invoices"}]),
        policy("naming", namespace="elsewhere", streamRefs=[{"name": "orders"}]),
        policy("selecting", streamSelector={"matchLabels": {"team": "a"}}),
        policy("selecting-others", streamSelector={"matchLabels": {"team": "b"}}),
        replay("done", phase="Succeeded"),
        replay("of-another", source="payments"),
        replay("elsewhere", namespace="billing"),
    )
    assert [one.metadata.name for one in snapshot.referring] == ["done", "naming", "selecting"]


def test_a_stream_knows_the_replays_of_its_namespace_that_read_it_and_have_not_ended() -> None:
    snapshot = snapshot_with(
        replay("new"),
        replay("running", phase="Running", startedAt=EARLY),
        replay("paused", phase="Paused", startedAt=LATE),
        replay("done", phase="Succeeded", startedAt=EARLY),
        replay("of-another", source="payments", phase="Running"),
        replay("into-it", source="orders-copy", phase="Running"),
        replay("elsewhere", namespace="billing", phase="Running"),
    )
    assert [job.metadata.name for job in snapshot.replays] == ["new", "paused", "running"]


@pytest.mark.parametrize(
    ("replays", "oldest"),
    [
        ([], None),
        ([replay("not-begun")], None),
        ([replay("a", phase="Running", startedAt=LATE), replay("b", phase="Paused", startedAt=EARLY)], EARLY),
        ([replay("a", phase="Running", startedAt=LATE), replay("b", phase="Failed", startedAt=EARLY)], LATE),
    ],
)
def test_maintenance_gets_the_start_of_the_oldest_unfinished_replay(
    replays: list[dict[str, Any]], oldest: str | None
) -> None:
    task = stream_run(snapshot_with(*replays), MAINTAIN, {}).document.task
    expected = datetime.fromisoformat(oldest).astimezone(UTC) if oldest else None
    assert task.oldest_replay == expected


def _held(holder: str) -> dict[str, Any]:
    meta = {"name": lease_name(TABLE), "uid": "l1", "resourceVersion": "1"}
    annotations = {"messagestore.dev/table": str(TABLE)}
    return {"kind": "Lease", "metadata": {**meta, "annotations": annotations}, "spec": {"holderIdentity": holder}}


def _policy(status: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": "RetentionPolicy",
        "metadata": {"name": "old", "namespace": "default", "uid": "p1", "resourceVersion": "1"},
        "spec": {
            "streamRefs": [{"name": "orders"}],
            "trigger": {"manual": {}},
            "rules": [{"name": "old", "maxAge": "P1D"}],
        },
        "status": status,
    }


@pytest.mark.parametrize(("holder", "asked"), [("default/orders-ingest-1", 0), ("default/orders-ingest-0", 3)])
def test_only_a_holder_without_a_resource_is_read_from_the_api_server(holder: str, asked: int) -> None:
    client: Any = _Empty()
    cache, namespaces = Cache(), Namespaces(client)
    current = {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": EARLY, "launchedAt": EARLY}
    cache.put({**stream().to_dict(), "kind": "MessageStream", "status": {"currentRun": current}})
    cache.put(_policy({}))
    cache.put(_held(holder))
    namespaces.note("default", False)
    gatherer = gatherer_of(cache, client, namespaces)
    found = asyncio.run(gatherer.snapshot(("RetentionPolicy", "default", "old")))
    assert (found.lease(TABLE).holder, client.asked) == (holder, asked)


def test_an_erasure_and_the_replays_of_its_folder_see_each_other_in_whichever_namespace() -> None:
    """A run that the status doesn't call launched may have objects already."""
    client: Any = _Empty()
    cache, namespaces = Cache(), Namespaces(client)
    theirs = stream(namespace="billing").to_dict()
    theirs["metadata"]["uid"] = "s2"
    for document in (stream().to_dict(), theirs):
        cache.put({**document, "kind": "MessageStream"})
    for namespace in ("default", "billing"):
        namespaces.note(namespace, False)

    def at_work(name: str, namespace: str = "default", **launched: str) -> dict[str, Any]:
        current = {"name": f"{name}-replay-1", "kind": "replay", "number": 1, "requestedAt": EARLY, **launched}
        return replay(name, namespace=namespace, currentRun=current)

    cache.put(at_work("launched", launchedAt=EARLY))
    cache.put(at_work("elsewhere", "billing", launchedAt=EARLY))
    cache.put(at_work("made"))
    cache.put(at_work("reserved"))
    cache.put({**_over("made-replay-1", "default-made")[0], "status": {}})
    erase = {"name": "old-erase-1", "kind": "erase", "number": 1, "requestedAt": EARLY}
    cache.put(_policy({"streams": [{"name": "orders", "currentRun": erase}]}))
    cache.put(_held("default/old-erase-1"))
    gatherer = gatherer_of(cache, client, namespaces)
    seen = asyncio.run(gatherer.snapshot(("RetentionPolicy", "default", "old")))
    assert [one.words.split()[2] for one in seen.readers[TABLE]] == [
        "launched-replay-1",
        "made-replay-1",
        "elsewhere-replay-1",
    ]
    for key in (("ReplayJob", "default", "reserved"), ("ReplayJob", "billing", "elsewhere")):
        found = asyncio.run(gatherer.snapshot(key))
        assert [lease.holder_request.kind for lease in found.read if lease.holder_request] == ["erase"]


class _Empty:
    """An API server without objects; counts requests."""

    def __init__(self) -> None:
        self.asked = 0

    async def find(self, path: str) -> None:
        self.asked += 1


def test_a_run_that_waits_for_its_table_is_not_looked_for_again_and_again() -> None:
    client: Any = _Empty()
    clock = [datetime(2026, 3, 1, tzinfo=UTC)]
    cache, namespaces = Cache(), Namespaces(client)
    waiting = {"currentRun": {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": EARLY}}
    cache.put({**stream().to_dict(), "kind": "MessageStream", "status": waiting})
    namespaces.note("default", False)
    gatherer = gatherer_of(cache, client, namespaces, lambda: clock[0])

    def look() -> int:
        before = client.asked
        assert asyncio.run(gatherer.snapshot(("MessageStream", "default", "orders"))) is not None
        return int(client.asked - before)

    asked = [look(), look()]
    clock[0] += timedelta(seconds=6)
    assert [*asked, look()] == [3, 0, 3]


class _Late(_Empty):
    """An API server that has one object that no watch has shown yet."""

    def __init__(self, path: str, document: dict[str, Any]) -> None:
        super().__init__()
        self._path, self._document = path, document

    async def find(self, path: str) -> dict[str, Any] | None:
        self.asked += 1
        return self._document or None if path == self._path else None


def test_a_run_that_another_leader_launched_a_moment_ago_is_found_though_no_watch_has_told_of_it() -> None:
    application = {**_over("orders-ingest-1")[0], "status": {}}
    client: Any = _Late(sparkoperator.path("default", "orders-ingest-1"), {})
    cache, namespaces = Cache(), Namespaces(client)
    namespaces.note("default", False)
    gatherer = gatherer_of(cache, client, namespaces)
    current = {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": EARLY}
    found = []
    for version, there, status in (("1", {}, current), ("2", application, {**current, "launchedAt": EARLY})):
        document = stream().to_dict()
        document["metadata"]["resourceVersion"] = version
        cache.put({**document, "kind": "MessageStream", "status": {"currentRun": status}})
        client._document = there
        seen = asyncio.run(gatherer.snapshot(("MessageStream", "default", "orders")))
        found.append([run.state for run in seen.runs])
    assert found == [[], [AppState.PENDING]]


def test_a_run_that_no_status_names_is_read_anew_before_it_is_taken_for_forgotten() -> None:
    name = numbered_run_name(stream(), "ingest", 1)
    ended = _over(name)[0]
    newer = {**ended, "metadata": {**ended["metadata"], "resourceVersion": "2"}}
    client: Any = _Late(sparkoperator.path("default", name), newer)
    cache, namespaces = Cache(), Namespaces(client)
    namespaces.note("default", False)
    cache.put({**stream().to_dict(), "kind": "MessageStream", "status": {"runNumber": 1}})
    cache.put({**ended, "status": {"applicationState": {"state": "RUNNING"}}})
    seen = asyncio.run(gatherer_of(cache, client, namespaces).snapshot(("MessageStream", "default", "orders")))
    assert [run.state for run in seen.runs] == [AppState.SUCCEEDED]


def test_a_run_that_is_over_has_its_last_report_however_late_the_watch_of_reports_is() -> None:
    application, config_map, driver = _over("orders-ingest-1")
    last = {**config_map, "metadata": {**config_map["metadata"], "resourceVersion": "2"}}
    running = {"run": "orders-ingest-1", "sequence": 1, "state": "Running", "startedAt": EARLY}
    client: Any = _Late(CONFIG_MAPS.path("default", "orders-ingest-1"), last)
    cache, namespaces = Cache(), Namespaces(client)
    namespaces.note("default", False)
    current = {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": EARLY, "launchedAt": EARLY}
    cache.put({**stream().to_dict(), "kind": "MessageStream", "status": {"currentRun": current}})
    for part in (application, driver, {**config_map, "data": {"report.json": json.dumps(running)}}):
        cache.put(part)
    gatherer = gatherer_of(cache, client, namespaces)
    for _ in range(2):
        (run,) = asyncio.run(gatherer.snapshot(("MessageStream", "default", "orders"))).runs
        assert run.report.state == "Succeeded"
    assert client.asked == 1


def test_a_changed_report_is_read_once_in_the_statuss_interval_and_at_once_when_its_run_is_over() -> None:
    application, config_map, driver = _over("orders-ingest-1")
    client: Any = _Late(CONFIG_MAPS.path("default", "orders-ingest-1"), config_map)
    clock = [datetime(2026, 3, 1, tzinfo=UTC)]
    cache, namespaces = Cache(), Namespaces(client)
    namespaces.note("default", False)
    current = {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": EARLY, "launchedAt": EARLY}
    cache.put({**stream().to_dict(), "kind": "MessageStream", "status": {"currentRun": current}})
    gatherer = gatherer_of(cache, client, namespaces, lambda: clock[0])
    running = {"run": "orders-ingest-1", "state": "Running", "startedAt": EARLY}

    def report(number: int, seconds: int, state: str = "RUNNING") -> tuple[int, int]:
        """After a report and some seconds: how often the API server was asked, and which report is known."""
        clock[0] += timedelta(seconds=seconds)
        about = {**config_map["metadata"], "resourceVersion": str(number)}
        text = json.dumps({**running, "sequence": number, "state": "Running" if state == "RUNNING" else "Succeeded"})
        client._document = {"metadata": about, "data": {"report.json": text}}
        cache.put({"kind": "ConfigMap", "metadata": about})
        for part in (application, driver):
            about = {**part["metadata"], "resourceVersion": str(number)}
            status = {"phase": "Running"} if part is driver else {"applicationState": {"state": state}}
            cache.put({**part, "metadata": about, "status": status if state == "RUNNING" else part["status"]})
        (run,) = asyncio.run(gatherer.snapshot(("MessageStream", "default", "orders"))).runs
        return client.asked, run.report.sequence

    assert report(1, 0) == (1, 1)
    assert report(2, 5) == (1, 1)
    assert report(3, 50) == (1, 1)
    assert report(4, 5) == (2, 4)
    assert report(5, -3600) == (3, 5), "the clock has gone back"
    assert report(6, 5, "COMPLETED") == (4, 6)


def test_of_a_run_that_is_over_the_report_is_kept_until_no_resource_has_it_as_its_current_one() -> None:
    client: Any = _Empty()
    cache, namespaces = Cache(), Namespaces(client)
    namespaces.note("default", False)
    gatherer = gatherer_of(cache, client, namespaces)
    current = {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": EARLY, "launchedAt": EARLY}
    found = []
    for version, status in (("1", {"currentRun": current}), ("2", {})):
        document = stream().to_dict()
        document["metadata"]["resourceVersion"] = version
        cache.put({**document, "kind": "MessageStream", "status": status})
        for part in _over("orders-ingest-1"):
            cache.put(part)
        for _ in range(2):
            (run,) = asyncio.run(gatherer.snapshot(("MessageStream", "default", "orders"))).runs
            found.append((run.state, run.over, run.report is not None))
    assert found[:2] == [(AppState.SUCCEEDED, True, True)] * 2
    assert found[-1] == (AppState.SUCCEEDED, True, False)


@pytest.mark.parametrize("is_there", [True, False])
def test_what_is_read_anew_after_a_conflict_affects_the_resources_that_no_watch_tells_any_more(is_there: bool) -> None:
    orders, twin = stream().to_dict(), stream().to_dict()
    twin["metadata"] |= {"name": "twin", "uid": "s2"}
    newer = {**orders, "metadata": {**orders["metadata"], "resourceVersion": "2", "generation": 2}}
    client: Any = _Late(RESOURCES["MessageStream"].path("default", "orders"), newer if is_there else {})
    cache = Cache()
    for document in (orders, twin):
        cache.put({**document, "kind": "MessageStream"})
    gatherer = gatherer_of(cache, client, Namespaces(client))

    async def refreshed() -> set[ResourceKey]:
        return {key async for key in gatherer.refresh(("MessageStream", "default", "orders"))}

    assert ("MessageStream", "default", "twin") in asyncio.run(refreshed())
    event = {**newer, "kind": "MessageStream"}
    assert (cache.put(event) if is_there else cache.remove(event)) == set()


@pytest.mark.parametrize("parts", [("SparkApplication", "ConfigMap", "Pod"), ("ConfigMap", "Pod")])
@pytest.mark.parametrize("is_there", [False, True])
def test_the_driver_of_an_ended_run_is_gone_once_the_api_server_says_so_though_no_watch_has(
    parts: tuple[str, ...], is_there: bool
) -> None:
    run = _over("orders-ingest-1")
    driver = {**run[-1], "status": {"phase": "Running"}}
    client: Any = _Late(PODS.path("default", "orders-ingest-1-driver"), driver if is_there else {})
    cache, namespaces = Cache(), Namespaces(client)
    namespaces.note("default", False)
    current = {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": EARLY, "launchedAt": EARLY}
    cache.put({**stream().to_dict(), "kind": "MessageStream", "status": {"currentRun": current}})
    for part in (part for part in (*run[:-1], driver) if part["kind"] in parts):
        cache.put(part)
    (seen,) = asyncio.run(gatherer_of(cache, client, namespaces).snapshot(("MessageStream", "default", "orders"))).runs
    assert (seen.over, seen.driver is not None) == (not is_there, is_there)


def _over(name: str, owned_by: str = UID) -> list[dict[str, Any]]:
    """Application, ConfigMap and driver of a run that has succeeded."""
    ref, owner = RunRef("default", name, 1, "ingest"), stream()
    labels = run_labels(ref, owner)
    common = {"namespace": "default", "resourceVersion": "1", "annotations": run_annotations(ref)}
    report = {"run": name, "sequence": 3, "state": "Succeeded", "startedAt": EARLY, "finishedAt": LATE}
    made = {**common, "name": name, "uid": "a1", "labels": labels}
    application = {**made, "ownerReferences": [{"kind": "MessageStream", "uid": owned_by}]}
    owners = {"ownerReferences": [{"kind": "SparkApplication", "uid": "a1"}]}
    config_map = {**made, **owners, "uid": "c1"}
    driver = {**made, **owners, "name": f"{name}-driver", "uid": "p1", "labels": {**labels, "spark-role": "driver"}}
    return [
        {"kind": "SparkApplication", "metadata": application, "status": {"applicationState": {"state": "COMPLETED"}}},
        {"kind": "ConfigMap", "metadata": config_map, "data": {"report.json": json.dumps(report)}},
        {"kind": "Pod", "metadata": driver, "status": {"phase": "Succeeded"}},
    ]
