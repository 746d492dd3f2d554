"""The chart installed in an API server: the settings and the rights that the operator has by it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.apiserver import ApiServer
from support.helm import CHART, RELEASE, helm, rendered

ACCOUNT = f"{RELEASE}-message-store-operator"


@dataclass(frozen=True)
class Installed:
    """What the chart gives an operator: its settings, and a file by which it is who the chart says."""

    settings: dict[str, Any]
    kubeconfig: Path


@contextmanager
def installed_chart(server: ApiServer, own: str, folder: Path, *values: str) -> Iterator[Installed]:
    """The chart's release in the operator's own namespace, without definitions, uninstalled afterwards.

    Args:
        server: where the definitions are already.
        own: the operator's namespace, which is there.
        folder: for files with credentials.
        values: of the chart, as `name=value`.
    """
    where = ["--kubeconfig", str(server.kubeconfig(folder)), "--namespace", own]
    chosen = ["--set", ",".join(["crds.enabled=false", *values])]
    helm("install", RELEASE, CHART, *where, *chosen)
    try:
        yield Installed({**_settings(*chosen), "namespace": own}, _kubeconfig(server, own, folder))
    finally:
        helm("uninstall", RELEASE, *where)


def _settings(*arguments: str) -> dict[str, Any]:
    """What the chart writes for the operator to read."""
    texts = [one["data"]["settings.yaml"] for one in rendered(*arguments) if "settings.yaml" in one.get("data", {})]
    found: dict[str, Any] = yaml.safe_load(texts[0])
    return {name: value for name, value in found.items() if name not in ("healthPort", "metricsPort")}


def _kubeconfig(server: ApiServer, namespace: str, folder: Path) -> Path:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    answer = server.request("POST", path, {"spec": {"expirationSeconds": 6 * 3600}})
    assert answer.accepted, answer.body
    config = json.loads(server.kubeconfig(folder).read_text())
    config["users"][0]["user"]["token"] = answer.body["status"]["token"]
    file = folder / "as-operator"
    file.write_text(json.dumps(config))
    return file
