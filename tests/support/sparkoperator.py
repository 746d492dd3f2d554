"""The parts of Kubeflow's Spark operator that tests need: its CRD, and statuses as it writes them."""

from functools import cache
from typing import Any

import yaml
from hack.gobuild import module_source

from support.apiserver import ApiServer

VERSION = "v2.5.2"
MODULE = "github.com/kubeflow/spark-operator/v2"
PLURAL = "sparkapplications"
GROUP = "sparkoperator.k8s.io"


@cache
def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of SparkApplication, from the module's own source."""
    file = module_source(MODULE, VERSION) / "config" / "crd" / "bases" / f"{GROUP}_{PLURAL}.yaml"
    loaded: dict[str, Any] = yaml.load(file.read_text(), yaml.CSafeLoader)
    return loaded


def path(namespace: str, name: str = "") -> str:
    """The path of a namespace's applications, or of one."""
    collection = f"/apis/{GROUP}/v1beta2/namespaces/{namespace}/{PLURAL}"
    return f"{collection}/{name}" if name else collection


def set_state(server: ApiServer, namespace: str, name: str, state: str, message: str = "", attempts: int = 1) -> None:
    """Write an application's status, as the Spark operator would."""
    status = {
        "applicationState": {"state": state, "errorMessage": message},
        "driverInfo": {"podName": f"{name}-driver"},
        "executionAttempts": attempts,
    }
    answer = server.request(
        "PATCH", f"{path(namespace, name)}/status", {"status": status}, "application/merge-patch+json"
    )
    assert answer.accepted, answer.body
