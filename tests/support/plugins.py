"""``kubectl messagestore`` against an API server, as an administrator or another user."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hack.programs import program
from typer.testing import CliRunner, Result

from messagestore_operator.names import API_VERSION, NAMES
from messagestore_operator.plugin.main import app
from support.apiserver import ApiServer
from support.documents import commands, run_script

MERGE = "application/merge-patch+json"
Document = dict[str, Any]
SPECS: dict[str, Document] = {
    "MessageStream": {
        "table": {"uri": "s3a://lake/orders"},
        "source": {"files": {"uri": "s3a://landing/orders/"}},
        "trigger": {"manual": {}},
    },
    "RetentionPolicy": {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "mode": "Enforce",
        "approval": "Required",
        "rules": [{"name": "old", "maxAge": "P90D"}],
    },
    "ReplayJob": {
        "streamRef": {"name": "orders"},
        "destination": {"files": {"uri": "s3a://out/orders"}},
    },
}


@dataclass
class Plugin:
    """The command, with the namespace that its kubeconfig names."""

    server: ApiServer
    namespace: str
    folder: Path

    def run(self, *arguments: str, answer: str = "") -> Result:
        """Run a command in this process; it reaches the server by a real kubectl."""
        return CliRunner().invoke(app, arguments, input=answer)

    def said(self, *arguments: str) -> str:
        """What a command prints; raises AssertionError if it fails."""
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def read(self, kind: str, name: str) -> Document:
        """A resource; raises AssertionError if there is none."""
        answer = self.server.request("GET", self.path(kind, name))
        assert answer.accepted, answer.body
        return answer.body

    def annotate(self, kind: str, name: str, given: dict[str, str | None]) -> None:
        """Set or remove annotations of a resource."""
        change = {"metadata": {"annotations": given}}
        assert self.server.request("PATCH", self.path(kind, name), change, MERGE).accepted

    def forget(self, *namespaces: str) -> None:
        """Delete all that tests have made for a resource or a run."""
        of_runs = ("/api/v1/{}/pods", "/api/v1/{}/configmaps", "/api/v1/{}/secrets", "/api/v1/{}/events")
        applications = "/apis/sparkoperator.k8s.io/v1beta2/{}/sparkapplications"
        for namespace in namespaces:
            kinds = [self.path(kind, namespace=namespace) for kind in NAMES]
            for path in (*kinds, *of_runs, applications):
                answer = self.server.request("DELETE", path.format(f"namespaces/{namespace}"))
                assert answer.accepted, answer.body

    def follow(self, page: str, heading: str) -> str:
        """Run the commands of a page's heading by a shell, and return what they print."""
        done = run_script("\n".join(commands(page, heading)), self.folder, self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def path(self, kind: str, name: str = "", namespace: str = "") -> str:
        place = f"/apis/{API_VERSION}/namespaces/{namespace or self.namespace}/{NAMES[kind].plural}"
        return f"{place}/{name}" if name else place

    def make(self, kind: str, name: str, status: Document | None = None, namespace: str = "", **spec: Any) -> None:
        """Create a resource, with the status that an operator would have written."""
        about = {"name": name, "namespace": namespace or self.namespace}
        document = {"apiVersion": API_VERSION, "kind": kind, "metadata": about, "spec": {**SPECS[kind], **spec}}
        answer = self.server.request("POST", self.path(kind, namespace=namespace), document)
        assert answer.accepted, answer.body
        if status:
            path = f"{self.path(kind, name, namespace)}/status"
            answer = self.server.request("PATCH", path, {"status": status}, MERGE)
            assert answer.accepted, answer.body


def plugin_for(server: ApiServer, namespace: str, folder: Path, patch: pytest.MonkeyPatch) -> Plugin:
    """The command with an administrator's kubeconfig for a new namespace."""
    assert server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).accepted
    file = server.kubeconfig(folder)
    config = json.loads(file.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    file.write_text(json.dumps(config))
    patch.setenv("KUBECONFIG", str(file))
    patch.setenv("KUBECACHEDIR", str(folder / "cache"))
    patch.setenv("PATH", str(program("kubectl").parent), prepend=":")
    return Plugin(server, namespace, folder)
