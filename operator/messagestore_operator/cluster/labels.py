"""Labels, annotations and owner references of a run's objects. Anybody may write the first two of any object."""

from typing import Any, get_args

from messagestore_operator.api.resource import Resource
from messagestore_operator.api.status import BaseStatus
from messagestore_operator.decide.snapshot import RunKind, RunRef
from messagestore_operator.decide.tables import current_runs
from messagestore_operator.kube.objects import (
    MANAGED_BY,
    MANAGER,
    ApiObject,
    ObjectReference,
    at,
    labels_of,
    metadata,
    namespace_of,
)
from messagestore_operator.names import GROUP, RUN
from messagestore_operator.translate.names import numbered_run_name

RUN_KIND = f"{GROUP}/kind"

RESOURCE_LABELS = {
    "MessageStream": f"{GROUP}/stream",
    "RetentionPolicy": f"{GROUP}/policy",
    "ReplayJob": f"{GROUP}/replay",
}
"""For each kind, the label with the resource's name on all its objects."""
UID = f"{GROUP}/uid"
_NUMBER = f"{GROUP}/run-number"
_GENERATION = f"{GROUP}/generation"
_ATTEMPT = f"{GROUP}/attempt"
_CONTINUOUS = f"{GROUP}/continuous"
_SECRETS = f"{GROUP}/secrets-version"
_OF_STREAM = RESOURCE_LABELS["MessageStream"]
IDENTITY = frozenset(
    {RUN, RUN_KIND, UID, *RESOURCE_LABELS.values(), _NUMBER, _GENERATION, _ATTEMPT, _CONTINUOUS, _SECRETS}
)
"""The labels and annotations that are read of a run's objects."""


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


def owner_uids(document: ApiObject) -> frozenset[str]:
    """The uids of an object's owners."""
    owners = metadata(document).get("ownerReferences") or ()
    return frozenset(str(at(owner, "uid")) for owner in owners)


def run_labels(ref: RunRef, owner: Resource) -> dict[str, str]:
    """Labels of all objects of a run, for finding and selecting them."""
    kind, _, name = owner.identity
    return {
        MANAGED_BY: MANAGER,
        RUN: ref.name,
        RUN_KIND: ref.kind,
        UID: owner.metadata.uid or "",
        **({_OF_STREAM: ref.stream} if ref.stream else {}),
        RESOURCE_LABELS[kind]: name,
    }


def run_annotations(ref: RunRef) -> dict[str, str]:
    """The other fields of a run's identity."""
    return {
        _NUMBER: str(ref.number),
        _GENERATION: str(ref.generation),
        _ATTEMPT: str(ref.attempt),
        _CONTINUOUS: str(ref.continuous).lower(),
        **({_SECRETS: ref.secrets_version} if ref.secrets_version else {}),
    }


def run_ref(document: ApiObject, name: str) -> RunRef | None:
    """A run as its object describes it; None if the labels or annotations are missing or invalid.

    Args:
        document: one of its objects.
        name: of the run, as the names of its objects give it: a label may name anything.
    """
    labels, notes = labels_of(document), metadata(document).get("annotations") or {}
    kind: Any = labels.get(RUN_KIND)
    if kind not in get_args(RunKind):
        return None
    try:
        return RunRef(
            namespace=namespace_of(document),
            name=name,
            number=int(notes[_NUMBER]),
            kind=kind,
            generation=int(notes.get(_GENERATION, 1)),
            attempt=int(notes.get(_ATTEMPT, 1)),
            stream=labels.get(_OF_STREAM) if RESOURCE_LABELS["RetentionPolicy"] in labels else None,
            continuous=notes.get(_CONTINUOUS) == "true",
            secrets_version=notes.get(_SECRETS),
        )
    except (KeyError, ValueError):
        return None


def owner_key(document: ApiObject) -> tuple[str, str, str] | None:
    """Kind, namespace and name of the resource that an object was created for.

    Objects of a policy or a replay may name a stream, too, so the stream's label counts last.
    """
    labels = labels_of(document)
    for kind in ("RetentionPolicy", "ReplayJob", "MessageStream"):
        if name := labels.get(RESOURCE_LABELS[kind]):
            return kind, namespace_of(document), name
    return None


def has_recorded(resource: Resource, run: RunRef) -> bool:
    """Whether the status of a resource knows one of its runs, and not as a current one."""
    status: BaseStatus | None = resource.status
    if status is None or (status.run_number or 0) < run.number:
        return False
    return all(current.name != run.name for current, _ in current_runs(resource))


def has_numbered(resource: Resource, run: RunRef | None) -> bool:
    """Whether a resource has reserved a run of this name."""
    status: BaseStatus | None = resource.status
    if run is None or status is None or not 0 < run.number <= (status.run_number or 0):
        return False
    return run.name == numbered_run_name(resource, run.kind, run.number)
