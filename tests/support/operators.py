"""Operators as separate processes, with the tests' API server."""

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.apiserver import ApiServer
from support.helm import SPARK_IMAGE
from support.servers import free_ports
from support.waiting import scaled, wait_until

_COMMAND = [sys.executable, "-c", "from messagestore_operator.__main__ import main; main()", "operator"]
_HERE = Path(__file__).parents[1]
# For tests in which another takes over. A busy machine can miss it, and nobody starts an operator again that ends.
SHORT_LEASE = {"duration": 3.0, "renewDeadline": 2.0, "retry": 0.3}
FAST: dict[str, Any] = {
    "leader": {"duration": 60.0, "renewDeadline": 50.0, "retry": 0.3},
    "runs": {"lookAgain": "PT1S", "yieldAfter": "PT2S", "backoffBase": "PT1S"},
    "resync": "PT30S",
    "statusInterval": "PT1S",
    "listen": "127.0.0.1",
    # Few tests are about Secrets.
    "tenancy": {"secrets": {"requireLabel": False}},
}


@dataclass
class Operator:
    """One operator process."""

    process: "subprocess.Popen[bytes]"
    log: Path
    health_port: int
    metrics_port: int

    def kill(self) -> None:
        """Kill it at once, like a lost node."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, as a kubelet does."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=scaled(20))

    def get(self, path: str) -> tuple[int, str]:
        """The answer of its probes or metrics; status 0 is no answer."""
        port = self.metrics_port if path == "/metrics" else self.health_port
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=scaled(5)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def figure(self, name: str) -> float:
        """The sum of a metric over its labels; 0 while the process doesn't answer.

        Raises:
            LookupError: it answers and has no such metric.
        """
        status, text = self.get("/metrics")
        if status and f"# TYPE {re.sub('_(count|sum)$', '', name)} " not in text:
            raise LookupError(f"there is no figure {name}: {status} {text}")
        lines = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    @property
    def text(self) -> str:
        """Its log."""
        return self.log.read_text()


@contextmanager
def running_operator(
    server: ApiServer,
    folder: Path,
    settings: dict[str, Any] | None = None,
    kubeconfig: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Operator]:
    """An operator with short intervals, ended afterwards."""
    started = start_operator(server, folder, settings, kubeconfig, environment=environment)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.kill()


def start_operator(
    server: ApiServer,
    folder: Path,
    settings: dict[str, Any] | None = None,
    kubeconfig: Path | None = None,
    ahead: float = 0,
    environment: Mapping[str, str] | None = None,
) -> Operator:
    """Start an operator, whose clock may be some seconds ahead, with more environment; the caller ends it."""
    folder.mkdir(parents=True, exist_ok=True)
    health, metrics = free_ports(2)
    file = folder / f"settings-{health}.yaml"
    given = {**FAST, "healthPort": health, "metricsPort": metrics, **(settings or {})}
    given["spark"] = {"image": SPARK_IMAGE, **given.get("spark", {})}
    file.write_text(yaml.safe_dump(given))
    config = kubeconfig or server.kubeconfig(folder)
    log = folder / f"operator-{health}.log"
    command = [sys.executable, "-m", "support.wrongclock", str(ahead), "operator"] if ahead else _COMMAND
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--settings", str(file)],
            cwd=_HERE if ahead else None,
            env={**os.environ, "KUBECONFIG": str(config), **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return Operator(process, log, health, metrics)


def eventually(check: Callable[[], Any], seconds: float = 20, of: Operator | None = None) -> Any:
    """Wait until a check returns something true, and return that; on failure, show the operator's log."""
    return wait_until(
        check,
        seconds,
        lambda: f"last: {check()!r}\n{of.text if of else ''}",
        progress=lambda: of.log.stat().st_size if of else None,
        beat=0.05,
    )
