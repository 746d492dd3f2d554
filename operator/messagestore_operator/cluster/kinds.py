"""The kinds of objects that the operator uses, and their API paths."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from messagestore_operator.api.crd import NAMES
from messagestore_operator.api.resource import GROUP, VERSION


@dataclass(frozen=True)
class Kind:
    """A kind of namespaced objects."""

    group: str
    version: str
    name: str
    plural: str

    @property
    def api_version(self) -> str:
        """Group and version as in objects' apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resources(self) -> str:
        """The path where the API lists the kinds of this group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of a collection or an object; without a namespace, of all namespaces."""
        parts = [self.resources]
        if namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part is not None]
        return "/".join(parts)


CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
EVENTS = Kind("", "v1", "Event", "events")
PODS = Kind("", "v1", "Pod", "pods")
SECRETS = Kind("", "v1", "Secret", "secrets")
SERVICE_ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")
LEASES = Kind("coordination.k8s.io", "v1", "Lease", "leases")
ROLES = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")

RESOURCES = {kind: Kind(GROUP, VERSION, kind, names.plural) for kind, names in NAMES.items()}
"""The project's three kinds, by name."""
