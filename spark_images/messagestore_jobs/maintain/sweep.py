"""What broken runs left beside the tables: claim checks that no message refers to, and half-written objects."""

import re
from datetime import datetime, timedelta

from pyarrow import fs
from pyspark.sql import functions as F

from messagestore_jobs.maintain.context import Context
from messagestore_jobs.purge.plan import FOLDER as PURGES
from messagestore_jobs.replay.state import REPLAYS
from messagestore_jobs.store.claims import CLAIM_NAME, CLAIMS
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.messages import read_messages
from messagestore_jobs.store.objects import Objects

_YOUNG = timedelta(days=1)
"""What is younger may belong to a batch that is still to be committed."""
_CLAIM = re.compile(CLAIM_NAME)
_PARTIAL = ".partial"
_FOLDERS = ("", CLAIMS, PURGES, REPLAYS)


def sweep(context: Context) -> int:
    """Remove what nothing refers to; how many objects that were."""
    context.progress.step("sweep")
    objects = Aged(context.uri)
    before = context.as_of - _YOUNG
    names = [*_orphans(context, objects, before), *_half_written(objects, before)]
    for name in names:
        with external_write("sweep"):
            objects.delete(name)
    return len(names)


class Aged(Objects):
    """Objects whose age is known."""

    def older(self, below: str, before: datetime, *, recursive: bool = False) -> list[str]:
        """Names of the objects below a name that were written before a moment."""
        selector = fs.FileSelector(self._path(below), allow_not_found=True, recursive=recursive)
        prefix = len(self._root) + 1
        return sorted(
            info.path[prefix:]
            for info in self._fs.get_file_info(selector)
            if info.is_file and info.mtime is not None and info.mtime < before
        )


def _orphans(context: Context, objects: Aged, before: datetime) -> list[str]:
    """Claim checks by their names alone: a folder may be spelled in more than one way."""
    old = [name for name in objects.older(CLAIMS, before) if _CLAIM.fullmatch(name.rpartition("/")[2])]
    if not old:
        return []
    spark = context.spark
    found = spark.createDataFrame([(name, name.rpartition("/")[2]) for name in old], "path string, name string")
    claimed = read_messages(spark, context.uri).where("payload_uri is not null")
    names = claimed.select(F.substring_index("payload_uri", "/", -1).alias("name"))
    return sorted(row["path"] for row in found.join(names, "name", "left_anti").collect())


def _half_written(objects: Aged, before: datetime) -> list[str]:
    """Objects that were being written when their run was killed; only a local store has such."""
    found = [name for folder in _FOLDERS for name in objects.older(folder, before, recursive=bool(folder))]
    return [name for name in found if name.endswith(_PARTIAL)]
