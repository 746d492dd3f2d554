"""Prometheus and its tools, of Debian; one that scrapes this machine."""

import functools
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.downloads import FOLDERS

from support.servers import free_ports, wait_until_it_listens
from support.waiting import scaled

_ALERTMANAGER = {"route": {"receiver": "nobody", "group_wait": "0s"}, "receivers": [{"name": "nobody"}]}


@functools.cache
def program(name: str) -> str:
    """The path of a program, such as promtool, by the name under which hack/downloads.py has its folder."""
    return str(FOLDERS[name]() / name)


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


@dataclass(frozen=True)
class Alertmanager:
    """A server that has the alerts that a Prometheus sends."""

    port: int

    def firing(self, namespaces: Sequence[str] = ()) -> set[str]:
        """The names of the alerts that fire now; with namespaces, only those about one of them, or about none."""
        about = {*namespaces, None}
        return {one["alertname"] for one in self._labels() if not namespaces or one.get("namespace") in about}

    def named(self, alert: str, namespace: str) -> set[str]:
        """The names of the resources of a namespace for which an alert fires."""
        labels = (one for one in self._labels() if (one["alertname"], one.get("namespace")) == (alert, namespace))
        return {one["name"] for one in labels}

    def _labels(self) -> list[dict[str, str]]:
        url = f"http://127.0.0.1:{self.port}/api/v2/alerts?active=true"
        with urllib.request.urlopen(url, timeout=scaled(10)) as answer:
            return [one["labels"] for one in json.load(answer)]


@contextmanager
def running_prometheus(
    folder: Path,
    target: int,
    every: str = "1s",
    *,
    paths: Sequence[str] = ("/metrics",),
    labels: Mapping[str, str] | None = None,
    rules: Mapping[str, Any] | None = None,
    alertmanager: int | None = None,
) -> Iterator[Prometheus]:
    """Scrapes a port of this machine, and keeps what it gets in a folder.

    Args:
        paths: of its pages of figures, which are an instance each.
        labels: of the target.
        rules: groups of rules, whose alerts an Alertmanager at this port gets.
    """
    folder.mkdir(parents=True, exist_ok=True)
    targets = [
        {
            "targets": [f"127.0.0.1:{target}"],
            "labels": {"__metrics_path__": path, "instance": path, **(labels or {})},
        }
        for path in paths
    ]
    configuration: dict[str, Any] = {
        "global": {"scrape_interval": every, "evaluation_interval": every},
        "scrape_configs": [{"job_name": "operator", "honor_labels": True, "static_configs": targets}],
    }
    if rules is not None:
        (folder / "rules.json").write_text(json.dumps(rules))
        told = [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]
        configuration |= {"rule_files": ["rules.json"], "alerting": {"alertmanagers": told}}
    (folder / "prometheus.yml").write_text(json.dumps(configuration))
    found = Path(program("promtool")).with_name("prometheus")
    # It finds the Alertmanager some seconds after its first alerts, which it would repeat after a minute.
    with _running(found, folder, "storage.tsdb.path", f"--rules.alert.resend-delay={every}") as port:
        yield Prometheus(port)


@contextmanager
def running_alertmanager(folder: Path) -> Iterator[Alertmanager]:
    """Takes alerts, and tells nobody."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus-alertmanager.yml").write_text(json.dumps(_ALERTMANAGER))
    found = Path(program("prometheus-alertmanager"))
    with _running(found, folder, "storage.path", "--cluster.listen-address=") as port:
        yield Alertmanager(port)


@contextmanager
def _running(path: Path, folder: Path, storage: str, *more: str) -> Iterator[int]:
    """A server with the configuration of its name in a folder; gives its port."""
    (port,), log = free_ports(1), folder / "log"
    given = {"config.file": f"{path.name}.yml", storage: "data", "web.listen-address": f"127.0.0.1:{port}"}
    command = [path, *(f"--{name}={value}" for name, value in given.items()), *more]
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until_it_listens(path.name, server, port, log, 20)
        yield port
    finally:
        server.terminate()
        server.wait(scaled(20))
