"""The pod in which a store is read: with the storage, the keys and the place of the stream's runs.

It only waits; the reader is started in it by exec, so that nothing that it reads is ever in the pod's log.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from messagestore_operator.kube.objects import MANAGED_BY, at, container_security, name_of, namespace_of, pod_security
from messagestore_operator.names import GROUP, named_after
from messagestore_operator.plugin.kubectl import MANAGER, Document
from messagestore_operator.plugin.options import UserError

CONTAINER = "reader"
READER = ("python3", "-m", "messagestore.answering")
OF_STREAM = f"{GROUP}/stream"
"""The label with the stream's name, of pods as of runs."""
_CA_FOLDER = "/etc/messagestore/ca"
_IN_USE = "/tmp/in-use"
_PLACE = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "schedulerName")
# A reader touches the file every 15 seconds. If the command that started it is gone, the pod ends by itself.
_WAIT = f'touch {_IN_USE}; while [ -n "$(find {_IN_USE} -mmin -2)" ]; do sleep 5; done'


@dataclass(frozen=True)
class Surroundings:
    """What pods of runs have that is not in a stream: from a run's application, or the caller."""

    image: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    service_account: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    place: dict[str, Any] = field(default_factory=dict)


def surroundings_of(application: Document | None, image: str | None) -> Surroundings | None:
    """Those of a run's SparkApplication, with the caller's image if there is one; None: there is no image."""
    spec = at(application, "spec") or {}
    chosen = image or spec.get("image")
    if not chosen:
        return None
    about, pod = (at(spec, "driver", "template", part) or {} for part in ("metadata", "spec"))
    return Surroundings(
        image=chosen,
        pull_policy=spec.get("imagePullPolicy") or "IfNotPresent",
        pull_secrets=tuple(spec.get("imagePullSecrets") or ()),
        service_account=at(spec, "driver", "serviceAccount"),
        labels=_not_of_runs(about.get("labels")),
        annotations=_not_of_runs(about.get("annotations")),
        place={name: pod[name] for name in _PLACE if pod.get(name)},
    )


def _not_of_runs(given: dict[str, str] | None) -> dict[str, str]:
    """The labels or annotations that an administrator gave the pods of runs."""
    return {name: value for name, value in (given or {}).items() if GROUP not in name and name != MANAGED_BY}


@dataclass(frozen=True)
class Access:
    """How the reader reaches a stream's store, in the form of a question and of a pod; without any secret value."""

    storage: list[Document]
    seal_keys: list[str]
    variables: list[Document]
    authority: Document | None


def access_of(stream: Document, *, seals: bool) -> Access:
    """The access to a stream's store, as its runs have it; the keys of seals only where these are checked."""
    uri, storage = str(at(stream, "spec", "table", "uri")), at(stream, "spec", "storage") or {}
    bucket = urlsplit(uri)
    if bucket.scheme not in ("s3", "s3a"):
        raise UserError(f"the store of stream {name_of(stream)} is {uri}: only object storage is read by a pod")
    variables: list[Document] = []
    keys = {"accessKey": "ACCESS_KEY", "secretKey": "SECRET_KEY", "sessionToken": "SESSION_TOKEN"}
    names = {key: f"MESSAGESTORE_STORAGE_1_{part}" for key, part in keys.items()}
    if secret := at(storage, "credentialsSecretRef", "name"):
        variables += [_variable(names[key], secret, key, optional=key == "sessionToken") for key in names]
    authority = storage.get("caSecretRef")
    entry = {
        "bucket": bucket.netloc,
        **{name: storage[name] for name in ("endpoint", "region", "pathStyleAccess") if name in storage},
        **({"environment": names} if secret else {}),
        **({"caFile": f"{_CA_FOLDER}/{authority['key']}"} if authority else {}),
    }
    integrity = at(stream, "spec", "integrity") if seals else None
    sealing = [integrity["hmacSecretRef"], *(integrity.get("previousSecretRefs") or [])] if integrity else []
    sealed = [_variable(f"MESSAGESTORE_SEAL_{i}", one["name"], one["key"]) for i, one in enumerate(sealing)]
    return Access([entry] if storage else [], [one["name"] for one in sealed], variables + sealed, authority)


