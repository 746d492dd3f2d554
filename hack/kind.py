"""The kind cluster itself: creation, health and deletion."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from hack import docker as daemon
from hack import node_image, programs
from hack.docker import Docker, state_folder
from hack.gobuild import module_source
from hack.machine import run, step

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
            _delete(docker)  # a rest of an interrupted creation, or from before the machine was restarted
            config = json.dumps(_config(image, own=docker.own))
            command: list[str | Path] = [programs.program("kind"), "create", "cluster", "--name", NAME]
            command += ["--kubeconfig", kubeconfig(), "--config", "-", "--wait", "120s"]
            run(command, environment=docker.environment, stdin=config)


def wait_for_names() -> None:
    """Wait until the cluster's own name service answers, which pods need."""
    with step("waiting for the cluster's name service"):
        kubectl("--namespace", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=180s")


def delete(docker: Docker) -> None:
    """Delete the cluster."""
    _delete(docker)
    kubeconfig().unlink(missing_ok=True)


def _delete(docker: Docker) -> None:
    command: list[str | Path] = [programs.program("kind"), "delete", "cluster", "--name", NAME]
    run([*command, "--kubeconfig", kubeconfig()], environment=docker.environment)


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
