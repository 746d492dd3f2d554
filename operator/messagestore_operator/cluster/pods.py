"""Pod templates of a run's driver and executors.

They meet the restricted Pod Security Standard without an admission webhook: no root, no capabilities, no privilege
escalation. The image's file system is read-only; writes go to volumes that end with the pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from messagestore_core.logs import LogFormat
from messagestore_operator.api.resource import Resource
from messagestore_operator.cluster.labels import run_annotations, run_labels
from messagestore_operator.cluster.reports import DOCUMENT
from messagestore_operator.decide.actions import CreateRun
from messagestore_operator.kube.objects import container_security, pod_security
from messagestore_operator.names import DRIVER
from messagestore_operator.settings import DriverSettings, Placement, SparkSettings
from messagestore_operator.translate.secrets import SecretVariable
from messagestore_operator.translate.storage import CertificateMount

EXECUTOR = "spark-kubernetes-executor"
"""Spark's containers in a template have these names."""

DOCUMENT_FILE = "/etc/messagestore/run.json"
DOCUMENT_VARIABLE = "MESSAGESTORE_RUN_DOCUMENT"
CONFIG_MAP_VARIABLE = "MESSAGESTORE_CONFIGMAP"
GRACE_VARIABLE = "MESSAGESTORE_GRACE_SECONDS"
LOG_FORMAT_VARIABLE = "MESSAGESTORE_LOG_FORMAT"
EXECUTORS_FROM_VARIABLE = "MESSAGESTORE_EXECUTORS_FROM_BYTES"
GRACE_SECONDS = 30
"""How long a driver has after SIGTERM to finish its work and to report."""
TERMINATION_MESSAGE = "/dev/termination-log"
# Spark uses a volume with this prefix as its local folder, instead of one without a size limit.
_SPILLS = "spark-local-dir-1"
_LOGS = 1 << 30
"""Bytes of the node's disk for a pod's logs."""
_WRITABLE = {"tmp": "/tmp", "work-dir": "/opt/spark/work-dir", _SPILLS: "/var/data/spark"}


@dataclass(frozen=True)
class Launch:
    """A run to create: the decision's run, its resource, and what settings say of its application and its log."""

    run: CreateRun
    owner: Resource
    spark: SparkSettings
    driver: DriverSettings
    passed_on: tuple[str, ...] = ()
    """Labels of the resource that its applications and pods get, too."""
    log_format: LogFormat = "text"

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the run's application and pods, such as a scheduler's."""
        own = self.owner.metadata.labels
        return {name: own[name] for name in self.passed_on if name in own}


def _executors_from(launch: Launch) -> int:
    """From how many bytes a run has executors: a batch scheduler reserves them for each run."""
    always = launch.run.always_executors or launch.spark.batch_scheduler
    return 0 if always else launch.spark.executors_from.bytes


def driver_template(launch: Launch) -> dict[str, Any]:
    """The driver's pod: it reads its document from a file and reports to the API with its own account."""
    run = launch.run.run
    document = {"name": "run", "configMap": {"name": run.name, "items": [{"key": DOCUMENT, "path": DOCUMENT}]}}
    environment = [
        {"name": DOCUMENT_VARIABLE, "value": DOCUMENT_FILE},
        {"name": CONFIG_MAP_VARIABLE, "value": f"{run.namespace}/{run.name}"},
        {"name": GRACE_VARIABLE, "value": str(GRACE_SECONDS)},
        {"name": EXECUTORS_FROM_VARIABLE, "value": str(_executors_from(launch))},
        *([{"name": LOG_FORMAT_VARIABLE, "value": launch.log_format}] if launch.log_format != "text" else []),
    ]
    container = {
        **_container(DRIVER, launch, environment),
        "terminationMessagePath": TERMINATION_MESSAGE,
        "terminationMessagePolicy": "File",
    }
    # A single file, so that the folder around it is free for certificates.
    container["volumeMounts"].append({"name": "run", "mountPath": DOCUMENT_FILE, "subPath": DOCUMENT, "readOnly": True})
    template = _template(launch, launch.spark.placement.driver, container, [document], token=True)
    template["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
    return template


def executor_template(launch: Launch) -> dict[str, Any]:
    """An executor's pod: it reaches storage as the driver does, and has no access to the API."""
    return _template(launch, launch.spark.placement.executor, _container(EXECUTOR, launch, []), [], token=False)


def _template(
    launch: Launch, placement: Placement, container: Mapping[str, Any], volumes: list[dict[str, Any]], *, token: bool
) -> dict[str, Any]:
    spark = launch.spark
    return {
        "metadata": {
            "labels": {**spark.pod_labels, **launch.labels, **run_labels(launch.run.run, launch.owner)},
            "annotations": {**spark.pod_annotations, **run_annotations(launch.run.run)},
        },
        "spec": {
            "automountServiceAccountToken": token,
            "securityContext": pod_security(),
            "containers": [container],
            "volumes": [
                *volumes,
                *(_scratch_volume(name, spark) for name in _WRITABLE),
                *map(_certificate_volume, launch.run.access.certificates),
            ],
            **_placed(spark, placement),
        },
    }


def _placed(spark: SparkSettings, placement: Placement) -> dict[str, Any]:
    fields = {
        **placement.to_dict(),
        "nodeSelector": {**spark.node_selector, **placement.node_selector},
        "tolerations": [*spark.tolerations, *placement.tolerations],
    }
    return {name: value for name, value in fields.items() if value}


def _scratch_volume(name: str, spark: SparkSettings) -> dict[str, Any]:
    if name != _SPILLS or spark.scratch_storage_class is None:
        return {"name": name, "emptyDir": {"sizeLimit": spark.scratch}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": spark.scratch_storage_class,
        "resources": {"requests": {"storage": spark.scratch}},
    }
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _disk(spark: SparkSettings) -> dict[str, Any]:
    """What a container takes of its node's disk. Spark adds CPU and memory."""
    folders = sum("emptyDir" in _scratch_volume(name, spark) for name in _WRITABLE)
    limit = folders * spark.scratch.bytes + _LOGS
    request = min(spark.scratch_request.bytes, limit)
    return {"requests": {"ephemeral-storage": str(request)}, "limits": {"ephemeral-storage": str(limit)}}


def _container(name: str, launch: Launch, environment: Iterable[dict[str, Any]]) -> dict[str, Any]:
    run = launch.run
    return {
        "name": name,
        "env": [*environment, *map(_secret_variable, dict.fromkeys((*run.access.variables, *run.variables)))],
        "resources": _disk(launch.spark),
        "securityContext": container_security(),
        "volumeMounts": [
            *({"name": volume, "mountPath": path} for volume, path in _WRITABLE.items()),
            *(
                {"name": _volume_name(mount), "mountPath": mount.folder, "readOnly": True}
                for mount in run.access.certificates
            ),
        ],
    }


def _secret_variable(variable: SecretVariable) -> dict[str, Any]:
    reference = {"name": variable.secret, "key": variable.key, **({"optional": True} if variable.optional else {})}
    return {"name": variable.variable, "valueFrom": {"secretKeyRef": reference}}


def _certificate_volume(mount: CertificateMount) -> dict[str, Any]:
    # Only this key of the Secret is mounted.
    return {
        "name": _volume_name(mount),
        "secret": {"secretName": mount.secret, "items": [{"key": mount.key, "path": mount.key}]},
    }


def _volume_name(mount: CertificateMount) -> str:
    return f"ca-{mount.folder.rpartition('/')[2]}"
