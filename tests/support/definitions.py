"""The CRDs of the project's kinds and of Kubeflow's SparkApplication, installed in an API server."""

from collections.abc import Iterator
from contextlib import contextmanager

from messagestore_operator.api.crd import custom_resource_definition
from messagestore_operator.names import GROUP, NAMES
from support import sparkoperator
from support.apiserver import ApiServer
from support.waiting import wait_until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install_definitions(server: ApiServer) -> None:
    """Install all, and wait until objects of all kinds can be created."""
    for kind in NAMES:
        answer = server.request("POST", f"{DEFINITIONS}?fieldValidation=Strict", custom_resource_definition(kind))
        assert answer.accepted, answer.body
    for names in NAMES.values():
        _wait_until_established(server, names.plural, GROUP, "v1alpha1")
    install_spark_applications(server)


def install_spark_applications(server: ApiServer) -> None:
    """Install only Kubeflow's kind, and wait until objects of it can be created."""
    answer = server.request("POST", DEFINITIONS, sparkoperator.definition())
    assert answer.accepted, answer.body
    _wait_until_established(server, sparkoperator.PLURAL, sparkoperator.GROUP, "v1beta2")


@contextmanager
def no_spark_applications(server: ApiServer) -> Iterator[None]:
    """Remove Kubeflow's kind from the API server while the block lasts."""
    server.request("DELETE", f"{DEFINITIONS}/{sparkoperator.PLURAL}.{sparkoperator.GROUP}")
    applications = f"/apis/{sparkoperator.GROUP}/v1beta2/{sparkoperator.PLURAL}"
    wait_until(lambda: server.request("GET", applications).status == 404, 30, lambda: "the definition goes")
    try:
        yield
    finally:
        install_spark_applications(server)


def _wait_until_established(server: ApiServer, plural: str, group: str, version: str) -> None:
    def conditions() -> list[dict[str, str]]:
        answer = server.request("GET", f"{DEFINITIONS}/{plural}.{group}")
        return answer.body.get("status", {}).get("conditions", [])

    def established() -> bool:
        served = server.request("GET", f"/apis/{group}/{version}/{plural}").accepted
        return served and any(one["type"] == "Established" and one["status"] == "True" for one in conditions())

    wait_until(established, 30, lambda: f"{plural} is established: {conditions()}")
