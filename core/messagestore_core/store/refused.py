"""Messages that a destination of a subscription does not get as their topic takes none: another destination gets them.

What one destination leaves to the other is written before its cursor passes it, and stays, as either may be moved back.
"""

import re

import numpy as np
import numpy.typing as npt
from pydantic import Field

from messagestore_core.contract.base import ContractModel, Count
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import CURSORS, REFUSED
from messagestore_core.store.objects import read_document, write_document

Positions = npt.NDArray[np.int64]
_NAME = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)\.json")


class Refused(ContractModel):
    """Some of the positions, in order."""

    store: str
    positions: tuple[Count, ...] = Field(min_length=1)


class RefusedMessages:
    """What one destination of a subscription has left to another.

    Args:
        folder: that of its cursor.
    """

    def __init__(self, store: Store, folder: str, store_id: str) -> None:
        self._objects, self._store_id = store.objects(CURSORS, folder, REFUSED), store_id

    def note(self, held: HeldStore, resets: int, positions: list[int]) -> None:
        """Write some positions, in order, that were refused after so many resets."""
        name = f"{resets:08d}-{positions[0]:020d}-{positions[-1]:020d}.json"
        with held.step("refused"):
            write_document(self._objects, name, Refused(store=self._store_id, positions=tuple(positions)))

    def positions(self, after: int, until: int, resets: int | None = None) -> Positions:
        """The positions of a range that were refused, after so many resets, or ever.

        Raises:
            TableRefusedError: an object is none of these.
        """
        listed = [np.array([], np.int64)]
        for name in self._objects.names():
            parts = _NAME.fullmatch(name)
            if parts is None or (resets is not None and int(parts[1]) != resets):
                continue
            if int(parts[2]) <= until and int(parts[3]) > after:
                document = read_document(self._objects, name, Refused)
                if document is not None and document.store == self._store_id:
                    listed.append(np.array(document.positions, np.int64))
        every = np.unique(np.concatenate(listed))
        return every[(every > after) & (every <= until)]

    def forget(self, held: HeldStore) -> None:
        """Remove all."""
        if self._objects.names():
            with held.step("refused-forgotten"):
                self._objects.delete_folder("")
