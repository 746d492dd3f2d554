"""The setup of the measurements: an API server, the chart's rights, the operator, and the fakes."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.perf.operator_load import audit
from tests.perf.operator_load.manifests import NAMESPACES
from tests.perf.operator_load.process import Usage, watched

from support.apiserver import ApiServer, running_apiserver
from support.definitions import install_definitions
from support.helm import REPOSITORY
from support.installed import ACCOUNT, installed_chart
from support.operators import Operator, eventually, running_operator
from support.secrets import make_secret

OWN = "message-store"
"""The operator's namespace."""
OPERATOR = f"system:serviceaccount:{OWN}:{ACCOUNT}"
"""The operator's user at the API server."""
_ROOT = "/apis/messagestore.dev/v1alpha1"
_PLURALS = {"MessageStream": "messagestreams", "RetentionPolicy": "retentionpolicies"}


@dataclass
class Stage:
    """Everything that an operator needs, and the folder that it writes to."""

    server: ApiServer
    fakes: "subprocess.Popen[bytes]"
    folder: Path
    settings: dict[str, Any]
    kubeconfig: Path

    def resources(self, kind: str) -> list[dict[str, Any]]:
        """All resources of a kind now."""
        found: list[dict[str, Any]] = self.server.request("GET", f"{_ROOT}/{_PLURALS[kind]}").body["items"]
        return found

    def end(self) -> dict[str, Any]:
        """End the fakes gracefully, and return their record."""
        self.fakes.send_signal(signal.SIGTERM)
        self.fakes.wait(timeout=20)
        record: dict[str, Any] = json.loads(_record(self.folder).read_text())
        return record


@dataclass
class Scene(Stage):
    """A stage with one running operator."""

    operator: Operator

    def end(self) -> dict[str, Any]:
        """End the operator, and then the fakes."""
        self.operator.stop()
        return super().end()

    @contextmanager
    def restarted(self) -> Iterator[tuple[Operator, Usage]]:
        """Another operator that finds all objects, and its resource usage."""
        with running_operator(self.server, self.folder, self.settings, self.kubeconfig) as operator:
            with watched({"operator": operator.process.pid}) as usage:
                _wait_until_it_works(operator)
                yield operator, usage["operator"]
            operator.stop()


def apply(server: ApiServer, resource: dict[str, Any]) -> None:
    """Create a resource."""
    answer = server.request("POST", address(resource).rpartition("/")[0], resource)
    if not answer.accepted:
        raise RuntimeError(f"{resource['metadata']['name']} was refused: {answer.body}")


def address(resource: dict[str, Any]) -> str:
    """The path of a resource."""
    name, namespace = resource["metadata"]["name"], resource["metadata"]["namespace"]
    return f"{_ROOT}/namespaces/{namespace}/{_PLURALS[resource['kind']]}/{name}"


def _wait_until_it_works(operator: Operator) -> None:
    eventually(lambda: operator.figure("messagestore_operator_leading") == 1, 60, operator)
    eventually(lambda: operator.get("/readyz")[0] == 200, 60, operator)
    # Its watches begin a moment after its first lists.
    time.sleep(3)


@contextmanager
def scene(run_seconds: float, values: list[str]) -> Iterator[Scene]:
    """Set everything up, and remove it afterwards.

    Args:
        run_seconds: how long a driver runs.
        values: of the chart, as `name=value`, where they differ from its own.
    """
    with (
        stage(run_seconds, values) as found,
        running_operator(found.server, found.folder, found.settings, found.kubeconfig) as operator,
    ):
        _wait_until_it_works(operator)
        yield Scene(found.server, found.fakes, found.folder, found.settings, found.kubeconfig, operator)


@contextmanager
def stage(run_seconds: float, values: list[str]) -> Iterator[Stage]:
    """The same without an operator."""
    # Elsewhere the API server has its own machine. Here it collects garbage less often to use less CPU, with a limit
    # on memory: ten thousand runs would take 10 GB.
    less = mock.patch.dict(os.environ, GOGC="400", GOMEMLIMIT="5GiB")
    with less, tempfile.TemporaryDirectory(prefix="operator-load-") as name:
        folder = Path(name)
        with running_apiserver(audit.flags(folder, OPERATOR)) as server:
            install_definitions(server)
            for namespace in (OWN, *NAMESPACES):
                server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
                make_secret(server, namespace, "lake-credentials", "storage")
            with (
                installed_chart(server, OWN, folder, *values) as chart,
                _running_fakes(server, folder, run_seconds) as fakes,
            ):
                yield Stage(server, fakes, folder, chart.settings, chart.kubeconfig)


@contextmanager
def _running_fakes(server: ApiServer, folder: Path, seconds: float) -> Iterator["subprocess.Popen[bytes]"]:
    arguments = [str(server.port), str(server.certificate), str(seconds), str(_record(folder))]
    fakes = subprocess.Popen([sys.executable, "-m", "tests.perf.operator_load.fakes", *arguments], cwd=REPOSITORY)
    try:
        yield fakes
    finally:
        if fakes.poll() is None:
            fakes.kill()
            fakes.wait()


def _record(folder: Path) -> Path:
    return folder / "fakes.json"
