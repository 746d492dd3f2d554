"""What consumers read of a store: messages behind cursors of slots, its head, its tombstones, if there is more."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable

from messagestore.arguments import check_category
from messagestore.conditions import checked
from messagestore.errors import ArgumentError, CursorAheadError
from messagestore.integrity import OnBroken
from messagestore.location import Location, refusals
from messagestore.message import Message, messages_of
from messagestore.names import cardinal_id, hash_64
from messagestore.reads import Chosen, Read
from messagestore.rows import Rows
from messagestore.snapshot import Snapshot
from messagestore.versions import Versions
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.delta_log import note_of
from messagestore_core.store.keyed import message_key
from messagestore_core.store.layout import LOG, entry_name
from messagestore_core.store.schemas import HEADS, TOMBSTONES

Start: TypeAlias = Literal["Beginning", "Now"] | int
_REMEMBERED = 200_000
"""Of so many streams the slots are remembered."""


@lru_cache(_REMEMBERED)
def slot_of(stream_name: str, slots: int) -> int:
    """The slot of a stream: by the hash of its cardinal id, or of its name if it has no id."""
    return abs(hash_64(cardinal_id(stream_name) or stream_name) or 0) % slots


class Placed(NamedTuple):
    """A message and its slot."""

    slot: int
    message: Message


class Gone:
    """Which messages were erased.

    Args:
        key: the key of the hashes of ids that have no position.
    """

    def __init__(self, rows: pa.Table, key: bytes | None) -> None:
        pairs = list(zip(rows["message_key"].to_pylist(), rows["global_position"].to_pylist(), strict=True))
        self._positions = {position for _, position in pairs if position is not None}
        self._ids = {hashed for hashed, position in pairs if position is None}
        self._key = key or b""

    def has(self, message: Message) -> bool:
        """Whether a message was erased."""
        if message.global_position in self._positions:
            return True
        return bool(self._ids) and message_key(self._key, message.message_id) in self._ids


class Source:
    """The messages of a category, or of all, that meet a condition."""

    def __init__(
        self,
        uri: str,
        category: str | None,
        where: str | None,
        storage: Sequence[StorageEntry] | None,
        on_broken: OnBroken | None,
    ) -> None:
        check_category(category)
        self._read = Read({} if category is None else {"category": category}, condition=checked(where))
        self._on_broken = on_broken
        with ExitStack() as held:
            self.location = held.enter_context(closing(Location(uri, storage)))
            self._open()
            held.pop_all()

    def _open(self) -> None:
        self._versions = Versions(self.location)
        self._rows = Rows(self.location, self._versions, self._on_broken, ())
        self._snapshot: Snapshot | None = None
        self._mark: tuple[int, bytes | None] | None = None
        self._tombstones: DeltaTable | None = None
        self._gone: Gone | None = None

    def close(self) -> None:
        """Release the source's resources."""
        self.location.close()

    @property
    def store_id(self) -> str:
        """The store's id, which another one in the same folder doesn't have."""
        return str(self._versions.table().metadata().id)

    def head(self) -> int:
        """The last global position that was ever given, also if its message has been removed since."""
        table = self._versions.table()
        with refusals(self.location.uri):
            noted = note_of(table).next_global_position
        heads = self._versions.other("heads", HEADS).highest("next_global_position")
        return max((noted or 1) - 1, (heads or 1) - 1, self._versions.snapshot().last_position)

    def before(self, start: Start) -> int:
        """The cursor that lies right before a start.

        Raises:
            ArgumentError: it is none.
        """
        if isinstance(start, int) and not isinstance(start, bool):
            if start < 1:
                raise ArgumentError(f"{start} is no global position: the first is 1")
            return start - 1
        if start not in ("Beginning", "Now"):
            raise ArgumentError(f"{start!r} is neither Beginning, Now nor a global position")
        return self.head() if start == "Now" else 0

    def refuse_ahead(self, cursors: Mapping[int, int]) -> None:
        """Refuse cursors of slots that are ahead of the store.

        Raises:
            CursorAheadError: one is.
        """
        slot = max(cursors, key=lambda one: cursors[one], default=None)
        if slot is None or cursors[slot] <= self._versions.snapshot().last_position:
            return
        head = self.head()
        if cursors[slot] > head:
            raise CursorAheadError(
                f"the cursor of slot {slot} is at {cursors[slot]}, and the last global position of {self.location.uri} "
                f"is {head}: the store was put back to an earlier state, and gives positions again that were handled. "
                "Stop all consumers of the name, see which message is the first to be handled again, and say it by "
                "messagestore consumers reset"
            )

    def behind(self, cursors: Mapping[int, int], slots: int) -> Iterator[list[Placed]]:
        """All messages behind the cursors of slots that the newest version has, in order of arrival, some at a time."""
        self._snapshot = self._versions.snapshot()
        first, last = min(cursors.values()), max(cursors.values())
        read = replace(self._read, start=first + 1)
        if len(cursors) < slots or first != last:
            read = replace(read, chosen=_chosen(cursors, slots))
        for rows in self._rows.parts(read):
            if rows.num_rows:
                yield list(map(Placed, _slots_of(rows, slots), messages_of(rows)))

    @property
    def last_position(self) -> int:
        """The position behind which the version that was read last has no message; 0 if that is unknown."""
        return 0 if self._snapshot is None else self._snapshot.last_position

    def has_more(self) -> bool:
        """Whether the store has a newer version than was read last; by one request."""
        return self._snapshot is None or self._has_entry(self._snapshot.version + 1)

    def has_lost_version(self) -> bool:
        """Whether the log no longer has the version that was read last, as after an erasure; nor then the next one."""
        return self._snapshot is not None and not self._has_entry(self._snapshot.version)

    def _has_entry(self, version: int) -> bool:
        with refusals(self.location.uri):
            return self.location.objects("messages", LOG).exists(entry_name(version))

    def erased(self) -> Gone:
        """Which messages were erased by now."""
        if self._tombstones is None:
            self._tombstones = self.location.open_table("tombstones")
        elif self._gone is not None:
            with refusals(self.location.uri):
                log, version = self.location.objects("tombstones", LOG), self._tombstones.version()
                # After an erasure that was not seen, the log has neither this version nor the next one.
                if log.exists(entry_name(version)) and not log.exists(entry_name(version + 1)):
                    return self._gone
            self._tombstones = self.location.open_table("tombstones")
        snapshot = Snapshot(self.location.uri, self._tombstones, TOMBSTONES)
        rows = snapshot.rows((), columns=("message_key", "global_position"))
        self._gone = Gone(rows, self.location.tombstone_key() if rows.num_rows else None)
        return self._gone

    def open_again_if_replaced(self) -> bool:
        """Open the store again if it isn't the one that was read: it was put back from a copy, or made again.

        Also where a log no longer has what was read, as after an erasure: then it may not have what followed either.
        """
        with refusals(self.location.uri):
            if self._tombstones is not None:
                read = entry_name(self._tombstones.version())
                if not self.location.objects("tombstones", LOG).exists(read):
                    self._tombstones = None
            if self._snapshot is None:
                return False
            version = self._snapshot.version
            mark = version, self.location.objects("messages", LOG).mark(entry_name(version))
        before, self._mark = self._mark, mark
        if mark[1] is not None and (before is None or before[0] != version or before[1] == mark[1]):
            return False
        self._open()
        return True


def _slots_of(rows: pa.Table, slots: int) -> list[int]:
    return [slot_of(name, slots) for name in rows["stream_name"].to_pylist()]


def _chosen(cursors: Mapping[int, int], slots: int) -> Chosen:
    """The rows behind the cursors of their slots."""

    def keeps(rows: pa.Table) -> pa.Array:
        places = zip(_slots_of(rows, slots), rows["global_position"].to_pylist(), strict=True)
        behind = [slot in cursors and position > cursors[slot] for slot, position in places]
        return pa.array(behind, pa.bool_())

    return Chosen(("stream_name", "global_position"), keeps)
