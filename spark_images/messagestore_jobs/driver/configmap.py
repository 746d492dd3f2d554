"""The run's own ConfigMap, by the Kubernetes API: the one object that a driver may read and change.

A few calls of the standard library take the place of a client library, which the image would carry for this alone.
"""

import json
import os
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import HTTPSHandler, ProxyHandler

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REPORT = "report.json"
CONTROL = "control.json"
_SECONDS = 5


class ConfigMapGoneError(Exception):
    """There is no such ConfigMap any more: nobody waits for a report."""


@dataclass(frozen=True)
class ConfigMap:
    """One ConfigMap of the API server at ``server``; ``account`` holds the token and the authority's certificate."""

    server: str
    namespace: str
    name: str
    account: Path = ACCOUNT

    @staticmethod
    def of_environment(place: str) -> "ConfigMap":
        """The one at ``namespace/name``, by the API server that a pod is told of."""
        namespace, _, name = place.partition("/")
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        if ":" in host:
            host = f"[{host}]"
        account = Path(os.environ.get("MESSAGESTORE_SERVICE_ACCOUNT", ACCOUNT))
        return ConfigMap(f"https://{host}:{port}", namespace, name, account)

    def read(self) -> dict[str, str]:
        """Its data.

        Raises:
            ConfigMapGoneError: it was deleted.
            OSError: the API server can't be reached, or refuses.
        """
        return self._data("GET", None)

    def write_report(self, text: str) -> dict[str, str]:
        """Put a report in and return its data as it is then, what others wrote meanwhile included.

        Raises:
            ConfigMapGoneError: it was deleted.
            OSError: the API server can't be reached, or refuses.
        """
        return self._data("PATCH", json.dumps({"data": {REPORT: text}}).encode())

    def _data(self, method: str, body: bytes | None) -> dict[str, str]:
        url = f"{self.server}/api/v1/namespaces/{self.namespace}/configmaps/{self.name}"
        # Read anew each time: the kubelet renews the token.
        headers = {
            "Authorization": f"Bearer {(self.account / 'token').read_text().strip()}",
            "Accept": "application/json",
            "Content-Type": "application/merge-patch+json",
        }
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        # No proxy: the API server is in the cluster.
        opener = urllib.request.build_opener(ProxyHandler({}), HTTPSHandler(context=context))
        try:
            with opener.open(request, timeout=_SECONDS) as response:
                found: Any = json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise ConfigMapGoneError(f"{self.namespace}/{self.name}") from error
            raise
        except ValueError as error:
            raise OSError(f"the API server answered with what is no JSON: {error}") from error
        data = found.get("data")
        return data if isinstance(data, dict) else {}
