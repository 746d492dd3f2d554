"""The slots of the current runs of all resources."""

from collections.abc import Iterable

from messagestore_operator.decide.run_queue import ActiveRuns, RunSlot
from messagestore_operator.kube.objects import ResourceKey


class Slots:
    """Which current runs are launched, and which are only reserved."""

    def __init__(self) -> None:
        self._of: dict[ResourceKey, tuple[RunSlot, ...]] = {}
        self._reserved: set[str] = set()
        self._active = ActiveRuns()

    def active(self) -> ActiveRuns:
        """The launched runs; for the caller alone."""
        return self._active.copy()

    def is_reserved(self, holder: str) -> bool:
        """Whether a resource's current run, named with its namespace, is not launched yet."""
        return holder in self._reserved

    def replace(self, key: ResourceKey, slots: Iterable[RunSlot] = ()) -> None:
        """Replace the slots of a resource."""
        for slot in self._of.pop(key, ()):
            self._active.remove(slot.holder)
            self._reserved.discard(slot.holder)
        if now := tuple(slots):
            self._of[key] = now
        for slot in now:
            if slot.launched:
                self._active.add(slot)
            else:
                self._reserved.add(slot.holder)
