"""A reader of the pages on Kubernetes, with an API server where nothing else runs."""

import json
from pathlib import Path
from typing import Any

from hack.programs import program

from support.apiserver import ApiServer
from support.charts import collection
from support.documents import REPOSITORY, commands, run_script, run_until

Document = dict[str, Any]

MERGE = "application/merge-patch+json"
OURS = "/apis/messagestore.dev/v1alpha1/namespaces/messaging"
DEPLOYMENTS = "/apis/apps/v1/namespaces/messagestore/deployments"

READY = {"type": "Ready", "status": "True", "reason": "Ingesting", "message": "0 messages stored"}
COMPLETE = {"type": "Complete", "status": "True", "reason": "Succeeded", "message": "0 messages replayed"}
REPORTED: dict[str, Document] = {
    DEPLOYMENTS: {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2},
    f"{OURS}/messagestreams": {"conditions": [{**READY, "lastTransitionTime": "2026-03-01T06:30:00Z"}]},
    f"{OURS}/replayjobs": {"conditions": [{**COMPLETE, "lastTransitionTime": "2026-03-01T06:30:00Z"}]},
}
"""The status that the cluster's controllers and the operator report of each object of a collection."""


class Reader:
    """Somebody with the repository and a cluster, whose namespace is ``messaging``."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.followed: list[tuple[str, str]] = []
        for name in ("charts", "examples"):
            (folder / name).symlink_to(REPOSITORY / name)
        for name in ("accessKey", "secretKey"):
            (folder / name).write_text(f"the {name}")
        config = json.loads(server.kubeconfig(folder).read_text())
        config["contexts"][0]["context"]["namespace"] = "messaging"
        (folder / "kubeconfig").write_text(json.dumps(config))
        path = ":".join(str(program(name).parent) for name in ("kubectl", "helm"))
        self._environment = f'export KUBECONFIG=kubeconfig KUBECACHEDIR=cache PATH="{path}:$PATH"'

    def follow(self, page: str, heading: str) -> str:
        """Run the commands of a heading, and return what they printed."""
        self.followed.append((page, heading))
        return "".join(self._run(command) for command in commands(page, heading))

    def _run(self, command: str) -> str:
        script = f"{self._environment}\n{command}"
        if "--watch" in command:
            return run_until("True", script, self.folder)
        done = run_script(script, self.folder, self.folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def create(
        self,
        version: str,
        kind: str,
        name: str,
        namespace: str = "",
        labels: dict[str, str] | None = None,
        **content: Any,
    ) -> None:
        """Create an object."""
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        document = {"apiVersion": version, "kind": kind, "metadata": metadata, **content}
        answer = self.server.request("POST", collection(self.server, document), document)
        assert answer.accepted, answer.body

    def read(self, path: str) -> Document:
        """The object at a path, which is there."""
        answer = self.server.request("GET", path)
        assert answer.accepted, answer.body
        return answer.body

    def names(self, path: str) -> set[str]:
        """The names of the objects of a collection."""
        return {one["metadata"]["name"] for one in self.read(path)["items"]}


def report(server: ApiServer) -> None:
    """Write what controllers and the operator report of the objects that are there."""
    for path, status in REPORTED.items():
        for one in server.request("GET", path).body.get("items", []):
            seen = {"status": {**status, "observedGeneration": one["metadata"]["generation"]}}
            place = f"{path}/{one['metadata']['name']}/status"
            server.request("PATCH", place, seen, MERGE)
