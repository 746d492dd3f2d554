"""The past of a table: the files and the entries of the log that only earlier versions need."""

import re
from collections.abc import Iterable, Set

from messagestore_jobs.store.delta_log import CommitNote, files_of, open_table
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.objects import Objects, join, sum_of

LOG = "_delta_log"
_OF_VERSION = re.compile(LOG + r"/([0-9]{20})\.(?:json|crc|checkpoint\.parquet)")


def forget_past(uri: str, name: str, note: CommitNote | None) -> int:
    """Leave nothing of a table but its newest version.

    That version is made by a commit that says nothing of any file: an entry of the log also tells the values of what it
    took away.

    Args:
        uri: the table folder.
        name: of the table.
        note: what the commit on ``messages`` says.

    Returns:
        The number of the version that is left.
    """
    properties = commit_properties(uri, note)
    with external_write("erase-vacuum"):
        open_to_write(uri, name).vacuum(
            retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True, commit_properties=properties
        )
    table = open_to_write(uri, name)
    with external_write("erase-renew"):
        partitions = table.metadata().partition_columns
        table.create_write_transaction([], "append", table.schema(), partitions, commit_properties=properties)
    table = open_table(uri, name)
    with external_write("erase-checkpoint"):
        table.create_checkpoint()
    objects = Objects(join(uri, name))
    files = set(files_of(table)["path"].to_pylist())
    with external_write("erase-log"):
        for left in not_needed(objects.names(recursive=True), files, table.version(), table.version()):
            objects.delete(left)
    return int(table.version())


def not_needed(names: Iterable[str], files: Set[str], first: int, last: int) -> list[str]:
    """What lies in a table's folder and its newest version does not need; the oldest first.

    Args:
        names: of all that lies there; those of folders end with a slash.
        files: the data files of the version.
        first: the number of a version that has a check point.
        last: that of the newest.
    """
    found = [(_version_of(name), name) for name in names if not name.endswith("/") and sum_of(name) not in files]
    return [name for of, name in sorted(found) if not first <= of <= last and sum_of(name) != f"{LOG}/_last_checkpoint"]


def _version_of(name: str) -> int:
    """Of an entry of the log; -1 of anything else."""
    found = _OF_VERSION.fullmatch(sum_of(name))
    return int(found[1]) if found else -1
