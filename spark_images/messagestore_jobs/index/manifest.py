"""The manifest of an index: its sorted runs, and the versions of the tables that they cover."""

from contextlib import suppress
from typing import Literal

from deltalake import DeltaTable
from pydantic import BaseModel, ConfigDict, Field

from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import INDEX, INDEX_MANIFEST
from messagestore_core.store.objects import Objects, read_document
from messagestore_jobs.index.sorted_runs import SortedRunInfo, SortedRunName

Kind = Literal["ids", "streams", "purged"]
KINDS: tuple[Kind, ...] = ("ids", "streams", "purged")


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


def unnamed(store: Store) -> set[str]:
    """Objects of an index that its manifest doesn't name, by their names in the store's folder."""
    objects = store.objects(INDEX)
    manifest = read_manifest(objects)
    named = {INDEX_MANIFEST, *names_in(manifest), *(manifest.superseded if manifest else ())}
    return {f"{INDEX}/{name}" for name in objects.names(recursive=True) if not name.endswith("/")} - {
        f"{INDEX}/{name}" for name in named
    }


def usable(manifest: IndexManifest | None, table: DeltaTable) -> IndexManifest | None:
    """The manifest if it is of this table, else None."""
    is_usable = (
        manifest is not None and manifest.table == str(table.metadata().id) and 0 <= manifest.version <= table.version()
    )
    return manifest if is_usable else None


def names_in(manifest: IndexManifest | None) -> set[str]:
    """The sorted runs that a manifest names."""
    return {info.name for kind in KINDS for info in manifest.runs(kind)} if manifest else set()


def read_manifest(objects: Objects) -> IndexManifest | None:
    """The stored manifest; None if there is none, or an invalid one."""
    with suppress(TableRefusedError):
        return read_document(objects, INDEX_MANIFEST, IndexManifest)
    return None
