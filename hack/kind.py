"""The kind cluster itself: creation, health, images and deletion."""

import json
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from hack import docker as daemon
from hack import node_image, programs
from hack.docker import Docker, state_folder
from hack.gobuild import module_source
from hack.machine import run, step
from hack.oci import write_archive

NAME = "messagestore"
NODE = f"{NAME}-control-plane"
API_PORT = 36443
"""The API server's port on loopback, both on this machine and in the cluster's network namespace."""
S3_PORT = 36900
"""The S3 server's port on loopback; in the node it is the node port below."""
S3_NODE_PORT = 30900


def kubeconfig() -> Path:
    """The administrator's kubeconfig, with the API server's address on this machine's loopback."""
    return state_folder() / "kubeconfig"


def kubectl(*arguments: str | Path, stdin: str | None = None) -> str:
    """Run kubectl against the cluster and return its output; SystemExit if it fails."""
    return run([programs.program("kubectl"), "--kubeconfig", kubeconfig(), *arguments], stdin=stdin)


def public_node_image() -> str:
    """The node image that this version of kind pulls from a registry."""
    source = module_source("sigs.k8s.io/kind", programs.KIND_VERSION) / "pkg/apis/config/defaults/image.go"
    return source.read_text().split('"')[1]


def exists(docker: Docker) -> bool:
    """Whether the node's container runs."""
    return bool(docker.run("ps", "--quiet", "--filter", f"name=^{NODE}$").strip())


def healthy() -> bool:
    """Whether the API server and the node are ready."""
    if not kubeconfig().exists():
        return False
    ready = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
    command: list[str | Path] = [programs.program("kubectl"), "--kubeconfig", kubeconfig(), "--request-timeout=5s"]
    done = subprocess.run([*command, "get", "nodes", "-o", ready], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == "True"


def create(docker: Docker) -> None:
    """Create the cluster if it doesn't exist, and wait until its node is ready."""
    if docker.own:
        daemon.forward(API_PORT, S3_PORT)
    if not exists(docker):
        image = node_image.build(docker) if docker.own else public_node_image()
        with step("kind cluster"):
            delete(docker)  # a rest of an interrupted creation, or from before the machine was restarted
            config = json.dumps(_config(image, own=docker.own))
            command: list[str | Path] = [programs.program("kind"), "create", "cluster", "--name", NAME]
            command += ["--kubeconfig", kubeconfig(), "--config", "-", "--wait", "120s"]
            run(command, environment=docker.environment, stdin=config)


def wait_for_names() -> None:
    """Wait until the cluster's own name service answers, which pods need."""
    with step("waiting for the cluster's name service"):
        kubectl("--namespace", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=180s")


def load(docker: Docker, images: Sequence[str]) -> None:
    """Load the daemon's ``images`` into the node's container runtime, with the same names.

    A change of the jobs' code is a layer of some hundred kilobytes on top of one of a gigabyte: only layers that the
    node lacks are sent.
    """
    record = state_folder() / "loaded.json"
    loaded = _loaded(record, docker.identity(NODE))
    missing = [image for image in images if loaded.get(image) != docker.identity(image)]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as folder, step(f"images into the node: {' '.join(missing)}"):
        saved, archive = Path(folder) / "saved.tar", Path(folder) / "missing.tar"
        docker.run("save", "--output", saved, *missing)
        write_archive(saved, archive, present=_content(docker))
        receive = ("exec", "--interactive", NODE, "ctr", "--namespace", "k8s.io", "images", "import", "-")
        docker.pipe(["cat", archive], *receive)
    loaded.update({image: docker.identity(image) for image in missing})
    record.write_text(json.dumps({"node": docker.identity(NODE), "images": loaded}))


def _loaded(record: Path, node: str) -> dict[str, str]:
    """The image that was loaded into this node under each name, from the record."""
    try:
        known = json.loads(record.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    images: dict[str, str] = known["images"] if known["node"] == node else {}
    return images


def _content(docker: Docker) -> Collection[str]:
    """The digests of the node's content store."""
    return set(docker.run("exec", NODE, "ctr", "--namespace", "k8s.io", "content", "ls", "--quiet").split())


def delete(docker: Docker) -> None:
    """Delete the cluster."""
    command: list[str | Path] = [programs.program("kind"), "delete", "cluster", "--name", NAME]
    run([*command, "--kubeconfig", kubeconfig()], environment=docker.environment)
    kubeconfig().unlink(missing_ok=True)


def _config(image: str, *, own: bool) -> dict[str, object]:
    """Kind's configuration; JSON is YAML."""
    mapping = {"containerPort": S3_NODE_PORT, "hostPort": S3_PORT, "listenAddress": "127.0.0.1"}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {
            "apiServerAddress": "127.0.0.1",
            "apiServerPort": API_PORT,
            # Our own node image contains its network's configuration.
            "disableDefaultCNI": own,
            "podSubnet": "10.244.0.0/16",
        },
        "nodes": [{"role": "control-plane", "image": image, "extraPortMappings": [mapping]}],
    }
