"""The index of a store for ingests: which ids it holds or remembers as purged, and the next position of each stream.

Folder ``_index`` holds it: sorted runs of entries, and a manifest. The manifest names the sorted runs, the version of
the table that they cover, and the key of their hashes. What changed after that version is read from the table's log and
files. An index that is lost, torn, another table's or older than the log is rebuilt.
"""

import secrets
import tempfile
from collections.abc import Collection
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from messagestore_core.store.delta_log import next_global_position
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.heads import read_hidden_heads, read_named_heads
from messagestore_core.store.id_index import KINDS, IndexManifest, Kind, SortedRunInfo, read_manifest
from messagestore_core.store.layout import INDEX, INDEX_MANIFEST
from messagestore_core.store.schemas import REMEMBERED
from messagestore_core.store.tombstones import remembered_since
from messagestore_jobs.index.changes import (
    Batch,
    Changes,
    all_of,
    changes_between,
    digest_of,
    oldest_purged,
    paths_of,
    purged_since,
)
from messagestore_jobs.index.entries import (
    ENTRY,
    Entries,
    Lookup,
    MemoryRun,
    SortedRun,
    entries_of,
    keep_largest,
    less_what_left,
    merge_ids,
    merge_purged,
    merged,
    to_merge,
    together,
)
from messagestore_jobs.index.keys import Flags, Hasher, Keys
from messagestore_jobs.index.manifest import names_in, usable
from messagestore_jobs.index.read import (
    Added,
    Leaving,
    Positions,
    files,
    ids_by_spark,
    purged_by_spark,
    read_in_driver,
    read_purged,
    rows_at,
    sorted_run_name,
    streams_by_spark,
    write_by_spark,
)
from messagestore_jobs.index.sorted_runs import StoredRun, TornIndexError, write_sorted_run
from messagestore_jobs.rows.messages import read_messages

SAVE_KEYS = 250_000
"""Once so many ids are in no stored run, they are written."""
SAVE_KEYS_AT_END = 50_000
SAVE_COMMITS_AT_END = 10
"""How many ids and commits a run of the job leaves at most for the next one to read from the table."""
_KEY_BYTES = 32
_NOTHING = np.empty(0, dtype=ENTRY)
_SMALL = 2_000_000
"""Batches wait for merges of up to so many entries; maintenance does larger ones."""
_RATIO, _RATIO_OF_MAINTENANCE = 2, 4
"""A sorted run is merged once it is less than this times as large as all younger ones."""


