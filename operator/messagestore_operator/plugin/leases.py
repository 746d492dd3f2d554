"""Which tables a resource's runs hold, and which they wait for."""

from collections.abc import Iterable
from dataclasses import dataclass

from messagestore_operator.kube.objects import MANAGED_BY, MANAGER, at, metadata, name_of, namespace_of
from messagestore_operator.names import TABLE
from messagestore_operator.plugin.facts import runs
from messagestore_operator.plugin.kubectl import Document, Kubectl, KubectlError


@dataclass(frozen=True)
class Claim:
    """A table that a run holds, or waits for.

    Attributes:
        holder: the namespace and the name of the run that has it.
        waits: whether it is another run's.
    """

    table: str
    lease: str
    holder: str
    waits: bool


def read(kubectl: Kubectl, namespace: str) -> list[Document] | None:
    """The Leases of all tables; None if the caller may not read them in the operator's namespace."""
    in_namespace = Kubectl(namespace, options=kubectl.options)
    try:
        return in_namespace.items("leases.coordination.k8s.io", f"{MANAGED_BY}={MANAGER}")
    except KubectlError as error:
        if error.reason == "Forbidden":
            return None
        raise


def claims(document: Document, streams: Iterable[Document], leases: Iterable[Document]) -> list[Claim]:
    """The tables that a resource's current runs hold or wait for.

    Args:
        streams: those that its runs may write.
        leases: of all tables.
    """
    current = {f"{one.namespace}/{one.run}": one for one in runs(document) if one.current}
    waiting = any(one.launched_at is None for one in current.values())
    tables = {(namespace_of(one), _plain(str(at(one, "spec", "table", "uri")))) for one in streams}
    claimed = []
    for lease in leases:
        holder = at(lease, "spec", "holderIdentity")
        namespace, _, table = str((metadata(lease).get("annotations") or {}).get(TABLE, "")).partition(" ")
        uri = table.rpartition(" ")[2]
        if not holder or not (holder in current or (waiting and (namespace, uri) in tables)):
            continue
        claimed.append(Claim(uri, name_of(lease), holder, waits=holder not in current))
    return claimed


def _plain(uri: str) -> str:
    """With Hadoop's scheme for S3, as in Leases."""
    return (f"s3a://{uri.removeprefix('s3://')}" if uri.startswith("s3://") else uri).rstrip("/")
