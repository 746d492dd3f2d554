"""Which objects the operator creates for a run, and when."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.drivers import Drivers
from messagestore_operator.cluster.launch import Launcher, LaunchRefusedError
from messagestore_operator.decide.snapshot import AppState, ObservedRun
from messagestore_operator.kube.client import AlreadyExistsError, ApiError, ForbiddenError
from messagestore_operator.settings import DriverSettings
from support.launches import launch


class _Client:
    """An API server that records which kinds of objects were created, and which were changed."""

    def __init__(self, refusal: ApiError | None = None, late: bool = False, of: str = "SparkApplication") -> None:
        self._refusal, self._late, self._of = refusal, late, of
        self.deleted: list[str] = []
        self.made: list[str] = []
        self.patched: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.objects: dict[str, dict[str, Any]] = {}

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self._refusal is not None and body["kind"] == self._of:
            raise self._refusal
        self.made.append(body["kind"])
        place = f"{path}/{body['metadata']['name']}"
        if body["kind"] in ("ServiceAccount", "SparkApplication", "ConfigMap") and place in self.objects:
            raise AlreadyExistsError("POST", place, 409, "AlreadyExists", "it is there")
        version = {"uid": f"{body['kind']}-{len(self.made)}", "resourceVersion": str(len(self.made))}
        made = {**body, "metadata": {**body["metadata"], **version}}
        self.objects[place] = made
        return made

    async def find(self, path: str) -> dict[str, Any] | None:
        return {} if self._late else self.objects.get(path)

    async def get(self, path: str) -> dict[str, Any]:
        return self.objects[path]

    async def delete(self, path: str, uid: str) -> bool:
        self.deleted.append(uid)
        return True

    async def merge_patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.patched.append(path)
        self.sent.append(body)
        known = self.objects[path]
        return {**known, "metadata": {**known["metadata"], "resourceVersion": str(100 + len(self.patched))}}


def _launcher(client: Any, clock: Callable[[], float] = time.monotonic) -> tuple[Launcher, Cache]:
    cache = Cache()
    status = {"currentRun": {"name": WANTED.run.run.name}}
    cache.put({**WANTED.owner.to_dict(), "kind": "MessageStream", "status": status})
    return Launcher(client, cache, Drivers(client, cache, WANTED.driver, clock)), cache


WANTED = replace(launch(), driver=DriverSettings(cluster_role="drivers"))


def test_account_and_roles_of_drivers_are_made_again_only_after_a_while() -> None:
    client: Any = _Client()
    now = 100.0

    async def two_at_once_and_one_later() -> list[int]:
        nonlocal now
        counts = []
        launcher, _ = _launcher(client, lambda: now)
        for seconds in (0, 1, 600):
            now += seconds
            await launcher.launch(WANTED)
            counts.append(client.made.count("ServiceAccount"))
        return counts

    assert asyncio.run(two_at_once_and_one_later()) == [1, 1, 2]


def test_a_namespace_whose_runs_are_gone_may_have_been_made_again_and_gets_what_drivers_need() -> None:
    client: Any = _Client()

    async def gone_in_between() -> int:
        launcher, cache = _launcher(client)
        await launcher.launch(WANTED)
        for _, run in cache.all_runs():
            for part in (run.application, run.config_map):
                cache.remove(part or {})
        await launcher.launch(WANTED)
        return int(client.made.count("ServiceAccount"))

    assert asyncio.run(gone_in_between()) == 2


QUOTA = ForbiddenError("POST", "sparkapplications", 403, "Forbidden", "exceeded quota: few")
HOOK = ApiError("POST", "sparkapplications", 500, "InternalError", "failed calling webhook: connection refused")
LOST = ApiError("POST", "sparkapplications", 0, "Unreachable", "TimeoutError")
BUSY = ApiError("POST", "sparkapplications", 429, "TooManyRequests", "later")


def test_the_application_is_made_first_and_owns_the_config_map_from_its_beginning() -> None:
    client: Any = _Client()
    asyncio.run(_launcher(client)[0].launch(WANTED))
    assert client.made[-2:] == ["SparkApplication", "ConfigMap"]
    (config_map,) = (one for one in client.objects.values() if one["kind"] == "ConfigMap")
    (application,) = (one for one in client.objects.values() if one["kind"] == "SparkApplication")
    (owner,) = config_map["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("SparkApplication", application["metadata"]["uid"])
    assert [path for path in client.patched if "configmaps" in path] == []


@pytest.mark.parametrize("theirs", [{"data": {"run.json": "{}"}}, {}, None], ids=["another-document", "none", "quota"])
def test_without_a_config_map_of_its_own_no_application_stays(theirs: dict[str, Any] | None) -> None:
    client: Any = _Client(QUOTA if theirs is None else None, of="ConfigMap")
    launcher, cache = _launcher(client)
    name = WANTED.run.run.name
    if theirs is not None:
        # Who guesses the uid of the application still can't guess the document.
        owners = [{"kind": "SparkApplication", "uid": "SparkApplication-5"}]
        found = {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}}
        client.objects[f"/api/v1/namespaces/default/configmaps/{name}"] = {**found, **theirs}
    with pytest.raises(LaunchRefusedError):
        asyncio.run(launcher.launch(WANTED))
    assert client.deleted == [cache.uid("SparkApplication", ("default", name))] == ["SparkApplication-5"]


def test_a_launch_that_was_interrupted_between_application_and_config_map_goes_on() -> None:
    lost = ApiError("POST", "configmaps", 0, "Unreachable", "TimeoutError")
    client: Any = _Client(lost, of="ConfigMap")
    launcher, cache = _launcher(client)
    with pytest.raises(ApiError):
        asyncio.run(launcher.launch(WANTED))
    assert client.deleted == []
    client._refusal = None
    asyncio.run(launcher.launch(WANTED))
    assert cache.run(("default", WANTED.run.run.name)).config_map is not None


@pytest.mark.parametrize(
    ("answer", "late", "raised"),
    [
        (QUOTA, False, LaunchRefusedError),
        (HOOK, False, LaunchRefusedError),
        # A request that seemed to be lost has created it, and it now uses up the quota itself.
        (QUOTA, True, ForbiddenError),
        (LOST, False, ApiError),
        (BUSY, False, ApiError),
    ],
)
def test_a_launch_is_refused_only_where_there_is_certainly_no_application(
    answer: ApiError, late: bool, raised: type[Exception]
) -> None:
    client: Any = _Client(answer, late)

    async def launched() -> None:
        await _launcher(client)[0].launch(WANTED)

    with pytest.raises(raised, match=re.escape(answer.message)) as found:
        asyncio.run(launched())
    assert found.type is raised


def test_a_run_whose_right_to_report_was_not_written_gets_it_from_the_next_operator_that_looks() -> None:
    client: Any = _Client()

    async def launched_and_found_by_another() -> int:
        launcher, cache = _launcher(client)
        await launcher.launch(WANTED)
        drivers = Drivers(client, cache, WANTED.driver)
        Launcher(client, cache, drivers).finish(ObservedRun(WANTED.run.run, AppState.PENDING))
        await drivers.write("default")
        return sum(1 for path in client.patched if "roles/" in path)

    assert asyncio.run(launched_and_found_by_another()) == 1


def test_an_account_that_is_there_gets_the_annotations_of_the_settings() -> None:
    client: Any = _Client()
    account = "/api/v1/namespaces/default/serviceaccounts/message-store-driver"

    async def prepare(role: str) -> None:
        settings = DriverSettings(cluster_role="drivers", annotations={"example.org/role": role})
        await Drivers(client, Cache(), settings).prepare("default")

    asyncio.run(prepare("old"))
    assert client.patched == []
    asyncio.run(prepare("new"))
    assert client.patched == [account]
    assert client.sent == [{"metadata": {"annotations": {"example.org/role": "new"}}}]


def test_an_account_loses_the_identity_of_all_namespaces_once_its_own_settings_give_it_none() -> None:
    client: Any = _Client()

    async def prepare(**own: dict[str, str]) -> None:
        common = {"example.org/role": "all"}
        settings = DriverSettings(cluster_role="drivers", annotations=common, namespace_annotations=own)
        await Drivers(client, Cache(), settings).prepare("default")

    asyncio.run(prepare())
    asyncio.run(prepare(default={"example.org/owner": "us"}))
    assert client.sent == [{"metadata": {"annotations": {"example.org/owner": "us", "example.org/role": None}}}]
