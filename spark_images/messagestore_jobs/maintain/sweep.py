"""What lies beside the tables and nothing needs: claim checks that no data file names, and half-written objects.

A replay that has frozen a version reads its claim checks too. They are kept as the files of that version are: what a
purge removed goes once :mod:`clean` has removed the files that it was in.
"""

import re
from datetime import datetime, timedelta

from py4j.protocol import Py4JJavaError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from messagestore_jobs.maintain.context import Context
from messagestore_jobs.purge.plan import FOLDER as PURGES
from messagestore_jobs.replay.state import REPLAYS
from messagestore_jobs.store.claims import CLAIM_NAME, CLAIMS
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.messages import read_messages
from messagestore_jobs.store.objects import Objects, join

_YOUNG = timedelta(days=1)
"""What is younger may belong to a batch that is still to be committed."""
_CLAIM = re.compile(CLAIM_NAME)
_PARTIAL = ".partial"
_UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")
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
    """Claim checks by their names alone: a folder may be spelled in more than one way.

    Where a data file can't be read nothing is known of what it names; a broken run's leaves after its retention.
    """
    old = [name for name in objects.older(CLAIMS, before) if _CLAIM.fullmatch(name.rpartition("/")[2])]
    if not old:
        return []
    spark = context.spark
    found = spark.createDataFrame([(name, name.rpartition("/")[2]) for name in old], "path string, name string")
    current = read_messages(spark, context.uri).select("payload_uri")
    files = spark.read.schema("payload_uri string").option("recursiveFileLookup", "true")
    kept = files.option("pathGlobFilter", "*.parquet").parquet(join(context.uri, "messages"))
    claimed = current.union(kept).where("payload_uri is not null")
    names = claimed.select(F.substring_index("payload_uri", "/", -1).alias("name"))
    try:
        return sorted(row["path"] for row in found.join(names, "name", "left_anti").collect())
    except (PySparkException, Py4JJavaError) as error:
        if not any(sign in str(error) for sign in _UNREADABLE):
            raise
        context.progress.say("no claim checks were swept, as a data file of messages can't be read")
        return []


def _half_written(objects: Aged, before: datetime) -> list[str]:
    """Objects that were being written when their run was killed; only a local store has such."""
    found = [name for folder in _FOLDERS for name in objects.older(folder, before, recursive=bool(folder))]
    return [name for name in found if name.endswith(_PARTIAL)]
