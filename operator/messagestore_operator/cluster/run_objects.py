"""The objects of one run, reduced to what decisions need."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, cast

from messagestore_operator.cluster.labels import IDENTITY, owner_uids
from messagestore_operator.cluster.observe import ENDED_BY, MAX_TEXT, app_state, driver_of, loss_of, needed_status
from messagestore_operator.cluster.reports import CONTROL, MAX_BYTES
from messagestore_operator.kube.objects import CONFIG_MAPS, PODS, ApiObject, labels_of, metadata, name_of, namespace_of
from messagestore_operator.names import DRIVER_ENDING, REPORT, RUN

RunKey: TypeAlias = tuple[str, str]
"""Namespace, name."""

_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
)
_LONGEST = 253
"""Characters of a label or annotation that identifies a run; a longer one is not the operator's."""
_OWNERS = 10
"""Owners of an object that are kept: the operator gives it one."""
_IN_COMMON = ("labels", "annotations", "ownerReferences")
"""Metadata that objects of a run have in common."""
_TRIMMED_METADATA = ("name", "namespace", "creationTimestamp", "deletionTimestamp")
_TRIMMED_STATUS = (*ENDED_BY, "phase")


@dataclass(slots=True)
class RunObjects:
    """The objects of one run, and the uid of its resource, empty if only a Lease names the run."""

    uid: str = ""
    application: ApiObject | None = None
    config_map: ApiObject | None = None
    driver: ApiObject | None = None
    executors: dict[str, ApiObject] = field(default_factory=dict)
    lost_executors: dict[str, str] = field(default_factory=dict)
    trimmed: bool = False
    """Whether its objects are reduced to their names, times and end."""

    @property
    def empty(self) -> bool:
        """Whether it has no objects left."""
        return not (self.application or self.config_map or self.driver or self.executors)

    def parts(self, kind: str) -> tuple[ApiObject | None, ...]:
        """Its objects of a kind."""
        if kind == CONFIG_MAPS.name:
            return (self.config_map,)
        return (self.driver, *self.executors.values()) if kind == PODS.name else (self.application,)

    def owns(self, kind: str, document: ApiObject, application: str) -> bool:
        """Whether an object with a name of this run belongs to it, by uid from the resource down.

        A pod of the driver's name that has no owners counts: it may be the driver, and may still write.

        Args:
            application: uid of the run's application; empty if that is not known.
        """
        owners = owner_uids(document)
        if kind not in (CONFIG_MAPS.name, PODS.name):
            return not self.uid or self.uid in owners
        if not application:
            return True
        if kind == CONFIG_MAPS.name:
            return bool(owners & {application, self.uid})
        if is_driver(document):
            return not owners or application in owners
        driver = str(metadata(self.driver or {}).get("uid") or application)
        return bool(owners & {application, driver})

    def drop_others(self, application: str) -> list[tuple[str, str]]:
        """After another application has come, drop what belongs to the one before; returns kind and name of each."""
        dropped = [
            (kind, part)
            for kind in (PODS.name, CONFIG_MAPS.name)
            for part in self.parts(kind)
            if part is not None and (self.trimmed or not self.owns(kind, part, application))
        ]
        for kind, part in dropped:
            self.remove(kind, part)
        return [(kind, name_of(part)) for kind, part in dropped]

    def put(self, kind: str, document: ApiObject) -> None:
        """Replace an object by a newer one."""
        self.trimmed = False
        if kind == CONFIG_MAPS.name:
            self.config_map = self._sharing(_config_map(document, self.config_map or {}))
        elif kind == PODS.name:
            self._put_pod(document)
        else:
            self.application = self._sharing(_application(document))

    def _sharing(self, part: ApiObject) -> ApiObject:
        """The same part, with metadata that equal another part's being those: there are thousands of runs."""
        about = dict(metadata(part))
        for other in (metadata(one) for one in (self.driver, self.config_map, self.application) if one is not None):
            about |= {name: other[name] for name in _IN_COMMON if name in about and other.get(name) == about[name]}
        return {**part, "metadata": about}

    def _put_pod(self, document: ApiObject) -> None:
        pod = self._sharing({**_part(document), "status": shared(needed_status(document))})
        if not is_driver(document):
            self.executors[name_of(document)] = pod
            # The driver deletes the pods of failed executors, so the cause is kept as soon as it is seen.
            if loss := loss_of(document):
                self.lost_executors[name_of(document)] = loss
        else:
            self.driver = pod

    def remove(self, kind: str, document: ApiObject) -> None:
        """Remove an object."""
        if kind == CONFIG_MAPS.name:
            self.config_map = None
        elif kind != PODS.name:
            self.application = None
        elif is_driver(document):
            self.driver = None
        else:
            self.executors.pop(name_of(document), None)

    @property
    def is_over(self) -> bool:
        """Whether it has ended and has no driver any more; False if one of its objects was not seen."""
        if self.application is None or self.config_map is None or not app_state(self.application).ended:
            return False
        return self.driver is None or driver_of(self.driver).gone

    def trim(self) -> None:
        """Reduce the objects to their names, times and end."""
        if self.trimmed:
            return
        like = self.application or self.config_map or self.driver or {}
        self.application = _trimmed(self.application, like)
        self.config_map = _trimmed(self.config_map, like)
        self.driver = _trimmed(self.driver, like)
        self.executors = {name: _trimmed(pod, like) or pod for name, pod in self.executors.items()}
        self.lost_executors = {}
        self.trimmed = True


