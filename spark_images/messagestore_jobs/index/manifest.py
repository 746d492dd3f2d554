"""The manifest of an index: which objects it names, and whether it is of a table."""

from deltalake import DeltaTable

from messagestore_core.store.handle import Store
from messagestore_core.store.id_index import KINDS, IndexManifest, read_manifest
from messagestore_core.store.layout import INDEX, INDEX_MANIFEST


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
