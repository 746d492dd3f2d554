"""Which ConfigMaps the drivers of a namespace may report to."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.drivers import Drivers
from messagestore_operator.cluster.labels import run_annotations, run_labels
from messagestore_operator.decide.snapshot import RunRef
from messagestore_operator.kube.client import AlreadyExistsError, ApiError, NotFoundError
from messagestore_operator.kube.objects import MANAGER
from messagestore_operator.settings import DriverSettings
from support.launches import stream
from support.waiting import scaled


class _Server:
    """An API server that records which runs the Role names, and answers once the test allows it."""

    def __init__(self) -> None:
        self.named: list[list[str]] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.fails = 0
        self.has_role = True

    async def create(self, collection: str, body: dict[str, Any]) -> dict[str, Any]:
        self.has_role = self.has_role or body["kind"] == "Role"
        return body

    async def merge_patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if not self.has_role:
            raise NotFoundError("PATCH", path, 404, "NotFound", "no Role")
        (rule,) = body["rules"]
        self.named.append(rule["resourceNames"])
        await self.answers.wait()
        if self.fails:
            self.fails -= 1
            raise ApiError("PATCH", path, 500, "InternalError", "no")
        return {}


def _drivers(server: Any, cache: Cache | None = None, clock: Callable[[], float] = time.monotonic) -> Drivers:
    return Drivers(server, cache or Cache(), DriverSettings(), clock)


def _see(cache: Cache, name: str, state: str | None = None) -> None:
    """Show the cache a run's ConfigMap, and its application in a state."""
    ref, owner = RunRef("default", name, 1, "ingest"), stream()
    version = str(len(cache.versions()) + 100)
    cache.put({"kind": "Lease", "metadata": {"name": name}, "spec": {"holderIdentity": ref.holder}})
    metadata = {
        "namespace": "default",
        "name": name,
        "labels": run_labels(ref, owner),
        "annotations": run_annotations(ref),
        "resourceVersion": version,
    }
    owners = [{"kind": "SparkApplication", "uid": f"{name}-app"}]
    cache.put({"kind": "ConfigMap", "metadata": {**metadata, "uid": f"{name}-map", "ownerReferences": owners}})
    if state is not None:
        status = {"applicationState": {"state": state}}
        application = {"kind": "SparkApplication", "metadata": {**metadata, "uid": f"{name}-app"}, "status": status}
        cache.put(application)


async def _written(drivers: Drivers, *runs: str) -> None:
    for run in runs:
        drivers.let_report("default", run)
    await drivers.write("default")


async def _until_written(drivers: Drivers, server: _Server, times: int) -> None:
    """Let the worker work until the Role has been written so often."""
    worker = asyncio.create_task(drivers.work())
    async with asyncio.timeout(scaled(20)):
        while len(server.named) < times:
            await asyncio.sleep(0.05)
    worker.cancel()


