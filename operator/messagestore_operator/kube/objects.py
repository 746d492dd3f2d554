"""API objects as plain JSON, safe ways to read their parts, and their kinds with the paths of the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

ApiObject: TypeAlias = Mapping[str, Any]
ResourceKey: TypeAlias = tuple[str, str, str]
"""Kind, namespace, name."""
MANAGER = "message-store-operator"
"""The operator's name, as the manager of its objects and of fields."""
MANAGED_BY = "app.kubernetes.io/managed-by"
SELECTOR = f"{MANAGED_BY}={MANAGER}"
"""Selects only objects that the operator created."""

_USER = 185
"""That of Spark's image."""


def pod_security() -> dict[str, Any]:
    """What a pod of the run image has to meet the restricted Pod Security Standard."""
    ids = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), _USER)
    return {"runAsNonRoot": True, **ids, "seccompProfile": {"type": "RuntimeDefault"}}


def container_security() -> dict[str, Any]:
    """What its containers have to meet it; their file system is read-only, too."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def metadata(document: ApiObject) -> Mapping[str, Any]:
    """The object's metadata; empty if there is none."""
    about = document.get("metadata")
    return about if isinstance(about, Mapping) else {}


def name_of(document: ApiObject) -> str:
    """The object's name."""
    return str(metadata(document).get("name", ""))


def namespace_of(document: ApiObject) -> str:
    """The object's namespace; empty if it has none."""
    return str(metadata(document).get("namespace") or "")


def key_of(document: ApiObject) -> ResourceKey:
    """The object's kind, namespace and name."""
    return str(document.get("kind")), namespace_of(document), name_of(document)


def labels_of(document: ApiObject) -> Mapping[str, str]:
    """The object's labels."""
    return metadata(document).get("labels") or {}


def at(document: Any, *path: str | int) -> Any:
    """The value at a path of keys and list indexes; None if a part of the path is missing."""
    for key in path:
        if isinstance(document, Mapping):
            document = document.get(key)
        elif isinstance(document, list) and isinstance(key, int) and -len(document) <= key < len(document):
            document = document[key]
        else:
            return None
    return document


def time_of(text: Any) -> datetime | None:
    """A time in an object; None if there is none, or no time."""
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None


def time_text(moment: datetime, precision: str = "microseconds") -> str:
    """A time as objects have it, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def created_at(document: ApiObject | None) -> datetime | None:
    """When an object was created, by the API server's clock."""
    return time_of(at(document, "metadata", "creationTimestamp"))


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


@dataclass(frozen=True)
class ObjectReference:
    """What an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str | None = None


@dataclass(frozen=True)
class NewEvent:
    """The content of an Event: a constant for machines, and a message for people."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    routine: bool = False
    """Whether it tells what all well objects do again and again: it is sent seldom, with a count."""


CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
EVENTS = Kind("", "v1", "Event", "events")
PODS = Kind("", "v1", "Pod", "pods")
SECRETS = Kind("", "v1", "Secret", "secrets")
SERVICE_ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")
LEASES = Kind("coordination.k8s.io", "v1", "Lease", "leases")
SPARK_APPLICATIONS = Kind("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications")
ROLES = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
