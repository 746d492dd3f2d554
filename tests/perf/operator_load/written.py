"""What Spark, the Spark operator and a kubelet write, in its real size, on which the operator's memory depends."""

from datetime import UTC, datetime
from typing import Any

from messagestore_operator.names import DRIVER
from support import sparkoperator

_IMAGE = "registry.example.org/message-store/spark@sha256:"
_PORTS = {"driver-rpc-port": 7078, "blockmanager": 7079, "spark-ui": 4040}
_CONF = {"name": "spark-conf-volume-driver", "mountPath": "/opt/spark/conf"}
_TOKEN = {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def now() -> str:
    """The time now, in Kubernetes' format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def application_status(application: dict[str, Any], state: str) -> dict[str, Any]:
    """The Spark operator's status of an application that has been submitted once."""
    name, made = application["name"], application["creationTimestamp"]
    ended = state == "COMPLETED"
    return {
        "applicationState": {"state": state},
        "driverInfo": {"podName": f"{name}-driver"},
        "executionAttempts": 1,
        "executorState": {f"{name}-exec-1": state},
        "lastSubmissionAttemptTime": made,
        "sparkApplicationId": _spark_id(application),
        "submissionAttempts": 1,
        "submissionID": application["uid"],
        "terminationTime": now() if ended else None,
    }


def table(outcome: dict[str, Any], epoch: int, moment: str) -> dict[str, Any]:
    """What a driver reports of a table that has had messages."""
    figures = {"lastGlobalPosition": 1, "files": 1, "smallFiles": 1, "versionsSinceCheckpoint": 1, "epoch": epoch}
    return {**outcome, "oldestMessageTime": moment, "newestMessageTime": moment, **figures}


def driver_pod(application: dict[str, Any]) -> dict[str, Any]:
    """The pod that Spark creates from an application's template."""
    metadata, template = application["metadata"], application["spec"]["driver"]["template"]
    marks = {
        "spark-app-name": metadata["name"],
        "spark-app-selector": _spark_id(metadata),
        "spark-role": "driver",
        "spark-version": application["spec"]["sparkVersion"],
        "sparkoperator.k8s.io/app-name": metadata["name"],
        "sparkoperator.k8s.io/launched-by-spark-operator": "true",
        "sparkoperator.k8s.io/submission-id": metadata["uid"],
    }
    pod = template["metadata"]
    return {
        "metadata": {
            "name": f"{metadata['name']}-driver",
            "labels": {**pod["labels"], **marks},
            "annotations": pod["annotations"],
            "ownerReferences": [_owner(metadata)],
        },
        "spec": _pod_spec(application, template["spec"]),
    }


def pod_status(application: dict[str, Any], phase: str, words: str | None = None) -> dict[str, Any]:
    """A kubelet's status of a driver's pod, with the termination message if it has ended."""
    ended = words is not None
    made, reason = application["creationTimestamp"], {"reason": "PodCompleted"} if ended else {}
    return {
        "phase": phase,
        "conditions": [_condition(kind, made, ended and "ead" in kind, reason) for kind in _CONDITIONS],
        "hostIP": "10.10.0.1",
        "hostIPs": [{"ip": "10.10.0.1"}],
        "podIP": "10.20.0.1",
        "podIPs": [{"ip": "10.20.0.1"}],
        "qosClass": "Burstable",
        "startTime": made,
        "containerStatuses": [_container_status(application, words)],
    }


def _pod_spec(application: dict[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    name = application["metadata"]["name"]
    (container,) = template["containers"]
    account = application["spec"]["driver"]["serviceAccount"]
    volumes = [
        {"name": _CONF["name"], "configMap": {"name": f"spark-drv-{_hex(application['metadata'])[:16]}-conf-map"}},
        {"name": _TOKEN["name"], "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ]
    return {
        **template,
        "serviceAccountName": account,
        "restartPolicy": "Never",
        "volumes": [*template["volumes"], *volumes],
        "containers": [_container(application, container)],
        "hostname": f"{name}-driver"[:63].rstrip("-"),
    }


def _container(application: dict[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    environment = {
        "SPARK_USER": "spark",
        "SPARK_APPLICATION_ID": _spark_id(application["metadata"]),
        "PYSPARK_PYTHON": "python3",
        "PYSPARK_DRIVER_PYTHON": "python3",
        "SPARK_LOCAL_DIRS": "/var/data/spark",
        "SPARK_CONF_DIR": "/opt/spark/conf",
    }
    main = application["spec"]["mainApplicationFile"]
    size = {"cpu": "1", "memory": "3Gi"}
    return {
        **template,
        "image": application["spec"]["image"],
        "args": ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "--class", "PythonRunner", main],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in _PORTS.items()],
        "env": [*template["env"], *({"name": name, "value": value} for name, value in environment.items())],
        "resources": {"requests": size, "limits": {"memory": size["memory"]}},
        "volumeMounts": [*template["volumeMounts"], _CONF, _TOKEN],
    }


def _container_status(application: dict[str, Any], words: str | None) -> dict[str, Any]:
    made, container = application["creationTimestamp"], f"containerd://{_hex(application) * 2}"
    begun = {"startedAt": made}
    end = {**begun, "finishedAt": now(), "exitCode": 0, "reason": "Completed", "containerID": container}
    return {
        "name": DRIVER,
        "state": {"running": begun} if words is None else {"terminated": {**end, "message": words}},
        "lastState": {},
        "ready": words is None,
        "started": words is None,
        "restartCount": 0,
        "image": f"{_IMAGE}{'a' * 64}",
        "imageID": f"{_IMAGE}{'a' * 64}",
        "containerID": container,
    }


def _condition(kind: str, since: str, false: bool, reason: dict[str, str]) -> dict[str, Any]:
    status = "False" if false else "True"
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since, **reason}


def _owner(metadata: dict[str, Any]) -> dict[str, Any]:
    version = f"{sparkoperator.GROUP}/v1beta2"
    found = {"apiVersion": version, "kind": "SparkApplication", "name": metadata["name"], "uid": metadata["uid"]}
    return {**found, "controller": True, "blockOwnerDeletion": True}


def _spark_id(metadata: dict[str, Any]) -> str:
    return f"spark-{_hex(metadata)}"


def _hex(metadata: dict[str, Any]) -> str:
    return str(metadata["uid"]).replace("-", "")