class _Accounts:
    """An API server that records the annotations of accounts, which exist or not, and whose annotations those are."""

    def __init__(self, *, exist: bool) -> None:
        self.exist = exist
        self.annotations: dict[str, Any] = {}
        self.managers: dict[str, str] = {}

    async def create(self, collection: str, body: dict[str, Any]) -> dict[str, Any]:
        if body["kind"] == "ServiceAccount":
            if self.exist:
                raise AlreadyExistsError("POST", collection, 409, "AlreadyExists", "")
            self.annotations[collection.split("/")[4]] = body["metadata"].get("annotations")
        return body

    async def merge_patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        annotations = self.annotations.setdefault(path.split("/")[4], {})
        annotations |= body["metadata"]["annotations"]
        for name in [name for name, value in annotations.items() if value is None]:
            del annotations[name]
        managed = [
            {"manager": manager, "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, f"f:{name}": {}}}}}
            for name, manager in self.managers.items()
        ]
        other = {"manager": "kubectl-edit", "fieldsV1": {"f:secrets": {}}}
        return {"metadata": {"annotations": annotations, "managedFields": [*managed, other]}}


@pytest.mark.parametrize("exist", [False, True])
def test_the_drivers_of_each_namespace_have_the_cloud_identity_that_is_given_to_it(exist: bool) -> None:
    server: Any = _Accounts(exist=exist)
    given = {"annotations": {"role": "all"}, "namespaceAnnotations": {"billing": {"role": "bill"}}}
    settings = DriverSettings.model_validate({"clusterRole": "drivers", **given})
    drivers = Drivers(server, Cache(), settings)
    for namespace in ("billing", "sales"):
        asyncio.run(drivers.prepare(namespace))
    assert server.annotations == {"billing": {"role": "bill"}, "sales": {"role": "all"}}


def test_an_account_loses_the_annotations_that_former_settings_gave_it_and_no_other() -> None:
    server: Any = _Accounts(exist=True)
    server.annotations["sales"] = {"example.org/role": "all", "example.org/owner": "sales"}
    server.managers = {"example.org/role": MANAGER, "example.org/owner": "kubectl-annotate"}
    settings = DriverSettings.model_validate({"clusterRole": "drivers"})
    drivers = Drivers(server, Cache(), settings)
    asyncio.run(drivers.prepare("sales"))
    assert server.annotations == {"sales": {"example.org/owner": "sales"}}


def test_runs_that_are_launched_together_share_a_write() -> None:
    async def launched() -> list[list[str]]:
        server, cache = _Server(), Cache()
        drivers = _drivers(server, cache)
        for name in "abc":
            _see(cache, name)
            drivers.let_report("default", name)
        await _until_written(drivers, server, 1)
        return server.named

    assert asyncio.run(launched()) == [["a", "b", "c"]]


def test_a_run_that_is_launched_during_a_write_of_the_role_is_named_by_the_next_write() -> None:
    async def launched() -> list[list[str]]:
        server, cache = _Server(), Cache()
        server.answers.clear()
        _see(cache, "a")
        drivers = _drivers(server, cache)
        first = asyncio.create_task(_written(drivers, "a"))
        await asyncio.sleep(0)
        _see(cache, "b")
        drivers.let_report("default", "b")
        server.answers.set()
        await first
        await drivers.write("default")
        return server.named

    assert asyncio.run(launched()) == [["a"], ["a", "b"]]


def test_a_write_that_is_refused_is_made_again() -> None:
    async def launched() -> list[list[str]]:
        server, cache = _Server(), Cache()
        server.fails = 1
        _see(cache, "a")
        drivers = _drivers(server, cache)
        drivers.let_report("default", "a")
        await _until_written(drivers, server, 2)
        return server.named

    assert asyncio.run(launched()) == [["a"], ["a"]]


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "SUBMISSION_FAILED"])
def test_an_ended_run_loses_its_right_to_report_once_another_run_is_launched(state: str) -> None:
    async def launched() -> list[list[str]]:
        server, cache = _Server(), Cache()
        drivers = _drivers(server, cache)
        for run in ("first", "second"):
            _see(cache, run)
            await _written(drivers, run)
        _see(cache, "first", state)
        _see(cache, "third")
        await _written(drivers, "third")
        return server.named

    assert asyncio.run(launched()) == [["first"], ["first", "second"], ["second", "third"]]


def test_an_operator_that_has_just_started_leaves_what_is_under_way_its_right() -> None:
    async def launched() -> list[list[str]]:
        server, cache = _Server(), Cache()
        _see(cache, "running", "RUNNING")
        _see(cache, "ended", "COMPLETED")
        _see(cache, "next")
        await _written(_drivers(server, cache), "next")
        return server.named

    assert asyncio.run(launched()) == [["next", "running"]]


def test_a_run_that_has_gone_by_the_time_of_the_write_is_not_named() -> None:
    async def launched() -> list[list[str]]:
        server, cache = _Server(), Cache()
        await _written(_drivers(server, cache), "gone")
        return server.named

    assert asyncio.run(launched()) == []


def test_a_role_that_somebody_deletes_is_soon_written_again_for_the_runs_in_progress() -> None:
    async def deleted() -> list[list[list[str]]]:
        server, cache, now = _Server(), Cache(), [0.0]
        drivers, written = _drivers(server, cache, lambda: now[0]), []
        _see(cache, "going-on", "RUNNING")
        for seconds in (0, 299, 300, 301):
            now[0] = seconds
            # As at each reconciliation of the run's resource.
            await _written(drivers, "going-on")
            written.append(list(server.named))
            server.has_role, server.named = False, []
        return written

    assert asyncio.run(deleted()) == [[["going-on"]], [], [["going-on"]], []]
