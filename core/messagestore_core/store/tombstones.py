"""Tombstones: which messages were erased, so that no late copy is stored and none is sent again.

A tombstone is the keyed hash of a message id: a plain digest would let anybody test guessed ids. The key is made once
and stays in the folder; without it the tombstones are useless.

An erasure is of one message: a tombstone also has its global position, so that another message with the id stays. The
position says nothing of copies that are elsewhere or arrive again: there the id decides.

Purged ids, by the same key, are those of messages that were purged lately, so that a late copy of one counts as a
duplicate. Their table is apart, as each ingest reads all tombstones, while purged ids may be as many as the messages.
See ``index``, which looks them up.
"""

import json
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import TableNotFoundError

from messagestore_core.clock import microseconds
from messagestore_core.store.delta_log import count_rows, end_of, files_of
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.keyed import message_key
from messagestore_core.store.layout import TOMBSTONE_KEY
from messagestore_core.store.objects import LARGEST_DOCUMENT
from messagestore_core.store.scan import scan
from messagestore_core.store.schemas import PARTITIONS, REMEMBERED, TOMBSTONES

_KEY_BYTES = 32
_DIGEST = np.dtype("S32")
_HEX_DIGEST = "^[0-9a-f]{64}$"
_KEYS_AT_ONCE = 65_536
"""Tombstones that are decoded at once: as texts they take three times as much."""
_WORD = re.compile(r"[\w-]+")
_BETWEEN_QUOTES = re.compile(r'(?:^|")((?:[^"\\]|\\.)*)(?="|$)', re.DOTALL)

_DAY = f"partition.{PARTITIONS[REMEMBERED]}"


def tombstone_key(store: Store) -> bytes | None:
    """The folder's key; None while nothing has been erased, and no purged id remembered.

    Raises:
        TableRefusedError: the object is no key, or there are hashes by it and no key.
    """
    key = store.objects().read(TOMBSTONE_KEY, LARGEST_DOCUMENT)
    if key is None:
        _refuse_without_key(store)
    if key is not None and len(key) != _KEY_BYTES:
        raise TableRefusedError(f"{store.path(TOMBSTONE_KEY)} is no key of {_KEY_BYTES} bytes: restore it as it was")
    return key


def made_key(store: HeldStore) -> bytes:
    """The folder's key, which is made if there is none.

    Raises:
        TableRefusedError: as in ``tombstone_key``.
    """
    return tombstone_key(store) or _make_key(store)


def erased_positions(store: Store) -> npt.NDArray[np.int64]:
    """The global positions of erased messages; older tombstones have none."""
    table = store.table("tombstones").to_pyarrow_dataset()
    if "global_position" not in table.schema.names:
        return np.array([], dtype=np.int64)
    positions: npt.NDArray[np.int64] = table.to_table(["global_position"])["global_position"].drop_null().to_numpy()
    return positions


def add_tombstones(store: HeldStore, erased: Iterable[tuple[str, int]], erased_at: datetime, run: str) -> None:
    """Add tombstones of messages, durably; those that exist are not written again.

    Args:
        erased: message id and global position of each.
    """
    gone = list(erased)
    if not gone:
        return
    key = made_key(store)
    known = _known(store)
    new = sorted({(message_key(key, message_id), position) for message_id, position in gone} - known)
    if not new:
        return
    keys, positions = zip(*new, strict=True)
    rows = pa.table([keys, [erased_at] * len(new), [run] * len(new), positions], schema=TOMBSTONES)
    with store.step("tombstones"):
        store.write_rows("tombstones", rows)


def withdraw_tombstones(store: HeldStore, positions: pa.Array | pa.ChunkedArray) -> None:
    """Remove the tombstones of messages that stay in the store after all, durably.

    Args:
        positions: their global positions; a message without a tombstone may be among them.
    """
    known = pa.array(erased_positions(store))
    known_positions = positions.filter(pc.is_in(positions, known))
    if not len(known_positions):
        return
    with store.step("tombstones-withdrawn"):
        rows = pa.table({"global_position": known_positions})
        same = "t.global_position = s.global_position"
        store.merge_rows("tombstones", rows, same).when_matched_delete().execute()