def _variable(name: str, secret: str, key: str, *, optional: bool = False) -> Document:
    reference = {"name": secret, "key": key, **({"optional": True} if optional else {})}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def pod_of(stream: Document, access: Access, around: Surroundings, memory: str, deadline: float) -> Document:
    """The pod. It meets the restricted Pod Security Standard, and goes with its stream at the latest.

    Args:
        memory: what it asks for, and may have at most.
        deadline: seconds after which it is ended, whatever it does.
    """
    name = name_of(stream)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": named_after(name, f"read-{secrets.token_hex(4)}"),
            "namespace": namespace_of(stream),
            "labels": {**around.labels, MANAGED_BY: MANAGER, OF_STREAM: name},
            "annotations": around.annotations,
            "ownerReferences": [_owner(stream)],
        },
        "spec": {
            **around.place,
            **({"serviceAccountName": around.service_account} if around.service_account else {}),
            **({"imagePullSecrets": [{"name": one} for one in around.pull_secrets]} if around.pull_secrets else {}),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": round(deadline),
            "terminationGracePeriodSeconds": 1,
            "securityContext": pod_security(),
            "containers": [_container(access, around, memory)],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, *_authorities(access.authority)],
        },
    }


def _owner(stream: Document) -> Document:
    about = {name: stream[name] for name in ("apiVersion", "kind")}
    return {**about, **{name: stream["metadata"][name] for name in ("name", "uid")}}


def _authorities(authority: Document | None) -> Iterable[Document]:
    if authority:
        item = {"key": authority["key"], "path": authority["key"]}
        yield {"name": "ca", "secret": {"secretName": authority["name"], "items": [item]}}


def _container(access: Access, around: Surroundings, memory: str) -> Document:
    certificates = {"name": "ca", "mountPath": _CA_FOLDER, "readOnly": True}
    size = {"memory": memory, "ephemeral-storage": "1Gi"}
    return {
        "name": CONTAINER,
        "image": around.image,
        "imagePullPolicy": around.pull_policy,
        "command": ["/bin/sh", "-c", _WAIT],
        "workingDir": "/tmp",
        "env": [{"name": "MESSAGESTORE_IN_USE", "value": _IN_USE}, *access.variables],
        "resources": {"requests": {"cpu": "100m", **size}, "limits": size},
        "securityContext": container_security(),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *([certificates] if access.authority else [])],
    }


def why_not(pod: Document) -> str | None:
    """Why a pod will not run, in words; None while it may, or does."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Failed", "Succeeded"):
        return ": ".join(str(status[part]) for part in ("reason", "message") if status.get(part)) or "it has ended"
    waiting = at(status, "containerStatuses", 0, "state", "waiting") or {}
    # A pull that failed is tried again, and then backs off.
    if waiting.get("reason") in (None, "ContainerCreating", "PodInitializing", "ErrImagePull"):
        return None
    return ": ".join(str(waiting[part]) for part in ("reason", "message") if waiting.get(part))


def waits_for(pod: Document) -> str:
    """What a pod that doesn't run yet waits for."""
    unmet = [
        one for one in at(pod, "status", "conditions") or [] if one.get("status") == "False" and one.get("message")
    ]
    if unmet:
        return f"{unmet[0].get('reason')}: {unmet[0]['message']}"
    return str(at(pod, "status", "containerStatuses", 0, "state", "waiting", "reason") or "Pending")


def runs(pod: Document) -> bool:
    """Whether its container runs."""
    return at(pod, "status", "containerStatuses", 0, "state", "running") is not None
