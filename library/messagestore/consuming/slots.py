"""Which slot a stream's messages belong to."""

from collections.abc import Iterable

from messagestore.names import cardinal_id, hash_64

_REMEMBERED = 200_000


def slot_of(stream_name: str, slots: int) -> int:
    """The slot of a stream: by the hash of its cardinal id, or of its name if it has no id."""
    return abs(hash_64(cardinal_id(stream_name) or stream_name) or 0) % slots


class SlotsOf:
    """The slots of streams; it remembers those of some."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._known: dict[str, int] = {}

    def __call__(self, names: Iterable[str]) -> list[int]:
        """The slot of each stream."""
        known = self._known
        if len(known) > _REMEMBERED:
            known.clear()
        numbers = []
        for name in names:
            slot = known.get(name)
            if slot is None:
                slot = known[name] = slot_of(name, self._slots)
            numbers.append(slot)
        return numbers
