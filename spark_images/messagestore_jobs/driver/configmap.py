"""The run's own ConfigMap, the only object of the Kubernetes API that a driver may read and change.

The standard library is enough for its few calls, so the image needs no client library.
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
    """The ConfigMap was deleted: no operator waits for a report."""


@dataclass(frozen=True)
class ConfigMap:
    """One ConfigMap of the API server at ``server``; folder ``account`` has token and CA certificate."""

    server: str
    namespace: str
    name: str
    account: Path = ACCOUNT

    @staticmethod
    def of_environment(reference: str) -> "ConfigMap":
        """The ConfigMap ``namespace/name`` of the API server in the pod's environment."""
        namespace, _, name = reference.partition("/")
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
        """Write a report, and return the data after that, with what others wrote.

        Raises:
            ConfigMapGoneError: it was deleted.
            OSError: the API server can't be reached, or refuses.
        """
        return self._data("PATCH", json.dumps({"data": {REPORT: text}}).encode())

    def _data(self, method: str, body: bytes | None) -> dict[str, str]:
        url = f"{self.server}/api/v1/namespaces/{self.namespace}/configmaps/{self.name}"
        # Read the token each time, as the kubelet renews it.
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
                answer: Any = json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise ConfigMapGoneError(f"{self.namespace}/{self.name}") from error
            raise
        except ValueError as error:
            raise OSError(f"the API server answered with what is no JSON: {error}") from error
        data = answer.get("data")
        return data if isinstance(data, dict) else {}
