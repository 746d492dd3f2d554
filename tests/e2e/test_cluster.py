"""What every other test here needs: the cluster, the Spark operator, the S3 server and the jobs' image."""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from kubernetes import client

from support.kind import POD_S3_ENDPOINT, Cluster

IMAGE = "localhost/message-store-operator/spark:0.1.0"
PROGRAM = Path(__file__).with_name("write_table.py")


def test_the_cluster_is_up(cluster: Cluster) -> None:
    (node,) = client.CoreV1Api(cluster.api).list_node().items

    assert {condition.type: condition.status for condition in node.status.conditions}["Ready"] == "True"


def test_the_spark_operator_runs(cluster: Cluster) -> None:
    deployment = client.AppsV1Api(cluster.api).read_namespaced_deployment("spark-operator-controller", "spark-operator")

    assert deployment.status.available_replicas == 1


def test_the_s3_server_keeps_what_it_is_given(cluster: Cluster, bucket: str) -> None:
    files = cluster.s3.filesystem()
    with files.open_output_stream(f"{bucket}/kept") as out:
        out.write(b"as it was")

    assert files.open_input_stream(f"{bucket}/kept").readall() == b"as it was"


def test_the_operators_image_runs_without_root_and_without_writing(cluster: Cluster, namespace: str) -> None:
    cluster.apply(_pod("version", namespace, "localhost/message-store-operator/operator:0.1.0", ["--version"], 65532))
    pod = cluster.wait_for("pod", "version", namespace, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"))

    assert pod["status"]["phase"] == "Succeeded"
    assert cluster.kubectl("--namespace", namespace, "logs", "version") == "messagestore 0.1.0\n"


@pytest.mark.long
def test_an_application_of_our_image_writes_a_table(cluster: Cluster, namespace: str, bucket: str) -> None:
    cluster.apply(*_driver_account(namespace), _program(namespace), _credentials(cluster, namespace))
    cluster.apply(_application(namespace, f"s3a://{bucket}/table"))
    application = cluster.wait_for("sparkapplication", "write-table", namespace, _has_ended)

    log = cluster.kubectl("--namespace", namespace, "logs", "write-table-driver")

    assert application["status"]["applicationState"]["state"] == "COMPLETED", log
    assert len(application["status"]["executorState"]) == 1
    assert "rows 1000" in log
    assert DeltaTable(f"s3://{bucket}/table", storage_options=cluster.s3.storage_options()).count() == 1000


def _has_ended(application: dict[str, Any]) -> bool:
    state = application.get("status", {}).get("applicationState", {}).get("state")
    return state in ("COMPLETED", "FAILED", "SUBMISSION_FAILED")


def _pod(name: str, namespace: str, image: str, arguments: list[str], user: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": _pod_security(user),
            "containers": [{"name": name, "image": image, "args": arguments, "securityContext": CONTAINER_SECURITY}],
        },
    }


def _pod_security(user: int) -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def _driver_account(namespace: str) -> list[dict[str, Any]]:
    metadata = {"name": "driver", "namespace": namespace}
    resources = ["pods", "services", "configmaps", "persistentvolumeclaims"]
    verbs = ["create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"]
    api = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": f"{api}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}],
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": "driver"},
            "subjects": [{"kind": "ServiceAccount", "name": "driver", "namespace": namespace}],
        },
    ]


def _program(namespace: str) -> dict[str, Any]:
    metadata = {"name": "program", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"main.py": PROGRAM.read_text()}}


def _credentials(cluster: Cluster, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s3", "namespace": namespace},
        "stringData": {"AWS_ACCESS_KEY_ID": cluster.s3.access_key, "AWS_SECRET_ACCESS_KEY": cluster.s3.secret_key},
    }


def _application(namespace: str, table: str) -> dict[str, Any]:
    size = {"cores": 1, "coreRequest": "200m", "memory": "768m"}
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "write-table", "namespace": namespace},
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "4.1.4",
            "image": IMAGE,
            "mainApplicationFile": "local:///etc/program/main.py",
            "arguments": [table],
            "restartPolicy": {"type": "Never"},
            "sparkConf": {
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
                "spark.ui.enabled": "false",
            },
            "hadoopConf": {
                "fs.s3a.endpoint": POD_S3_ENDPOINT,
                "fs.s3a.endpoint.region": "us-east-1",
                "fs.s3a.path.style.access": "true",
                "fs.s3a.aws.credentials.provider": (
                    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
                ),
            },
            "driver": {**size, "serviceAccount": "driver", "template": _template("spark-kubernetes-driver")},
            "executor": {**size, "instances": 1, "template": _template("spark-kubernetes-executor")},
        },
    }


def _template(container: str) -> dict[str, Any]:
    mounts = {"tmp": "/tmp", "work-dir": "/opt/spark/work-dir", "program": "/etc/program"}
    return {
        "spec": {
            "securityContext": _pod_security(185),
            "containers": [
                {
                    "name": container,
                    "envFrom": [{"secretRef": {"name": "s3"}}],
                    "securityContext": CONTAINER_SECURITY,
                    "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
                }
            ],
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "work-dir", "emptyDir": {}},
                {"name": "program", "configMap": {"name": "program"}},
            ],
        }
    }
