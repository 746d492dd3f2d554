"""The chart installed in an API server: the operator's settings and permissions."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.apiserver import ApiServer
from support.helm import CHART, IMAGES, RELEASE, helm, rendered

ACCOUNT = f"{RELEASE}-message-store-operator"


@dataclass(frozen=True)
class Installed:
    """The operator's settings from the chart, and a kubeconfig for the chart's ServiceAccount."""

    settings: dict[str, Any]
    kubeconfig: Path


@contextmanager
def installed_chart(server: ApiServer, own: str, folder: Path, *values: str) -> Iterator[Installed]:
    """Install the chart in the operator's own namespace, without CRDs; uninstall it afterwards.

    Args:
        server: has the CRDs already.
        own: the operator's namespace, which exists.
        folder: for files with credentials.
        values: of the chart, as `name=value`.
    """
    where = ["--kubeconfig", str(server.kubeconfig(folder)), "--namespace", own]
    chosen = ["--set", ",".join(["crds.enabled=false", *values])]
    helm("install", RELEASE, CHART, *where, *IMAGES, *chosen)
    try:
        yield Installed({**_settings(*chosen), "namespace": own}, _kubeconfig(server, own, folder))
    finally:
        helm("uninstall", RELEASE, *where)


def _settings(*arguments: str) -> dict[str, Any]:
    """The operator's settings file from the chart."""
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