class StoreIndex:
    """The index of one store, as of the last batch. The caller holds the right to write."""

    def __init__(self, spark: SparkSession, store: HeldStore) -> None:
        self._spark, self._store = spark, store
        self._objects = store.objects(INDEX)
        self._folder = tempfile.TemporaryDirectory(prefix="messagestore-index-")
        self._hidden = read_hidden_heads(store)
        table = store.table("messages")
        self._seen = read_manifest(self._objects)
        self._manifest = usable(self._seen, table) or IndexManifest(
            table=str(table.metadata().id), key=secrets.token_hex(_KEY_BYTES)
        )
        self._hasher = Hasher(self.key)
        self.next_global = max(self._hidden.next_global, next_global_position(store))
        if self._follow(self._manifest):
            self.save()

    @property
    def key(self) -> bytes:
        """The key of its hashes."""
        return bytes.fromhex(self._manifest.key)

    def contains(self, keys: Keys, not_before: int | None) -> Flags:
        """Which of the ids are in the store; with ``not_before`` (µs) only those inserted since then."""
        indices, values = less_what_left(self._find("ids", keys, not_before))
        is_known = np.zeros(len(keys), dtype=np.bool_)
        is_known[indices if not_before is None else indices[values >= not_before]] = True
        return is_known

    def remembers(self, keys: Keys, at: datetime) -> Flags:
        """Which of the ids, by their hashes with the tombstones' key, are remembered as purged at a time."""
        is_known, since = np.zeros(len(keys), dtype=np.bool_), remembered_since(self._store, at)
        if since is not None:
            indices, purged_at = self._find("purged", keys, since)
            is_known[indices[purged_at > since]] = True
        return is_known

    @property
    def remembers_any(self) -> bool:
        """Whether there are purged ids."""
        return bool(self._runs("purged"))

    def days_of(self, message_ids: pa.Array) -> list[date]:
        """The days on which these messages were inserted, without those that are not in the store."""
        _, inserted_at = less_what_left(self._find("ids", self._hasher.keys(message_ids.to_pylist()), None))
        days: list[date] = np.unique(inserted_at.astype("datetime64[us]").astype("datetime64[D]")).tolist()
        return days

    def next_positions(self, streams: pa.Array) -> Positions:
        """The next position of each stream (distinct names)."""
        names = streams.to_pylist()
        next_ = np.array([self._hidden.next_position(name) for name in names], dtype=np.int64)
        np.maximum.at(next_, *self._find("streams", self._hasher.keys_of_known(names)))
        return next_

    def stored(self, added: Added) -> None:
        """Add a committed batch."""
        self._batches.add(added.batch)
        at = np.full(len(added.ids), added.inserted_at, dtype=np.int64)
        streams = self._hasher.keys_of_known(added.streams.to_pylist())
        self._take(ids=entries_of(added.ids, at), streams=entries_of(streams, added.next_positions))
        self.next_global = added.next_global
        if self._count_new("ids") >= SAVE_KEYS:
            self.save()

    def close(self) -> None:
        """Save if the next run of the job would otherwise have much to read."""
        behind = self._store.table("messages").version() - self._manifest.version
        many = max(self._count_new("ids"), self._count_new("purged")) >= SAVE_KEYS_AT_END
        if many or behind > SAVE_COMMITS_AT_END:
            self.save()

    def save(self) -> None:
        """Write new entries. If this breaks off, the next run reads them from the tables."""
        self._write(_RATIO, _SMALL)

    def merge(self) -> None:
        """Write new entries, and merge sorted runs of any size if there are too many."""
        self._write(_RATIO_OF_MAINTENANCE, None)

    def left(self, leaving: Leaving) -> None:
        """Take these messages out and save; the table's last commit removed them and did nothing else.

        If this breaks off, the next run reads the ids of all rows in the files that the commit rewrote.
        """
        self._follow(None, leaving)
        self.save()

    def go_on_behind_a_cut(self) -> None:
        """Like ``merge``, after the logs lost their last versions, in which nothing came or left."""
        self._version = self._store.table("messages").version()
        if self._store.remember_purged is not None:
            self._purged_version = self._store.table(REMEMBERED).version()
        self.merge()

    def _follow(self, manifest: IndexManifest | None, leaving: Leaving | None = None) -> bool:
        """Read what has been added and removed since a manifest, or since the last call.

        Where the log no longer has it, or a sorted run is torn, the index is rebuilt from the table. It keeps its key,
        as columns of the job under way hold hashes by it.

        Args:
            manifest: to start from; None: go on.
            leaving: the messages that the last commit removed, where they are known.

        Returns:
            Whether stored runs were written or discarded.
        """
        try:
            if manifest is not None:
                self._start(manifest)
            return self._catch_up(leaving)
        except (TornIndexError, FileNotFoundError):
            self._start(self._blank())
            self._catch_up()
            return True

    def _blank(self) -> IndexManifest:
        return IndexManifest(table=self._manifest.table, key=self._manifest.key)

    def _start(self, manifest: IndexManifest) -> None:
        self._manifest, self._version, self._heads = manifest, manifest.version, manifest.heads
        self._trusted = False
        self._paths: set[str] = set()
        self._batches: set[Batch] = set()
        self._purged_table, self._purged_version = manifest.purged_table, manifest.purged_version
        self._new: dict[Kind, list[MemoryRun]] = {kind: [] for kind in KINDS}
        self._stored = {kind: [self._opened(info) for info in manifest.runs(kind)] for kind in KINDS}

    def _opened(self, info: SortedRunInfo) -> StoredRun:
        return StoredRun(self._objects, info, Path(self._folder.name))

    def _count_new(self, kind: Kind) -> int:
        return sum(map(len, self._new[kind]))

    def _find(self, kind: Kind, keys: Keys, not_before: int | None = None) -> Lookup:
        try:
            return self._lookup(kind, keys, not_before)
        except TornIndexError:
            self._start(self._blank())
            self.save()
            return self._lookup(kind, keys, not_before)

    def _lookup(self, kind: Kind, keys: Keys, not_before: int | None) -> Lookup:
        runs = [run for run in self._runs(kind) if not_before is None or not run.is_older(not_before)]
        return together([run.find(keys) for run in runs])

    def _runs(self, kind: Kind) -> list[SortedRun]:
        return [*self._stored[kind], *self._new[kind]]

    def _take(self, ids: Entries = _NOTHING, streams: Entries = _NOTHING, purged: Entries = _NOTHING) -> None:
        """Keep new entries in memory, in few sorted runs."""
        new: dict[Kind, Entries] = {"ids": ids, "streams": streams, "purged": purged}
        for kind, entries in new.items():
            runs = self._new[kind]
            if len(entries):
                runs.append(MemoryRun(entries))
            while len(runs) > 1 and len(runs[-2]) < _RATIO * len(runs[-1]):
                both = [runs.pop(), runs.pop()]
                runs.append(MemoryRun(np.concatenate(list(merged(both, lambda part: part)))))

    def _catch_up(self, leaving: Leaving | None = None) -> bool:
        """Read what has been added and removed since; return whether Spark had to write it as sorted runs.

        ``leaving`` is as in ``_follow``; more commits than that one are read without it.

        Raises:
            TornIndexError: the log no longer has it.
        """
        wrote = False
        if not self._trusted:
            self._take_heads()
            wrote = self._take_purged()
        table = self._store.table("messages")
        whole, self._paths = self._version < 0, paths_of(table)
        changes = all_of(table) if whole else self._changes(table.version())
        self._version, self._trusted = table.version(), True
        if changes.few:
            if changes.files:
                self._take(*read_in_driver(self._store, self.key, changes))
            return wrote
        if leaving is not None and len(changes.commits) == 1:
            gone = rows_at(self._spark, self._store, changes.removed, leaving.positions)
            self._write_by_spark(None, gone, leaving.most)
            return True
        added = read_messages(self._spark, self._store, self._version) if whole else self._rows_of(changes.added)
        self._write_by_spark(added, self._rows_of(changes.removed), changes.rows)
        return True

    def _take_heads(self) -> None:
        """Read heads that purges have raised and the index lacks.

        Raises:
            TornIndexError: a stored run is torn.
        """
        version = self._store.version("heads")
        if version != self._heads:
            self._heads = version
            for rows in read_named_heads(self._store):
                keys = self._hasher.keys(rows["stream_name"].to_pylist())
                heads = rows["next_position"].fill_null(0).to_numpy()
                known = np.zeros(len(keys), dtype=np.int64)
                np.maximum.at(known, *self._lookup("streams", keys, None))
                self._take(streams=entries_of(keys.where(heads > known), heads[heads > known]))

    def _take_purged(self) -> bool:
        """Read purged ids that the index lacks, and drop those of days that were removed.

        Return whether Spark had to write them as sorted runs.
        """
        if self._store.remember_purged is None:
            self._forget_purged("")
            return False
        table = self._store.table(REMEMBERED)
        if str(table.metadata().id) != self._purged_table or self._purged_version > table.version():
            self._forget_purged(str(table.metadata().id))
        changes = purged_since(self._store, self._purged_version, table.version())
        if changes is None:
            self._forget_purged(self._purged_table)
            changes = all_of(table)
        self._purged_version = table.version()
        since = oldest_purged(self._store)
        self._stored["purged"] = [run for run in self._stored["purged"] if not run.is_older(since)]
        if not changes.added:
            return False
        if changes.few:
            self._take(purged=read_purged(self._store, changes.added))
            return False
        self._write_frame("purged", purged_by_spark(self._spark, self._store, changes.added), changes.rows)
        return True

    def _forget_purged(self, table: str) -> None:
        self._purged_table, self._purged_version = table, -1
        self._stored["purged"], self._new["purged"] = [], []

    def _changes(self, until: int) -> Changes:
        changes = changes_between(self._store, "messages", self._version, until, self._batches.__contains__)
        if changes is None:
            raise TornIndexError(f"the log of {self._store.uri} no longer has what came after version {self._version}")
        if not self._trusted and digest_of(changes.before(self._paths)) != self._manifest.files:
            raise TornIndexError(f"the index is of another version {self._version} of {self._store.uri}")
        return changes

    def _rows_of(self, paths: Collection[str]) -> DataFrame | None:
        return files(self._spark, self._store, paths) if paths else None

    def _write_by_spark(self, added: DataFrame | None, removed: DataFrame | None, rows: int) -> None:
        frames: dict[Kind, DataFrame | None] = {
            "ids": ids_by_spark(self._spark, self.key, added, removed),
            "streams": None if added is None else streams_by_spark(self._spark, self.key, added),
        }
        for kind, frame in frames.items():
            if frame is not None:
                self._write_frame(kind, frame, rows)

    def _write_frame(self, kind: Kind, frame: DataFrame, rows: int) -> None:
        info = write_by_spark(self._store, frame, sorted_run_name(kind), rows)
        if info is not None:
            self._stored[kind].append(self._opened(info))

    def _write(self, ratio: int, at_most: int | None) -> None:
        """Write new entries, merged with stored runs as in ``to_merge``, and then the manifest."""
        stored = read_manifest(self._objects)
        # Maintenance may have merged sorted runs meanwhile.
        own = (self._manifest.table, self._manifest.key)
        changed = stored is not None and stored != self._seen and (stored.table, stored.key) == own
        self._follow(stored if changed else None)
        try:
            self._write_new(ratio, at_most)
        except TornIndexError:
            self._start(self._blank())
            self._catch_up()
            self._write_new(ratio, at_most)
        ids, streams, purged = (tuple(run.info for run in self._stored[kind]) for kind in KINDS)
        leaving = names_in(stored) - {info.name for info in (*ids, *streams, *purged)}
        manifest = IndexManifest(
            table=self._manifest.table,
            key=self._manifest.key,
            version=self._version,
            heads=self._heads,
            files=digest_of(self._paths),
            ids=ids,
            streams=streams,
            purged_table=self._purged_table,
            purged_version=self._purged_version,
            purged=purged,
            superseded=tuple(sorted(leaving)),
        )
        with self._store.step("index-manifest"):
            self._objects.write(INDEX_MANIFEST, manifest.model_dump_json().encode())
        with self._store.step("index-superseded"):
            for name in stored.superseded if stored else ():
                self._objects.delete(name)
        self._manifest, self._seen, self._batches = manifest, manifest, set()

    def _write_new(self, ratio: int, at_most: int | None) -> None:
        for kind in KINDS:
            stored, new = self._stored[kind], self._new[kind]
            kept = to_merge([len(run) for run in stored], sum(map(len, new)), ratio, at_most)
            if not new and kept >= len(stored) - 1:
                continue
            runs = self._runs(kind)[kept:]
            merge = {
                "ids": merge_ids(whole=kept == 0),
                "streams": keep_largest,
                "purged": merge_purged(oldest_purged(self._store)),
            }[kind]
            with self._store.step("index"):
                info = write_sorted_run(self._objects, sorted_run_name(kind), merged(runs, merge), sum(map(len, runs)))
            self._stored[kind] = [*stored[:kept], *([self._opened(info)] if info else [])]
            self._new[kind] = []


def kept_index(spark: SparkSession, store: HeldStore) -> StoreIndex | None:
    """The index of a store as of now, if it has one; for a run that removes earlier versions of the table."""
    return StoreIndex(spark, store) if store.objects(INDEX).exists(INDEX_MANIFEST) else None
