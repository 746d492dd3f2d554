"""What lies where in the index of a store's ids: runs keep it, readers look an id up in it without numpy.

An object of the index has entries of 24 bytes in order of their hashes: the first and the second half of a hash and a
value, each of 8 bytes, little endian. Behind them are the first hash of each block of entries, the checksum (CRC-32) of
each block, and a Bloom filter. All objects are named by the manifest.
"""

from contextlib import suppress
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.layout import INDEX_MANIFEST
from messagestore_core.store.objects import Objects, read_document

Kind = Literal["ids", "streams", "purged"]
KINDS: tuple[Kind, ...] = ("ids", "streams", "purged")

BLOCK = 128
"""Entries of a block, which is read and checked as a whole."""
ENTRY_BYTES = 24
FILTER_BLOCK_BYTES = 32
_HASH_BYTES, _SUM_BYTES = 8, 4

SortedRunName = Annotated[str, Field(pattern=r"^(ids|streams|purged)-[0-9a-f]{32}$")]
"""The name of an object of the index; no name leads elsewhere."""


class SortedRunInfo(BaseModel):
    """What the manifest says of a sorted run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: SortedRunName
    count: int = Field(gt=0, lt=1 << 40)
    filter_blocks: int = Field(gt=0, lt=1 << 32)
    digest: str
    """SHA-256 of all after the entries."""
    newest: int
    """For ids, when the newest message was inserted, even if it is gone; for streams, the largest position.
    For purged ids, when the last was purged."""

    @property
    def blocks(self) -> int:
        """How many blocks of entries there are."""
        return -(-self.count // BLOCK)

    @property
    def entry_bytes(self) -> int:
        """The length of all entries in bytes."""
        return self.count * ENTRY_BYTES

    @property
    def sums_at(self) -> int:
        """Where the checksums begin, behind the first hashes."""
        return self.entry_bytes + self.blocks * _HASH_BYTES

    @property
    def bytes(self) -> int:
        """The object's length in bytes."""
        return self.sums_at + self.blocks * _SUM_BYTES + self.filter_blocks * FILTER_BLOCK_BYTES


class IndexManifest(BaseModel):
    """What is in the index, and which version of which table it covers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    table: str
    """The id of ``messages`` in its log; a recreated table has another id."""
    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    version: int = -1
    """The version of ``messages`` that is covered; -1: none."""
    files: str = ""
    """The digest of that version's files; a table that was restored from a copy may have others."""
    heads: int = -1
    """The version of ``heads`` that is covered."""
    ids: tuple[SortedRunInfo, ...] = ()
    streams: tuple[SortedRunInfo, ...] = ()
    purged_table: str = ""
    """The id of ``purged_ids`` in its log; empty while there is none."""
    purged_version: int = -1
    """The version of ``purged_ids`` that is covered."""
    purged: tuple[SortedRunInfo, ...] = ()
    superseded: tuple[SortedRunName, ...] = ()
    """Objects that only the manifest before this one named; a reader of that one may still need them."""

    def runs(self, kind: Kind) -> tuple[SortedRunInfo, ...]:
        """Its sorted runs of a kind."""
        return {"ids": self.ids, "streams": self.streams, "purged": self.purged}[kind]


def read_manifest(objects: Objects) -> IndexManifest | None:
    """The stored manifest; None if there is none, or an invalid one."""
    with suppress(TableRefusedError):
        return read_document(objects, INDEX_MANIFEST, IndexManifest)
    return None
