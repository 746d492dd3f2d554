"""Which ConfigMaps the drivers of a namespace may report to."""

import asyncio
from typing import Any

import pytest

from messagestore_operator.cluster.backend import KubeflowBackend
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.client import ApiError
from messagestore_operator.cluster.drivers import Drivers
from messagestore_operator.cluster.runref import run_annotations, run_labels
from messagestore_operator.decide.snapshot import RunRef
from messagestore_operator.settings import DriverSettings
from support.launches import stream


class _Server:
    """An API server that notes which runs the Role names, and answers when it is let."""

    def __init__(self) -> None:
        self.named: list[list[str]] = []
        self.answers = asyncio.Event()
        self.fails = 0

    async def merge_patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        (rule,) = body["rules"]
        self.named.append(rule["resourceNames"])
        await self.answers.wait()
        if self.fails:
            self.fails -= 1
            raise ApiError("PATCH", path, 500, "InternalError", "no")
        return {}


def _drivers(server: Any, cache: Cache | None = None) -> Drivers:
    backend = KubeflowBackend(server)
    return Drivers(server, backend, cache or Cache(backend.kind.name), DriverSettings())


def _see(cache: Cache, name: str, state: str | None = None) -> None:
    """A run's ConfigMap, and its application in a state."""
    ref, owner = RunRef("default", name, 1, "ingest"), stream()
    version = str(len(cache.versions()) + 100)
    metadata = {
        "namespace": "default",
        "name": name,
        "labels": run_labels(ref, owner),
        "annotations": run_annotations(ref),
        "resourceVersion": version,
    }
    cache.put({"kind": "ConfigMap", "metadata": {**metadata, "uid": f"{name}-map"}})
    if state is not None:
        status = {"applicationState": {"state": state}}
        application = {"kind": "SparkApplication", "metadata": {**metadata, "uid": f"{name}-app"}, "status": status}
        cache.put(application)


async def _asks(drivers: Drivers, *runs: str) -> list[BaseException | None]:
    asked = (drivers.may_report("default", run) for run in runs)
    return await asyncio.gather(*asked, return_exceptions=True)


def test_runs_that_are_launched_together_share_a_write() -> None:
    async def launched() -> list[list[str]]:
        server = _Server()
        cache = Cache("SparkApplication")
        _see(cache, "a")
        drivers = _drivers(server, cache)
        first = asyncio.create_task(drivers.may_report("default", "a"))
        await asyncio.sleep(0)
        for name in "bcd":
            _see(cache, name)
        others = asyncio.create_task(_asks(drivers, "b", "c", "d"))
        await asyncio.sleep(0)
        server.answers.set()
        await asyncio.gather(first, others)
        return server.named[1:]

    assert asyncio.run(launched()) == [["a", "b", "c", "d"]]


def test_a_write_that_fails_is_told_to_the_one_that_asked_and_made_again_for_those_that_wait() -> None:
    async def launched() -> tuple[list[BaseException | None], list[list[str]]]:
        server, cache = _Server(), Cache("SparkApplication")
        server.fails = 1
        server.answers.set()
        for name in "abc":
            _see(cache, name)
        return await _asks(_drivers(server, cache), "a", "b", "c"), server.named

    told, named = asyncio.run(launched())
    assert [type(one) for one in told] == [ApiError, type(None), type(None)]
    assert named[-1] == ["a", "b", "c"]


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "SUBMISSION_FAILED"])
def test_what_has_ended_may_report_no_more_once_another_run_is_launched(state: str) -> None:
    async def launched() -> list[list[str]]:
        server, cache = _Server(), Cache("SparkApplication")
        server.answers.set()
        drivers = _drivers(server, cache)
        for run in ("first", "second"):
            _see(cache, run)
            await _asks(drivers, run)
        _see(cache, "first", state)
        _see(cache, "third")
        await _asks(drivers, "third")
        return server.named

    assert asyncio.run(launched()) == [["first"], ["first", "second"], ["second", "third"]]


def test_an_operator_that_has_just_started_leaves_what_is_under_way_its_right() -> None:
    async def launched() -> list[list[str]]:
        server, cache = _Server(), Cache("SparkApplication")
        server.answers.set()
        _see(cache, "running", "RUNNING")
        _see(cache, "ended", "COMPLETED")
        await _asks(_drivers(server, cache), "next")
        return server.named

    assert asyncio.run(launched()) == [["next", "running"]]
