"""Resources and indexes in little memory.

A model takes some twenty times as much as its packed bytes, and a set of one member four times as much as a tuple.
"""

import math
import pickle
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, MutableMapping
from typing import Generic, NamedTuple, TypeVar

from messagestore_operator.api import Resource
from messagestore_operator.kube.objects import ResourceKey

_LIVE = 64
"""Resources that stay as models at least: those used last. Most decisions need one or two."""
_HOT_SECONDS = 2.0
"""How long any resource stays so: a policy that selects a thousand may be looked at each second."""
_FEW = 8
"""So many members of an index are looked through as fast as a set."""


class _Packed(NamedTuple):
    """A resource's bytes, which refer to those of another one of its kind: most of the two are the same."""

    data: bytes
    like: bytes

    def resource(self) -> Resource:
        # These bytes never left the process.
        resource: Resource = pickle.loads(zlib.decompressobj(zdict=self.like).decompress(self.data))
        return resource


_Key = TypeVar("_Key", bound=Hashable)
_Member = TypeVar("_Member", bound=Hashable)


class PackedResources(MutableMapping[ResourceKey, Resource]):
    """Resources by kind, namespace and name; all but those used last are packed."""

    def __init__(self, live: int = _LIVE, clock: Callable[[], float] = time.monotonic) -> None:
        self._least = live
        self._clock = clock
        self._packed: dict[ResourceKey, _Packed | None] = {}
        """None for those that are only in ``_live``."""
        self._like: dict[str, bytes] = {}
        """By kind."""
        self._times = Counter[str]()
        self._live: OrderedDict[ResourceKey, tuple[float, Resource]] = OrderedDict()
        """Each with the time when it was last used."""

    def __getitem__(self, key: ResourceKey) -> Resource:
        """A resource, which is among those used last from now on."""
        _, resource = self._live.get(key, (0, None))
        if resource is None:
            packed = self._packed[key]
            assert packed is not None
            resource = packed.resource()
        self._keep(key, resource, self._clock())
        return resource

    def __setitem__(self, key: ResourceKey, resource: Resource) -> None:
        # That alone is no use of it: a list of thousands is packed as it comes in.
        self._packed[key] = None
        self._keep(key, resource, -math.inf)

    def __delitem__(self, key: ResourceKey) -> None:
        del self._packed[key]
        self._live.pop(key, None)

    def __iter__(self) -> Iterator[ResourceKey]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def __contains__(self, key: object) -> bool:
        return key in self._packed

    def peek(self, key: ResourceKey) -> Resource | None:
        """A resource, for any thread; it doesn't count as used."""
        _, resource = self._live.get(key, (0, None))
        if resource is None and (packed := self._packed.get(key)) is not None:
            return packed.resource()
        return resource

    def _keep(self, key: ResourceKey, resource: Resource, used: float) -> None:
        self._live[key] = used, resource
        self._live.move_to_end(key)
        while len(self._live) > self._least:
            oldest, (last, model) = next(iter(self._live.items()))
            if self._clock() - last < _HOT_SECONDS:
                break
            if self._packed[oldest] is None:
                # Before it leaves the others: another thread may look for it.
                self._packed[oldest] = self._pack(oldest[0], model)
            del self._live[oldest]

    def _pack(self, kind: str, model: Resource) -> _Packed:
        content = pickle.dumps(model)
        self._times[kind] += 1
        # The first ones of a kind have no status yet. Few are kept, as a packed resource keeps the one that it is like.
        if math.log10(self._times[kind]).is_integer():
            self._like[kind] = content
        packing = zlib.compressobj(1, zdict=self._like[kind])
        return _Packed(packing.compress(content) + packing.flush(), self._like[kind])


class Index(Generic[_Key, _Member]):
    """The members that each of thousands of keys has, which is one for most."""

    def __init__(self) -> None:
        self._members: dict[_Key, tuple[_Member, ...] | set[_Member]] = {}

    def __getitem__(self, key: _Key) -> Collection[_Member]:
        """Its members; none if it has none."""
        return self._members.get(key, ())

    def add(self, key: _Key, member: _Member) -> None:
        """Add a member."""
        known = self._members.get(key, ())
        if isinstance(known, set):
            known.add(member)
        elif member not in known:
            self._members[key] = (*known, member) if len(known) < _FEW else {*known, member}

    def discard(self, key: _Key, member: _Member) -> None:
        """Remove a member, if it is one."""
        known = self._members.get(key, ())
        if isinstance(known, set):
            known.discard(member)
        else:
            self._members[key] = known = tuple(one for one in known if one != member)
        if not known:
            self._members.pop(key, None)
