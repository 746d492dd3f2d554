"""Tombstones: the keyed hash of each erased message id, so that what was erased does not come back.

The hash is keyed, as a plain digest of a guessable id would tell who had been there. The key is made once and stays in
the folder; without it the tombstones say nothing.
"""

import secrets
from collections.abc import Iterable
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from messagestore_jobs.store.documents import LARGEST
from messagestore_jobs.store.errors import TableRefusedError
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.history import open_table
from messagestore_jobs.store.keyed import KEY_OBJECT, message_key
from messagestore_jobs.store.objects import Objects, join
from messagestore_jobs.store.schemas import TOMBSTONES

_KEY_BYTES = 32


def tombstone_key(uri: str) -> bytes | None:
    """The folder's key, or None while nothing has ever been erased.

    Raises:
        TableRefusedError: what lies there is no key, or there are tombstones and no key: they would say nothing.
    """
    key = Objects(uri).read(KEY_OBJECT, LARGEST)
    if key is None and (buried := open_table(uri, "tombstones").count()):
        raise TableRefusedError(
            f"{join(uri, KEY_OBJECT)} is gone, and without it nobody can tell which messages the {buried} tombstones "
            "of the store name: what was erased could come back. Restore the object from a backup"
        )
    if key is not None and len(key) != _KEY_BYTES:
        raise TableRefusedError(f"{join(uri, KEY_OBJECT)} is no key of {_KEY_BYTES} bytes: restore it as it was")
    return key


def read_tombstone_keys(uri: str, before: int | None = None) -> set[str]:
    """The keys of all that was erased; of what may have stood ``before`` a global position, if one is given."""
    rows = open_table(uri, "tombstones").to_pyarrow_table()
    if before is not None and "global_position" in rows.column_names:
        position = pc.field("global_position")
        rows = rows.filter(position.is_null() | (position < before))
    return set(rows["message_key"].to_pylist())


def erased_positions(uri: str) -> npt.NDArray[np.int64]:
    """The global positions of all that was erased, as far as the tombstones tell them."""
    rows = open_table(uri, "tombstones").to_pyarrow_table()
    if "global_position" not in rows.column_names:
        return np.array([], dtype=np.int64)
    found: npt.NDArray[np.int64] = rows["global_position"].drop_null().to_numpy()
    return found


def add_tombstones(uri: str, erased: Iterable[tuple[str, int]], erased_at: datetime, run: str) -> None:
    """Remember messages as erased, durably; one that is remembered already is not written again.

    Args:
        erased: message id and global position of each.
    """
    gone = list(erased)
    if not gone:
        return
    key = tombstone_key(uri) or _make_key(uri)
    known = _known(uri)
    new = sorted({(message_key(key, message_id), position) for message_id, position in gone} - known)
    if not new:
        return
    keys, positions = zip(*new, strict=True)
    rows = pa.table([keys, [erased_at] * len(new), [run] * len(new), positions], schema=TOMBSTONES)
    with external_write("tombstones"):
        write_deltalake(open_to_write(uri, "tombstones"), rows, mode="append", commit_properties=commit_properties(uri))


def _known(uri: str) -> set[tuple[str, int | None]]:
    rows = open_table(uri, "tombstones").to_pyarrow_table(columns=["message_key", "global_position"])
    return set(zip(rows["message_key"].to_pylist(), rows["global_position"].to_pylist(), strict=True))


def _make_key(uri: str) -> bytes:
    key = secrets.token_bytes(_KEY_BYTES)
    with external_write("tombstone-key"):
        made = Objects(uri).create(KEY_OBJECT, key)
    return key if made else tombstone_key(uri) or _make_key(uri)
