"""What runs in the cluster: the Spark operator, an S3 server, and the project's own operator."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from hack import programs
from hack.docker import Docker, wait_until
from hack.gobuild import module_source
from hack.kind import NODE, kubeconfig, kubectl
from hack.machine import REPOSITORY, run, step

MANIFESTS = Path(__file__).with_name("manifests")
SPARK_OPERATOR_NAMESPACE = "spark-operator"
STORAGE_NAMESPACE = "storage"
S3_SECRET = "s3-root"
S3_FOLDER = "/var/local/s3"
"""The S3 server's data folder in the node."""
OPERATOR_NAMESPACE = "messagestore"
OPERATOR_RELEASE = "store"
CHART = REPOSITORY / "charts" / "message-store-operator"


def spark_operator() -> None:
    """Install Kubeflow's Spark operator from its own chart, for all namespaces; first its CRDs."""
    module = "github.com/kubeflow/spark-operator/v2"
    chart = module_source(module, programs.SPARK_OPERATOR_VERSION) / "charts" / "spark-operator-chart"
    # It exits when it starts before its kinds are known. Server-side: they are too large for an annotation.
    for definitions in sorted((chart / "crds").glob("*.yaml")):
        kubectl("apply", "--server-side", "--force-conflicts", "--filename", definitions)
    wait_until(_established, "the Spark operator's kinds are established", "see kubectl get crd")
    tag = programs.SPARK_OPERATOR_VERSION
    with step(f"Spark operator {tag}"):
        values = ("--values", MANIFESTS / "spark-operator.yaml", "--set", f"image.tag={tag}", "--skip-crds")
        helm_install("spark-operator", chart, SPARK_OPERATOR_NAMESPACE, *values)


def names() -> None:
    """Configure CoreDNS to answer at once for names outside the cluster."""
    wanted = (MANIFESTS / "Corefile").read_text()
    system = ("--namespace", "kube-system")
    if kubectl(*system, "get", "configmap", "coredns", "--output", "jsonpath={.data.Corefile}") == wanted:
        return
    patch = json.dumps({"data": {"Corefile": wanted}})
    kubectl(*system, "patch", "configmap", "coredns", "--type", "merge", "--patch", patch)
    kubectl(*system, "rollout", "restart", "deployment/coredns")


def s3(docker: Docker) -> None:
    """Run the S3 server, with new credentials that only a Secret has."""
    with step("S3 server"):
        # The folder is the node's, not the pod's, so that it outlives the pod. The server's user must own it.
        docker.run("exec", NODE, "install", "--directory", "--owner=1000", "--group=1000", S3_FOLDER)
        _namespace(STORAGE_NAMESPACE)
        if not kubectl("--namespace", STORAGE_NAMESPACE, "get", "secret", S3_SECRET, "--ignore-not-found").strip():
            kubectl("apply", "--filename", "-", stdin=json.dumps(_fresh_credentials()))
        kubectl("apply", "--filename", MANIFESTS / "s3.yaml")
        kubectl("--namespace", STORAGE_NAMESPACE, "rollout", "status", "deployment/s3", "--timeout=120s")


def message_store_operator(image_id: str, values: Sequence[Path] = ()) -> None:
    """Install the project's operator by its own chart; later files of ``values`` override earlier ones.

    The image's tag stays the same from build to build; a changed ``image_id`` restarts the pods.
    """
    with step("message store operator"):
        files = (MANIFESTS / "message-store-operator.yaml", *values)
        options = [option for file in files for option in ("--values", file)]
        annotation = ("--set-string", f"podAnnotations.image-id={image_id}")
        helm_install(OPERATOR_RELEASE, CHART, OPERATOR_NAMESPACE, *options, *annotation)


def _established() -> bool:
    # Neither `kubectl wait` nor a condition by jsonpath: both fail for a CRD so new that it has no conditions.
    definition = json.loads(kubectl("get", "crd", "sparkapplications.sparkoperator.k8s.io", "--output", "json"))
    conditions = definition.get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def helm_install(release: str, chart: Path, namespace: str, *options: str | Path) -> None:
    """Install or upgrade a chart and wait until its objects are ready."""
    helm: list[str | Path] = [programs.program("helm"), "--kubeconfig", kubeconfig(), "upgrade", "--install"]
    place = (release, chart, "--namespace", namespace, "--create-namespace")
    run([*helm, *place, *options, "--wait", "--timeout", "3m"])


def _namespace(name: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    kubectl("apply", "--filename", "-", stdin=json.dumps(manifest))


def _fresh_credentials() -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": S3_SECRET,
            "namespace": STORAGE_NAMESPACE,
            "labels": {"messagestore.dev/use": "storage"},
        },
        "stringData": {"accessKey": secrets.token_hex(10), "secretKey": secrets.token_urlsafe(30)},
    }
