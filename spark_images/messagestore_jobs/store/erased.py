"""Which messages were erased: a late copy of one does not come back, and none is sent again."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from messagestore_jobs.store.keyed import message_key
from messagestore_jobs.store.tombstones import read_tombstone_keys, tombstone_key

_WORD = re.compile(r"[\w-]+")
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Erased:
    """The tombstones of a store."""

    def __init__(self, key: bytes, tombstones: set[str]) -> None:
        self.key = key
        self._tombstones = tombstones

    def any(self) -> bool:
        """Whether anything was ever erased."""
        return bool(self._tombstones)

    def contains(self, ids: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Which of the ids were erased; null is none of them."""
        if not self._tombstones:
            return np.zeros(len(ids), dtype=np.bool_)
        return np.array(
            [i is not None and message_key(self.key, i) in self._tombstones for i in ids.to_pylist()], dtype=np.bool_
        )

    def named_in(self, content: bytes) -> bool:
        """Whether an erased id stands in some bytes as a word or as a JSON string of its own."""
        if not self._tombstones:
            return False
        text = content.decode(errors="replace")
        return any(message_key(self.key, name) in self._tombstones for name in names_in(text))


def names_in(text: str) -> Iterator[str]:
    """What stands in a text as a word, or as a JSON string of its own."""
    yield from set(_WORD.findall(text))
    for quoted in set(_JSON_STRING.findall(text)):
        # Half of a surrogate pair is no text.
        with suppress(ValueError):
            name = json.loads(quoted, strict=False)
            name.encode()
            yield name


def open_erased(uri: str, before: int | None = None) -> Erased:
    """The tombstones of the store in a folder; of messages that may have stood ``before`` a global position."""
    return Erased(tombstone_key(uri) or b"", read_tombstone_keys(uri, before))
