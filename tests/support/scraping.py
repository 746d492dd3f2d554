"""A Prometheus of this machine that scrapes the operator in the cluster."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack import install, kind
from hack.programs import program

from support.prometheus import Prometheus, running_prometheus
from support.servers import free_ports, wait_until_it_listens
from support.site import OPERATOR, Site

_LABELS = {
    "namespace": install.OPERATOR_NAMESPACE,
    "service": f"{install.OPERATOR_RELEASE}-message-store-operator-metrics",
}
"""What a ServiceMonitor gives the operator's own series, and the rules ask for."""


@contextmanager
def scraping_operator(site: Site, folder: Path, every: str = "1s", **more: Any) -> Iterator[Prometheus]:
    """Scrapes each of the operator's pods by the API server."""
    pods = [
        pod["metadata"]["name"] for pod in site.items("pod", *OPERATOR) if "deletionTimestamp" not in pod["metadata"]
    ]
    paths = [f"/api/v1/namespaces/{install.OPERATOR_NAMESPACE}/pods/{pod}:8080/proxy/metrics" for pod in pods]
    with (
        _proxy(folder) as port,
        running_prometheus(folder / "prometheus", port, every, paths=paths, labels=_LABELS, **more) as prometheus,
    ):
        yield prometheus


@contextmanager
def _proxy(folder: Path) -> Iterator[int]:
    """A port of this machine that leads to the API server, as its administrator."""
    (port,), log = free_ports(1), folder / "proxy.log"
    command = [program("kubectl"), "--kubeconfig", kind.kubeconfig(), "proxy", f"--port={port}"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until_it_listens("kubectl proxy", process, port, log, 20)
        yield port
    finally:
        process.terminate()
        process.wait()
