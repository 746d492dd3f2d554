"""Resources in little memory: a model with its status takes ten times as much as its packed bytes."""

from __future__ import annotations

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping

from messagestore_operator.api import Resource
from messagestore_operator.kube.objects import ResourceKey

_LIVE = 256
"""Resources that stay as models: those used last. Most decisions need one or two."""


class PackedResources(MutableMapping[ResourceKey, Resource]):
    """Resources by kind, namespace and name; all but those used last are packed."""

    def __init__(self, live: int = _LIVE) -> None:
        self._most = live
        self._packed: dict[ResourceKey, bytes | None] = {}
        """None for those that are only in ``_live``."""
        self._live: OrderedDict[ResourceKey, Resource] = OrderedDict()

    def __getitem__(self, key: ResourceKey) -> Resource:
        """A resource, which is among those used last from now on."""
        found = self._live.get(key)
        if found is None:
            packed = self._packed[key]
            assert packed is not None
            found = _unpacked(packed)
        self._use(key, found)
        return found

    def __setitem__(self, key: ResourceKey, resource: Resource) -> None:
        """Put a resource."""
        self._packed[key] = None
        self._use(key, resource)

    def __delitem__(self, key: ResourceKey) -> None:
        """Remove a resource."""
        del self._packed[key]
        self._live.pop(key, None)

    def __iter__(self) -> Iterator[ResourceKey]:
        """The keys of all."""
        return iter(self._packed)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._packed)

    def __contains__(self, key: object) -> bool:
        """Whether there is one, without using it."""
        return key in self._packed

    def each(self) -> Iterator[Resource]:
        """All resources, for any thread; none of them counts as used."""
        for key in list(self._packed):
            found = self._live.get(key)
            if found is None and (packed := self._packed.get(key)) is not None:
                found = _unpacked(packed)
            if found is not None:
                yield found

    def _use(self, key: ResourceKey, resource: Resource) -> None:
        self._live[key] = resource
        self._live.move_to_end(key)
        while len(self._live) > self._most:
            oldest = next(iter(self._live))
            if self._packed[oldest] is None:
                # Before it leaves the others: another thread may look for it.
                self._packed[oldest] = zlib.compress(pickle.dumps(self._live[oldest]), 1)
            del self._live[oldest]


def _unpacked(packed: bytes) -> Resource:
    # These bytes never left the process.
    resource: Resource = pickle.loads(zlib.decompress(packed))
    return resource
