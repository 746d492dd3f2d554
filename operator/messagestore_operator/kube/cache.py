"""A cache that knows how new each object is, from a watch, a list, or the answer to one of the operator's own writes.

Kopf's indexes can't do this: only watches fill them, so a decision right after a write would not see the object and
would write it again. They also can't be compared with a list, after a broken watch may have missed a deletion, and they
don't show which resources a change affects.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from messagestore_operator.kube.objects import ApiObject, ResourceKey, at, key_of

Versions: TypeAlias = dict[ResourceKey, str]
"""By kind, namespace and name: uid and resource version in one text, as there are tens of thousands."""
DELETED_SECONDS = 600.0
"""How long a deleted object's uid is remembered: an older event about it may still come."""


class ObjectCache(ABC):
    """Knows the version of each object; what is kept of the objects is up to the subclass."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._versions: Versions = {}
        self._deleted: dict[str, float] = {}
        self.missing_kind: str | None = None
        """The optional kind, if it is not installed."""

    @abstractmethod
    def put(self, document: ApiObject) -> set[ResourceKey]:
        """Put an object, and return the resources that it may affect."""

    @abstractmethod
    def remove(self, document: ApiObject) -> set[ResourceKey]:
        """Remove an object, and return the resources that this may affect."""

    @abstractmethod
    def is_foreign(self, document: ApiObject) -> bool:
        """Whether an object is none of those that the cache keeps."""

    @abstractmethod
    def keys(self) -> set[ResourceKey]:
        """All resources."""

    def versions(self) -> Versions:
        """All objects in the cache, with their versions."""
        return dict(self._versions)

    def uid_of(self, key: ResourceKey) -> str:
        """The uid of an object; empty if it is not known."""
        return self._versions.get(key, "").partition(" ")[0]

    def version_of(self, key: ResourceKey) -> str | None:
        """The resource version of an object; None if it is not known."""
        known = self._versions.get(key)
        return None if known is None else known.rpartition(" ")[2]

    def is_known(self, document: ApiObject) -> bool:
        """Whether the cached object of this name is of the same uid and version."""
        uid, version = (at(document, "metadata", field) for field in ("uid", "resourceVersion"))
        return self._versions.get(key_of(document)) == f"{uid} {version}"

    def is_newer(self, document: ApiObject) -> bool:
        """Whether an object was not deleted, and is newer than the cached one of its name, whatever its uid.

        Events about two objects of one name may come in any order. A foreign object is never newer.
        """
        if str(at(document, "metadata", "uid")) in self._deleted or self.is_foreign(document):
            return False
        known = self.version_of(key_of(document))
        if known is None:
            return True
        try:
            return int(at(document, "metadata", "resourceVersion")) > int(known)
        except (TypeError, ValueError):
            return True

    def forget_others(
        self, kind: str, listed: Iterable[tuple[str, str]], before: Versions, unread: Collection[str] = ()
    ) -> set[ResourceKey]:
        """After a list of all objects of a kind, remove those that are not in it.

        A broken watch does not show what was deleted in the meantime.

        Args:
            listed: namespace and name of each.
            before: the result of ``versions`` before the list was requested.
            unread: namespaces that the list leaves out.
        """
        existing = set(listed)
        affected: set[ResourceKey] = set()
        for key, version in before.items():
            gone = key[0] == kind and key[1:] not in existing and key[1] not in unread
            if gone and self._versions.get(key) == version:
                affected |= self.remove(self._stub(key))
        now = self._clock()
        self._deleted = {uid: since for uid, since in self._deleted.items() if now - since < DELETED_SECONDS}
        return affected

    def _note(self, key: ResourceKey, document: ApiObject) -> None:
        uid, version = (at(document, "metadata", field) for field in ("uid", "resourceVersion"))
        self._versions[key] = f"{uid} {version}"

    def _note_deleted(self, document: ApiObject) -> bool:
        """Forget an object's version; returns False if another object has the same name now."""
        key, uid = key_of(document), str(at(document, "metadata", "uid"))
        self._deleted[uid] = self._clock()
        if self.uid_of(key) not in ("", uid):
            return False
        self._versions.pop(key, None)
        return True

    def _stub(self, key: ResourceKey) -> ApiObject:
        """As much of a cached object as its removal needs."""
        kind, namespace, name = key
        return {"kind": kind, "metadata": {"namespace": namespace, "name": name, "uid": self.uid_of(key)}}
