"""A real API server accepts the objects of runs: the applications, and the pods from their templates."""

from copy import deepcopy
from typing import Any

import pytest

from messagestore_operator.cluster.kubeflow import application
from messagestore_operator.settings import Placement, Placements
from support import sparkoperator
from support.apiserver import ApiServer
from support.launches import launch, stream

RESTRICTED = "restricted-pods"
SPARK = {
    "image": "registry.example.org/spark:7",
    "driver": {"cores": 2, "memory": "2g"},
    "executor": {"instances": 3, "cores": 2, "memory": "4g"},
    "conf": {"spark.sql.shuffle.partitions": "16"},
}
APART = {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}
EVERYTHING: dict[str, Any] = {
    "image_pull_secrets": ("registry",),
    "node_selector": {"pool": "spark"},
    "tolerations": ({"key": "spark", "operator": "Exists"},),
    "placement": Placements(
        driver=Placement(node_selector={"disk": "hdd"}, priority_class_name="high", scheduler_name="spread"),
        executor=Placement(
            node_selector={"disk": "ssd"},
            tolerations=({"key": "disk", "operator": "Exists"},),
            affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [APART]}},
        ),
    ),
    "scratch_storage_class": "fast",
    "pod_labels": {"team": "data"},
    "pod_annotations": {"example.org/scrape": "false"},
}


def _rendered(**settings: Any) -> dict[str, Any]:
    return application(launch(stream(spark=SPARK), **settings))


def test_the_definition_takes_a_rendered_application_strictly_and_keeps_every_field_of_it(
    apiserver: ApiServer,
) -> None:
    for settings in ({}, EVERYTHING):
        wanted = _rendered(**settings)
        answer = apiserver.request("POST", f"{sparkoperator.path('default')}?fieldValidation=Strict&dryRun=All", wanted)
        assert answer.accepted, answer.body
        assert _contains(answer.body["spec"], wanted["spec"]) == []


def test_drivers_and_executors_have_a_place_of_their_own_besides_the_shared_one() -> None:
    parts = _rendered(**EVERYTHING)["spec"]
    driver, executor = (parts[role]["template"]["spec"] for role in ("driver", "executor"))
    assert (driver["nodeSelector"], executor["nodeSelector"]) == (
        {"pool": "spark", "disk": "hdd"},
        {"pool": "spark", "disk": "ssd"},
    )
    assert [one["key"] for one in executor["tolerations"]] == ["spark", "disk"]
    assert (driver["priorityClassName"], driver["schedulerName"], "affinity" in driver) == ("high", "spread", False)
    assert executor["affinity"]["podAntiAffinity"]
    spills = [one for one in executor["volumes"] if "ephemeral" in one]
    assert [one["name"] for one in spills] == ["spark-local-dir-1"]
    claim = spills[0]["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("fast", "20Gi")


def _contains(kept: Any, wanted: Any, path: str = "spec") -> list[str]:
    """The paths of dropped or changed values."""
    if isinstance(wanted, dict):
        return [lost for key in wanted for lost in _contains((kept or {}).get(key), wanted[key], f"{path}.{key}")]
    if isinstance(wanted, list):
        if len(kept or []) != len(wanted):
            return [path]
        return [lost for i, item in enumerate(wanted) for lost in _contains(kept[i], item, f"{path}[{i}]")]
    return [] if kept == wanted else [path]


@pytest.fixture
def restricted(apiserver: ApiServer) -> str:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    answer = apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": RESTRICTED, "labels": labels}})
    assert answer.accepted or answer.status == 409, answer.body
    return RESTRICTED


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_a_namespace_that_enforces_the_restricted_standard_takes_the_pods(
    apiserver: ApiServer, restricted: str, role: str
) -> None:
    answer = _create_pod(apiserver, restricted, _rendered()["spec"][role]["template"])
    assert answer.accepted, answer.body


def test_a_restricted_namespace_refuses_pods_without_their_security_context(
    apiserver: ApiServer, restricted: str
) -> None:
    template = deepcopy(_rendered()["spec"]["driver"]["template"])
    del template["spec"]["securityContext"]
    answer = _create_pod(apiserver, restricted, template)
    assert answer.status == 403
    assert "restricted" in answer.body["message"]


def _create_pod(apiserver: ApiServer, namespace: str, template: dict[str, Any]) -> Any:
    pod = deepcopy(template)
    # Spark adds this to a template: a name, an image, and no restarts.
    pod["metadata"]["name"] = "from-template"
    pod["spec"]["containers"][0]["image"] = "registry.example.org/spark:7"
    pod["spec"]["restartPolicy"] = "Never"
    return apiserver.request("POST", f"/api/v1/namespaces/{namespace}/pods?fieldValidation=Strict&dryRun=All", pod)
