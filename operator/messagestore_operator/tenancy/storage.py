"""The folders that a namespace may name, and the credentials that it must use for them."""

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import unquote

from pydantic import AfterValidator, Field

from messagestore_operator.api import Resource
from messagestore_operator.api.model import Model
from messagestore_operator.api.scalars import Endpoint, SourceUri
from messagestore_operator.translate.folders import TABLE_URI, Folder, folders, segments
from messagestore_operator.translate.refusal import RefusedField

EVERY = "*"
NAMESPACE = "{namespace}"
_OF_MANY_ROUNDS = 8
"""How many times percent-encoding is decoded; a name with more levels is refused."""


def _prefix(text: str) -> str:
    SourceUri.parse(text.replace(NAMESPACE, "namespace"))
    return text


Prefix = Annotated[str, Field(strict=True), AfterValidator(_prefix)]


class StorageBounds(Model):
    """Limits for the folders that resources name: tables, sources, archives and destinations."""

    prefixes: Annotated[dict[str, tuple[Prefix, ...]], Field(max_length=10_000)] = Field(
        default={},
        description="URIs that the folders of a namespace may be below, by namespace. * is for every namespace; "
        "{namespace} stands for its name. If empty, anywhere.",
    )
    endpoints: tuple[Endpoint, ...] = Field(
        default=(),
        description="Once there are prefixes: the endpoints that resources may name, besides none for AWS S3.",
    )
    require_credentials: bool = Field(
        default=True,
        description="Require credentials of the resource's namespace for folders on object stores. If false, runs may "
        "use their pods' identity.",
    )

    @property
    def unbounded(self) -> bool:
        """Whether all namespaces may use everything that their pods' identity can reach."""
        return not self.require_credentials and not self.prefixes


def folders_not_allowed(resource: Resource, bounds: StorageBounds) -> Iterator[RefusedField]:
    """The folders of a resource that its namespace may not name, or that would use the pods' identity."""
    for folder in folders(resource):
        if bounds.prefixes:
            yield from _out_of_bounds(folder, resource.metadata.namespace, bounds)
            yield from _elsewhere(folder, bounds)
        if bounds.require_credentials:
            yield from _without_credentials(folder)


def lies_below(uri: str, prefix: str) -> bool:
    """Whether a folder is the prefix or below it, however a program parses its URI."""
    path, above = segments(uri), segments(prefix)
    return path[: len(above)] == above and not any(map(_leads_elsewhere, path[1:]))


def _out_of_bounds(folder: Folder, namespace: str, bounds: StorageBounds) -> Iterator[RefusedField]:
    given = (*bounds.prefixes.get(namespace, ()), *bounds.prefixes.get(EVERY, ()))
    prefixes = [prefix.replace(NAMESPACE, namespace) for prefix in given]
    if not any(lies_below(folder.uri, prefix) for prefix in prefixes):
        where = f"below {' or '.join(prefixes)}" if prefixes else "nowhere: no entry is for this namespace"
        yield RefusedField(
            folder.path,
            f"the operator's setting tenancy.storage.prefixes allows folders of namespace {namespace} {where}",
        )


def _elsewhere(folder: Folder, bounds: StorageBounds) -> Iterator[RefusedField]:
    """A prefix is a place at an endpoint: a bucket of the same name at another one is somebody else's."""
    endpoint = folder.storage.endpoint if folder.storage else None
    if endpoint is not None and _plain(endpoint) not in map(_plain, bounds.endpoints):
        yield RefusedField(
            (*folder.storage_path, "endpoint"),
            f"the operator's setting tenancy.storage.endpoints does not allow {endpoint}; "
            f"it allows {' and '.join(bounds.endpoints) or 'only AWS S3, without an endpoint'}",
        )


def _plain(endpoint: str) -> str:
    return endpoint.lower().rstrip("/")


def _without_credentials(folder: Folder) -> Iterator[RefusedField]:
    storage = folder.storage
    if storage is None and folder.path != TABLE_URI:
        # The folder uses the credentials of its stream's table, which are checked there.
        return
    if storage is None or storage.credentials_secret_ref is None:
        yield RefusedField(
            (*folder.storage_path, "credentialsSecretRef"),
            f"names no Secret with credentials for {folder.uri}; the operator's setting "
            "tenancy.storage.requireCredentials requires one",
        )


def _leads_elsewhere(segment: str) -> bool:
    """Whether a segment is more than one folder's name, or becomes so when it is decoded."""
    for _ in range(_OF_MANY_ROUNDS):
        if segment in (".", "..") or "/" in segment or "\\" in segment or "\0" in segment:
            return True
        if (decoded := unquote(segment)) == segment:
            return False
        segment = decoded
    return True
