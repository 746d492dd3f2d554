"""Which files of a table were added and removed between two versions, by its log.

Files with the same rows as before are skipped: those of a compaction, and those of our own runs' updates, as these
change no ids, streams or positions.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from deltalake import DeltaTable

from messagestore_core.clock import microseconds
from messagestore_core.store.delta_log import end_of, files_of, is_own_note
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.foreign import PATH
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import PARTITIONS, REMEMBERED
from messagestore_core.store.tombstones import first_day

FEW_ROWS = 100_000
"""This process reads so many in less time than Spark takes to plan a job."""
FEW_FILES = 100
_MANY = 1 << 40
"""The bytes assumed for a file of unknown size."""
_BYTES_A_ROW = 32
"""For removed files, and without statistics, the log has only the size; few rows are smaller."""
_NEVER = 1 << 62
"""Later than any time, in microseconds."""
_PATH = re.compile(PATH)

Batch = tuple[str, int]
"""A source's id, and the number of one of its batches."""


@dataclass
class Changes:
    """Files by their paths below the table, with the approximate number of rows of each.

    Attributes:
        added: files with new rows.
        removed: files whose rows are gone.
        commits: all paths that each commit added and removed, oldest first, with or without changed rows.
    """

    added: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    commits: list[tuple[set[str], set[str]]] = field(default_factory=list)

    @property
    def files(self) -> int:
        """How many files must be read."""
        return len(self.added) + len(self.removed)

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(self.added.values()) + sum(self.removed.values())

    @property
    def few(self) -> bool:
        """Whether this process, rather than Spark, reads them."""
        return self.files <= FEW_FILES and self.rows <= FEW_ROWS

    def before(self, files: Set[str]) -> set[str]:
        """The files that the table had before all commits, given those that it has now."""
        earlier = set(files)
        for came, left in reversed(self.commits):
            earlier = (earlier - came) | left
        return earlier


def paths_of(table: DeltaTable) -> set[str]:
    """All files of a table."""
    return set(files_of(table)["path"].to_pylist())


def digest_of(paths: Set[str]) -> str:
    """A digest of a table's files. Names of files are never reused, so equal digests mean the same history."""
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()


def all_of(table: DeltaTable) -> Changes:
    """All files of a table, as changes since it was empty."""
    files = files_of(table)
    if not files.num_rows:
        return Changes()
    counts, sizes = files["num_records"].to_pylist(), files["size_bytes"].to_pylist()
    return Changes(dict(zip(files["path"].to_pylist(), map(_rows, counts, sizes), strict=True)))


def changes_between(
    store: Store, name: str, since: int, until: int, is_known: Callable[[Batch], bool] = lambda _: False
) -> Changes | None:
    """What changed after version ``since`` up to version ``until``; None where the log no longer has it.

    The rows of a batch that ``is_known`` count as no change.
    """
    changes = Changes()
    for version in range(since + 1, until + 1):
        try:
            actions = store.actions(name, version)
            if not actions or not _take(changes, actions, is_known):
                return None
        except (TableRefusedError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
    return changes


def purged_since(store: Store, version: int, until: int) -> Changes | None:
    """What was added to the purged ids after a version; None where all must be read.

    All must be read also where ids were removed that are not older than all that are left.
    """
    changes = changes_between(store, REMEMBERED, version, until) if version >= 0 else None
    first = first_day(store)
    if changes is None or first is None:
        return changes
    lost = any(path >= f"{PARTITIONS[REMEMBERED]}={first}" for path in changes.removed)
    return None if lost else changes


def oldest_purged(store: Store) -> int:
    """The first moment of the oldest day with a purged id, in microseconds."""
    first = None if store.remember_purged is None else first_day(store)
    return _NEVER if first is None else microseconds(end_of(first - timedelta(days=1)))


def _take(changes: Changes, actions: Iterable[dict[str, Any]], is_known: Callable[[Batch], bool]) -> bool:
    """Add one commit's changes; false if it names a file that no table of ours can have."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for action in actions:
        for kind, content in action.items():
            by_kind.setdefault(kind, []).append(content)
    added, removed = ({one["path"]: one for one in by_kind.get(kind, ())} for kind in ("add", "remove"))
    if not all(_PATH.match(path) for path in (*added, *removed)):
        return False
    changes.commits.append((set(added), set(removed)))
    known = any(is_known((txn["appId"], txn["version"])) for txn in by_kind.get("txn", ()))
    if known or any(_keeps_names(info) for info in by_kind.get("commitInfo", ())):
        return True
    added, removed = (
        {path: one for path, one in some.items() if one["dataChange"] is not False} for some in (added, removed)
    )
    for path, one in removed.items():
        if changes.added.pop(path, None) is None:
            changes.removed[path] = _rows(None, one.get("size"))
    for path, one in added.items():
        changes.added[path] = _rows(json.loads(one.get("stats") or "{}").get("numRecords"), one.get("size"))
    return True


def _keeps_names(info: dict[str, Any]) -> bool:
    """Whether a commit is an update by one of our runs: these change no ids, streams or positions."""
    if not is_own_note(info.get("userMetadata")):
        return False
    if info.get("operation") == "UPDATE":
        return True
    if info.get("operation") != "MERGE":
        return False
    said = info["operationParameters"]
    matched, *others = (
        json.loads(said.get(name) or "[]")
        for name in ("matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates")
    )
    return not any(others) and all(one["actionType"] == "update" for one in matched)


def _rows(count: int | None, size: int | None) -> int:
    return (size or _MANY) // _BYTES_A_ROW if count is None else count
