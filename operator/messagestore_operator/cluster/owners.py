"""Owner references of the operator's objects, by which the cluster's garbage collection removes them."""

from __future__ import annotations

from typing import Any

from messagestore_operator.api.resource import Resource
from messagestore_operator.kube.objects import ApiObject, ObjectReference, at, metadata, name_of


def object_reference(resource: Resource) -> ObjectReference:
    """The reference to a resource in an Event about it."""
    kind, namespace, name = resource.identity
    uid, version = resource.metadata.uid or "", resource.metadata.resource_version
    return ObjectReference(resource.api_version, kind, namespace, name, uid, version)


def owner_reference(resource: Resource) -> dict[str, Any]:
    """The owner reference to a resource."""
    kind, _, name = resource.identity
    return {
        "apiVersion": resource.api_version,
        "kind": kind,
        "name": name,
        "uid": resource.metadata.uid or "",
        "controller": True,
    }


def belongs_to(document: ApiObject, kind: str) -> bool:
    """Whether an object's owner is of a kind."""
    return bool(at(document, "metadata", "ownerReferences", 0, "kind") == kind)


def owner_uids(document: ApiObject) -> frozenset[str]:
    """The uids of an object's owners."""
    owners = metadata(document).get("ownerReferences") or ()
    return frozenset(str(at(owner, "uid")) for owner in owners)


def document_reference(document: ApiObject) -> dict[str, Any]:
    """The owner reference to another object."""
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": name_of(document),
        "uid": at(document, "metadata", "uid"),
        "controller": True,
    }
