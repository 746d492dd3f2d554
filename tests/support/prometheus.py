"""Prometheus and its tools, of Debian; one that scrapes this machine."""

import functools
import json
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.documents import REPOSITORY
from support.servers import free_ports, wait_until_it_listens
from support.waiting import scaled

_CONFIGURATION = """
global: {{scrape_interval: {every}}}
scrape_configs:
- job_name: operator
  honor_labels: true
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@functools.cache
def program(name: str) -> str:
    """The path of a program, such as promtool, by the name under which hack/downloads.py has its folder."""
    command = [sys.executable, "-m", "hack.downloads", name]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    return f"{done.stdout.strip()}/{name}"


@dataclass(frozen=True)
class Prometheus:
    """A server that answers queries."""

    port: int

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series of a query now; raises HTTPError if it is none."""
        return self._get("query", query=query)

    def between(self, query: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The series of a query over some time."""
        return self._get("query_range", query=query, start=start, end=end, step=step)

    def _get(self, what: str, **asked: Any) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=scaled(10)) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found


@contextmanager
def running_prometheus(folder: Path, target: int, every: str = "1s") -> Iterator[Prometheus]:
    """Scrapes a port of this machine, and keeps what it gets in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(_CONFIGURATION.format(every=every, port=target))
    (port,), log = free_ports(1), folder / "log"
    given = {"config.file": "prometheus.yml", "storage.tsdb.path": "data", "web.listen-address": f"127.0.0.1:{port}"}
    command = [
        Path(program("promtool")).with_name("prometheus"),
        *(f"--{name}={value}" for name, value in given.items()),
    ]
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until_it_listens("Prometheus", server, port, log, 20)
        yield Prometheus(port)
    finally:
        server.terminate()
        server.wait(scaled(20))
