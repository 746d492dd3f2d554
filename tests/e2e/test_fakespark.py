"""FakeSpark, the operator tests' stand-in for the Spark operator, leaves the same objects of a run as the real one."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from support.apiserver import ApiServer, running_apiserver
from support.definitions import install_definitions
from support.fakespark import FakeSpark
from support.kind import Resource
from support.records import records
from support.site import Site
from support.sparkoperator import path

ENDS = {"taken-in": "COMPLETED", "denied": "FAILED"}


@dataclass(frozen=True)
class Left:
    """The objects of an ended run."""

    application: Resource
    pod: Resource
    report: dict[str, Any]

    @property
    def ended_as(self) -> tuple[str, str, str, str]:
        state = self.application["status"]["applicationState"]["state"]
        return state, self.pod["metadata"]["name"], self.pod["status"]["phase"], self.report["state"]

    @property
    def containers(self) -> set[str]:
        return {container["name"] for container in self.pod["spec"]["containers"]}


@pytest.mark.long
def test_a_run_that_ends_and_one_that_fails_look_alike(site: Site) -> None:
    site.land("taken-in/1.jsonl", records(range(3)))
    missing = {"files": {"uri": "s3a://no-such-bucket/landing"}}
    site.apply(site.stream("taken-in"), site.stream("denied", source=missing))
    site.until(lambda: set(_ended(site)) == set(ENDS), "both runs have ended")
    runs = _ended(site)
    with running_apiserver() as server:
        install_definitions(server)
        for stream, application in runs.items():
            real = _left(site, application)
            fake = _faked(server, application, site.find("configmap", application["metadata"]["name"]) or {})
            assert real.ended_as == fake.ended_as
            assert real.application["status"]["applicationState"]["state"] == ENDS[stream]
            assert real.application["status"]["driverInfo"]["podName"] == fake.pod["metadata"]["name"]
            assert fake.containers <= real.containers
            for told in ("labels", "annotations"):
                assert fake.pod["metadata"][told].items() <= real.pod["metadata"][told].items()
            assert set(fake.report) <= set(real.report)
            assert set(fake.report.get("error", {})) == set(real.report.get("error", {}))


def _ended(site: Site) -> dict[str, Resource]:
    """Each stream's newest ended run: the operator deletes the oldest ones."""
    ended = {}
    for application in sorted(site.items("sparkapplication"), key=lambda one: one["metadata"]["creationTimestamp"]):
        stream = application["metadata"]["name"].rsplit("-ingest-", 1)[0]
        if application.get("status", {}).get("applicationState", {}).get("state") == ENDS[stream]:
            ended[stream] = application
    return ended


def _left(site: Site, application: Resource) -> Left:
    name = application["metadata"]["name"]
    pod, config_map = site.find("pod", f"{name}-driver"), site.find("configmap", name)
    assert pod is not None
    return Left(application, pod, json.loads(config_map["data"]["report.json"]))


def _faked(server: ApiServer, application: Resource, config_map: Resource) -> Left:
    """Run the same application and document with FakeSpark."""
    name = application["metadata"]["name"]
    config_maps = "/api/v1/namespaces/default/configmaps"
    kept = {part: application[part] for part in ("apiVersion", "kind", "spec")}
    document = {"metadata": {"name": name}, "data": {"run.json": config_map["data"]["run.json"]}}
    assert server.request("POST", config_maps, document).accepted
    answer = server.request("POST", path("default"), {**kept, "metadata": {"name": name}})
    assert answer.accepted, answer.body
    fake = FakeSpark(server, "default", seconds=0, fails=application["status"]["applicationState"]["state"] == "FAILED")
    fake.step()
    fake.step()
    assert fake.problems == []
    pod = server.request("GET", f"/api/v1/namespaces/default/pods/{name}-driver").body
    report = json.loads(server.request("GET", f"{config_maps}/{name}").body["data"]["report.json"])
    return Left(server.request("GET", path("default", name)).body, pod, report)