def is_driver(pod: ApiObject) -> bool:
    """Whether a pod has a driver's name."""
    return name_of(pod).endswith(DRIVER_ENDING)


def run_key(kind: str, document: ApiObject) -> RunKey | None:
    """The run that an object may belong to: by its name, which nobody else can take; of an executor, by its label."""
    if kind != PODS.name:
        return namespace_of(document), name_of(document)
    run = name_of(document).removesuffix(DRIVER_ENDING) if is_driver(document) else labels_of(document).get(RUN)
    return (namespace_of(document), run) if run else None


def _config_map(document: ApiObject, known: ApiObject) -> ApiObject:
    """A run's ConfigMap with the texts that were read of it, and their resource version: watches show only metadata."""
    part, texts = _part(document), document.get("data")
    if texts is not None:
        # One character past the bound, so that whoever reads it finds it too long.
        data = {key: str(texts[key])[: MAX_BYTES + 1] for key in (REPORT, CONTROL) if key in texts}
        return {**part, "data": data}
    before = metadata(known) if metadata(known).get("uid") == metadata(part).get("uid") else {}
    about = {**metadata(part), "resourceVersion": before.get("resourceVersion")}
    return {**part, "metadata": about, "data": known.get("data") or {} if before else {}}


def _application(document: ApiObject) -> ApiObject:
    """A run's application with the end that its status tells; the states of thousands of executors are left out."""
    status = document.get("status") or {}
    state = status.get("applicationState") or {}
    said = {key: str(state[key])[:MAX_TEXT] for key in ("state", "errorMessage") if key in state}
    known = {"applicationState": said} if said else {}
    attempts = {key: status[key] for key in ENDED_BY if isinstance(status.get(key), int)}
    return {**_part(document), "status": shared({**known, **attempts})}


def _part(document: ApiObject) -> ApiObject:
    """The needed part of an object of a run, of which tenants may write the labels and annotations."""
    about = metadata(document)
    notes: dict[str, Any] = {
        field: {key: value for key, value in about[field].items() if key in IDENTITY and len(value) <= _LONGEST}
        for field in ("labels", "annotations")
        if about.get(field)
    }
    if owners := about.get("ownerReferences"):
        notes["ownerReferences"] = [{key: owner.get(key) for key in ("kind", "uid")} for owner in owners[:_OWNERS]]
    return reduced({**document, "metadata": {**about, **notes}})


def reduced(document: ApiObject, *keys: str) -> ApiObject:
    """The needed part of an object's metadata, and the values of some keys."""
    kept = {key: value for key, value in metadata(document).items() if key in _METADATA}
    parts = {key: document[key] for key in keys if key in document}
    needed = {"apiVersion": document.get("apiVersion"), "kind": document.get("kind"), "metadata": kept, **parts}
    return cast(ApiObject, shared(needed))


def shared(value: Any) -> Any:
    """The same value with interned strings, as the objects of a run share their labels."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, Mapping):
        return {sys.intern(str(key)): shared(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(shared, value))
    return value


def _trimmed(document: ApiObject | None, like: ApiObject) -> ApiObject | None:
    """An object of a trimmed run, reduced to its name, its times, and how it ended.

    Labels and annotations identify the run; all objects of a run share those of one.
    """
    if document is None:
        return None
    kept = {key: value for key, value in metadata(document).items() if key in _TRIMMED_METADATA}
    kept |= {"labels": labels_of(like), "annotations": _alike(metadata(like).get("annotations") or {})}
    status = {key: value for key, value in (document.get("status") or {}).items() if key in _TRIMMED_STATUS}
    return {"metadata": kept, "status": _alike(status)} if status else {"metadata": kept}


def _alike(value: ApiObject) -> ApiObject:
    """The same value, shared with all equal ones: most runs end alike."""
    return _held(json.dumps(value))


@lru_cache(maxsize=256)
def _held(text: str) -> ApiObject:
    return cast(ApiObject, shared(json.loads(text)))