class Erased:
    """The tombstones of a store, 40 bytes each.

    Args:
        digests: the hashes, one after the other.
        positions: the global position of each one's message; null, or None for all, if it is unknown.
    """

    def __init__(self, key: bytes, digests: bytes, positions: pa.Array | pa.ChunkedArray | None = None) -> None:
        self.key = key
        every = np.frombuffer(digests, _DIGEST)
        global_positions = pa.nulls(len(every), pa.int64()) if positions is None else positions
        self._digests = _distinct(every)
        self._without_position = _distinct(every[global_positions.is_null().to_numpy(zero_copy_only=False)])
        self.positions = np.sort(global_positions.drop_null().to_numpy())
        """The global positions of erased messages; older tombstones have none."""

    def __len__(self) -> int:
        return len(self._digests)

    def any(self) -> bool:
        """Whether anything was ever erased."""
        return bool(len(self))

    @property
    def have_positions(self) -> bool:
        """Whether each tombstone has the position of its message; older ones have none."""
        return not len(self._without_position)

    def contains(self, ids: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Which of the ids were erased, of whatever message; null is not."""
        return self._contained(ids, self._digests)

    def contains_messages(
        self, ids: pa.Array | pa.ChunkedArray, positions: pa.Array | pa.ChunkedArray
    ) -> npt.NDArray[np.bool_]:
        """Which of the store's own messages were erased: by id and global position.

        The id decides alone where the message's position is null, or where a tombstone of the id has none.
        """
        is_erased = np.zeros(len(ids), dtype=np.bool_)
        if not self.any():
            return is_erased
        has_position = positions.is_valid().to_numpy(zero_copy_only=False)
        to_look_up = ~has_position
        to_look_up[has_position] = np.isin(positions.drop_null().to_numpy(), self.positions)
        is_erased[to_look_up] = self.contains(ids.filter(pa.array(to_look_up)))
        return is_erased | self._contained(ids, self._without_position)

    def hashes(self, length: int) -> bytes:
        """The first bytes of each tombstone's keyed hash, one after the other."""
        first: bytes = self._digests.view(np.uint8).reshape(len(self), _DIGEST.itemsize)[:, :length].tobytes()
        return first

    def named_in(self, content: bytes) -> bool:
        """Whether some bytes contain an erased id as a word or as a whole JSON string."""
        return self.any() and bool(self._among(names_in(content.decode(errors="replace")), self._digests).any())

    def _contained(self, ids: pa.Array | pa.ChunkedArray, digests: npt.NDArray[np.bytes_]) -> npt.NDArray[np.bool_]:
        is_erased = np.zeros(len(ids), dtype=np.bool_)
        if len(digests):
            has_id = pc.is_valid(ids).to_numpy(zero_copy_only=False)
            is_erased[has_id] = self._among(ids.drop_null().to_pylist(), digests)
        return is_erased

    def _among(self, ids: Iterable[str], digests: npt.NDArray[np.bytes_]) -> npt.NDArray[np.bool_]:
        wanted = np.frombuffer(bytes.fromhex("".join(message_key(self.key, i) for i in ids)), _DIGEST)
        at = np.searchsorted(digests, wanted)
        is_among: npt.NDArray[np.bool_] = digests[np.minimum(at, len(digests) - 1)] == wanted
        return is_among


def names_in(text: str) -> Iterator[str]:
    """The words and the JSON strings of a text, which may be cut off within one at both ends."""
    yield from set(_WORD.findall(text))
    for within in set(_BETWEEN_QUOTES.findall(text)):
        # encode() raises for half of a surrogate pair.
        with suppress(ValueError):
            name = json.loads(f'"{within}"', strict=False)
            name.encode()
            yield name


def open_erased(store: Store, before: int | None = None) -> Erased:
    """The tombstones of a store, or those of messages that may have been ``before`` a global position.

    Raises:
        TableRefusedError: one is no keyed hash, or as in ``tombstone_key``.
    """
    if store.is_empty("tombstones"):
        return Erased(tombstone_key(store) or b"", b"", pa.chunked_array([], pa.int64()))
    table = store.table("tombstones")
    position = pc.field("global_position")
    has_positions = "global_position" in {field.name for field in table.schema().fields}
    older = position.is_null() | (position < before) if has_positions and before is not None else None
    columns = ["message_key", *(["global_position"] if has_positions else [])]
    rows = scan(table, columns, older, batch_size=_KEYS_AT_ONCE, batch_readahead=1, fragment_readahead=1)
    digests, positions = [], []
    for batch in rows:
        digests.append(_decoded(store, batch["message_key"]))
        positions.append(batch["global_position"] if has_positions else pa.nulls(len(batch), pa.int64()))
    return Erased(tombstone_key(store) or b"", b"".join(digests), pa.chunked_array(positions, pa.int64()))


def _distinct(digests: npt.NDArray[np.bytes_]) -> npt.NDArray[np.bytes_]:
    """The distinct digests, in order."""
    every = np.sort(digests)
    # np.unique takes seven times as long for texts.
    distinct: npt.NDArray[np.bytes_] = every[np.append(np.ones(min(1, len(every)), np.bool_), every[1:] != every[:-1])]
    return distinct


def _decoded(store: Store, keys: pa.Array) -> bytes:
    if not pc.all(pc.fill_null(pc.match_substring_regex(keys, _HEX_DIGEST), False), min_count=0).as_py():
        raise TableRefusedError(f"{store.path('tombstones')} has a message_key that is no keyed hash: restore it")
    return bytes.fromhex("".join(keys.to_pylist()))


def _known(store: Store) -> set[tuple[str, int | None]]:
    rows = store.table("tombstones").to_pyarrow_table(columns=["message_key", "global_position"])
    return set(zip(rows["message_key"].to_pylist(), rows["global_position"].to_pylist(), strict=True))


def _refuse_without_key(store: Store) -> None:
    if buried := count_rows(store, "tombstones"):
        raise TableRefusedError(
            f"{store.path(TOMBSTONE_KEY)} is gone, and without it nobody can tell which messages the {buried} "
            "tombstones of the store name: what was erased could come back. Restore the object from a backup"
        )
    if store.remember_purged is not None and _remembers_any(store):
        raise TableRefusedError(
            f"{store.path(TOMBSTONE_KEY)} is gone, and without it nobody can tell which messages were purged: they "
            "could come back. Restore the object from a backup"
        )


def _remembers_any(store: Store) -> bool:
    try:
        return bool(count_rows(store, REMEMBERED))
    except TableNotFoundError:
        # Before the upgrade that makes the table.
        return False


def _make_key(store: HeldStore) -> bytes:
    key = secrets.token_bytes(_KEY_BYTES)
    with store.step("tombstone-key"):
        made = store.objects().create(TOMBSTONE_KEY, key)
    return key if made else tombstone_key(store) or _make_key(store)


def remembered_since(store: Store, at: datetime) -> int | None:
    """The time in microseconds after which an id must have been purged to be remembered; None: none is."""
    if store.remember_purged is None:
        return None
    # Such a time may be before the first that datetime has.
    return microseconds(at) - store.remember_purged // timedelta(microseconds=1)


def first_day(store: Store) -> date | None:
    """The oldest day of which any purged id is remembered, by the log; None without any."""
    days = _days(store)
    return days[0] if days else None


def forget_purged(store: HeldStore, as_of: datetime) -> None:
    """Remove the days that are over; all of them where purged ids are not remembered any more."""
    since = remembered_since(store, as_of)
    over = [day for day in _days(store) if since is None or microseconds(end_of(day)) <= since]
    if not over:
        return
    listed = ", ".join(f"'{day.isoformat()}'" for day in over)
    with store.step("forget-purged-ids"):
        store.delete_rows(REMEMBERED, f"{PARTITIONS[REMEMBERED]} IN ({listed})")


def _days(store: Store) -> list[date]:
    files = files_of(store.table(REMEMBERED))
    return sorted(pc.unique(files[_DAY]).to_pylist()) if files.num_rows else []
