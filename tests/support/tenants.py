"""Tenants: people who may edit the three kinds in one namespace and nothing else, and an operator that serves them."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from messagestore_operator.names import API_VERSION, NAMES
from support.apiserver import Answer, ApiServer
from support.fakespark import FakeSpark, fake_spark
from support.installed import ACCOUNT, Installed, installed_chart
from support.launches import stream
from support.operators import FAST, Operator, eventually, running_operator
from support.secrets import make_storage_secrets

Document = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"
MERGE = "application/merge-patch+json"
_PLAIN: dict[str, Document] = {
    "RetentionPolicy": {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P1D"}],
    },
    "ReplayJob": {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://landing/again"}}},
}
_numbers = count()


@dataclass(frozen=True)
class Told:
    """What a resource's owner can see about it."""

    condition: Document
    events: tuple[Document, ...]

    @property
    def words(self) -> str:
        """The condition's message."""
        found: str = self.condition["message"]
        return found

    @property
    def said(self) -> list[str]:
        """The reasons of the Events about it."""
        return [event["reason"] for event in self.events]


@dataclass(frozen=True)
class Tenant:
    """An editor of the three kinds in one namespace, with the chart's roles."""

    server: ApiServer
    namespace: str
    user: str

    def stream(self, name: str = "orders", annotations: dict[str, str] | None = None, **spec: Any) -> Answer:
        """Create a MessageStream with default values for parts of the spec that are not given."""
        return self.make("MessageStream", name, spec, annotations=annotations or {})

    def make(self, kind: str, name: str, spec: Document, **metadata: dict[str, str]) -> Answer:
        """Create a resource of any kind, about stream `orders`, with default values for the rest of its spec.

        Args:
            kind: of the three.
            name: of the resource.
            spec: parts that replace defaults; None leaves one out.
            metadata: labels or annotations.
        """
        plain = stream(name, namespace=self.namespace).to_dict()["spec"] if kind == "MessageStream" else _PLAIN[kind]
        whole = {field: value for field, value in {**plain, **spec}.items() if value is not None}
        about = {"name": name, "namespace": self.namespace, **metadata}
        document = {"apiVersion": API_VERSION, "kind": kind, "metadata": about, "spec": whole}
        return self.request("POST", self.path(kind), document)

    def change(self, kind: str, name: str, patch: Document) -> Answer:
        """Merge a patch into a resource."""
        return self.request("PATCH", f"{self.path(kind)}/{name}", patch, MERGE)

    def read(self, kind: str, name: str) -> Document:
        """A resource as it is now."""
        return self.request("GET", f"{self.path(kind)}/{name}").body

    def told(self, name: str, reason: str, kind: str = "MessageStream", of: Operator | None = None) -> Told:
        """Wait until a resource is not Ready for a reason, and until an Event has that reason, too."""
        condition = eventually(lambda: self._not_ready(kind, name, reason), of=of)
        events = eventually(lambda: self._events(kind, name, reason), of=of)
        return Told(condition, tuple(events))

    def ready(
        self, name: str, kind: str = "MessageStream", of: Operator | None = None, seconds: float = 20
    ) -> Document:
        """Wait until a resource is Ready, and return its status."""
        return dict(eventually(lambda: self._status_when_ready(kind, name), seconds, of))

    def heard(self) -> str:
        """All that the namespace's users can see: statuses and Events."""
        found = [item.get("status") for kind in NAMES for item in self.request("GET", self.path(kind)).body["items"]]
        return json.dumps([found, [event["message"] for event in self._all_events()]])

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        """Send a request to the API server as this tenant."""
        return self.server.request(method, path, body, content_type, self.user)

    def path(self, kind: str) -> str:
        """The path of a kind's resources."""
        return f"/apis/{API_VERSION}/namespaces/{self.namespace}/{NAMES[kind].plural}"

    def _not_ready(self, kind: str, name: str, reason: str) -> Document | None:
        found = self._condition(kind, name)
        return found if (found.get("status"), found.get("reason")) == ("False", reason) else None

    def _status_when_ready(self, kind: str, name: str) -> Document | None:
        document = self.read(kind, name)
        return document["status"] if _ready(document).get("status") == "True" else None

    def _condition(self, kind: str, name: str) -> Document:
        return _ready(self.read(kind, name))

    def _events(self, kind: str, name: str, reason: str) -> list[Document]:
        events = self._all_events()
        about = [
            one for one in events if (one["involvedObject"]["kind"], one["involvedObject"]["name"]) == (kind, name)
        ]
        return about if any(one["reason"] == reason for one in about) else []

    def _all_events(self) -> list[Document]:
        # The right to edit resources does not include Events; the cluster's own role view does.
        found: list[Document] = self.server.request("GET", f"/api/v1/namespaces/{self.namespace}/events").body["items"]
        return found


@dataclass(frozen=True)
class Tenants:
    """Two independent tenants of one cluster, with simulated Spark in each namespace."""

    one: Tenant
    other: Tenant
    operator: Operator
    chart: Installed
    sparks: dict[str, FakeSpark]

    def launched(self, tenant: Tenant) -> list[str]:
        """The runs that were created for a tenant."""
        return [run.name for run in self.sparks[tenant.namespace].launched("")]


def make_namespaces(server: ApiServer) -> list[str]:
    """New namespaces, of an operator and of two tenants."""
    number = next(_numbers)
    names = [f"{name}-{number}" for name in ("system", "tenant", "neighbour")]
    for name in names:
        assert server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).accepted
    return names


@contextmanager
def served_tenants(
    server: ApiServer, namespaces: list[str], folder: Path, tenancy: Document, values: Iterable[str] = ()
) -> Iterator[Tenants]:
    """Two tenants, and an operator with the chart's permissions that watches all namespaces.

    Args:
        server: has the CRDs.
        namespaces: the operator's, and those of the tenants.
        folder: for files with credentials.
        tenancy: settings of tenancy, in addition to the chart's.
        values: of the chart, as `name=value`.
    """
    own, *names = namespaces
    with installed_chart(server, own, folder, *values) as chart:
        one, other = (_tenant(server, name) for name in names)
        settings = {**chart.settings, **FAST, "tenancy": {**chart.settings.get("tenancy", {}), **tenancy}}
        with (
            running_operator(server, folder, settings, chart.kubeconfig) as operator,
            fake_spark(server, one.namespace) as first,
            fake_spark(server, other.namespace) as second,
        ):
            yield Tenants(one, other, operator, chart, {one.namespace: first, other.namespace: second})
            for tenant in (one, other):
                _forget(tenant)


def _tenant(server: ApiServer, namespace: str) -> Tenant:
    user = f"editor-of-{namespace}"
    for role in ("look", "edit"):
        name = f"{ACCOUNT}-{role}"
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        }
        answer = server.request("POST", f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings", binding)
        assert answer.accepted, answer.body
    make_storage_secrets(server, namespace)
    return Tenant(server, namespace, user)


def _forget(tenant: Tenant) -> None:
    """Delete a tenant's resources, so that later operators don't see them."""
    for kind in NAMES:
        for document in tenant.server.request("GET", tenant.path(kind)).body["items"]:
            name = document["metadata"]["name"]
            tenant.server.request("PATCH", f"{tenant.path(kind)}/{name}", {"metadata": {"finalizers": []}}, MERGE)
            tenant.server.request("DELETE", f"{tenant.path(kind)}/{name}")


def _ready(document: Document) -> Document:
    """Condition Ready of a resource as it was read."""
    conditions = document.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "Ready"), {})
