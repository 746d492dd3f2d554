"""What is left in a store after an erasure: remove earlier versions, and check everything else in the folder.

A file is either part of a table's newest version, named by a message, or of a kind that a run writes; any other file is
strange, as it might have erased content. Of data files only those are read that may have rows of erased messages, of
other files all.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from functools import reduce
from itertools import islice
from operator import or_

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_core.store.audit import ALONE, ATTEMPTS
from messagestore_core.store.delta_log import CommitNote, empty_commit, files_of
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import HiddenHeads, read_hidden_heads, read_named_heads
from messagestore_core.store.layout import (
    CLAIM_CHECKS,
    LAST_CHECKPOINT,
    LOG,
    MARKER,
    PLAN,
    PURGES,
    TOMBSTONE_KEY,
    TRANSLATORS,
    is_frozen_rows,
    is_run_state,
)
from messagestore_core.store.objects import sum_of
from messagestore_core.store.purges import FROZEN, find_plans
from messagestore_core.store.scan import scan
from messagestore_core.store.tombstones import Erased, erased_positions
from messagestore_jobs.frozen.gone import sequences_left
from messagestore_jobs.frozen.staged import copies_left
from messagestore_jobs.index.keys import HASH_BYTES
from messagestore_jobs.index.read import files, hashed
from messagestore_jobs.lifecycle.waiting import waiting_for_erased
from messagestore_jobs.purge.dead_letters import naming
from messagestore_jobs.purge.hidden import hidden_streams, in_clear, without_erased
from messagestore_jobs.purge.history import history_left
from messagestore_jobs.rows.messages import read_table

_SHOWN = 5
_NONE = np.array([], np.int64)
_OF_VERSION = re.compile(LOG + r"/([0-9]{20})\.(?:json|crc|checkpoint\.parquet)")


def refuse_remains(
    spark: SparkSession,
    store: Store,
    erased: Erased,
    left: Mapping[str, int],
    claim_checks: Set[str],
    going: npt.NDArray[np.int64] = _NONE,
) -> None:
    """Check all that a store's folder has after an erasure.

    Args:
        left: the only version left of each table.
        claim_checks: the names of claim checks that messages have.
        going: the global positions of messages that unfinished purges are still to erase.

    Raises:
        RunFailedError: something erased is still there, or something that might be.
    """
    remains = list(islice(_remains(spark, store, erased, left, claim_checks, going), _SHOWN + 1))
    if remains:
        more = "; and more" if len(remains) > _SHOWN else ""
        raise RunFailedError(
            "ErasureIncomplete",
            f"{store.uri} still has something erased, or something that might be: "
            f"{'; '.join(remains[:_SHOWN])}{more}. Find out who wrote it and remove it; the next run looks again",
        )


def strange(names: list[str], tables: Mapping[str, tuple[Set[str], int, int]], claim_checks: Set[str]) -> Iterator[str]:
    """What is in a store's folder and no run needs, for people.

    Args:
        names: of all in the folder; those of folders end with a slash.
        tables: the data files, the first and the last version of each.
        claim_checks: the names of claim checks that messages have.
    """
    below: dict[str, list[str]] = {}
    for name in names:
        top, slash, rest = name.partition("/")
        if not name.endswith("/"):
            below.setdefault(top if slash else "", []).append(rest if slash else top)
    for top, inside in below.items():
        if top in tables:
            left = not_needed(inside, *tables[top])
        elif top == CLAIM_CHECKS:
            left = [name for name in inside if sum_of(name) not in claim_checks]
        elif top == "":
            known = (MARKER, TOMBSTONE_KEY, TRANSLATORS)
            left = [name for name in inside if sum_of(name) not in known and not is_run_state(sum_of(name))]
        else:
            left = [name for name in inside if not is_run_state(sum_of(f"{top}/{name}"))]
        yield from (f"{f'{top}/' if top else ''}{name} is nothing that a run needs" for name in left)


def forget_past(store: HeldStore, name: str, note: CommitNote | None) -> int:
    """Remove all versions of a table but the newest; return its number.

    The newest version is a commit without files, as log entries also have statistics of files that they removed. Only
    ``messages`` has a note.
    """
    properties = store.commit_properties(note, ALONE)
    for _ in range(ATTEMPTS):
        with suppress(CommitFailedError):
            return _forget_past(store, name, properties)
    raise RunFailedError("RunFailed", f"other runs keep writing {store.path(name)}; its past was not removed")


def _forget_past(store: HeldStore, name: str, properties: CommitProperties) -> int:
    """Remove only what was listed before a commit, as whoever was adding rows then fails and adds them again.

    A full vacuum would also remove what others are about to commit: the commit that begins it carries no transaction.
    """
    with store.step("erase-vacuum"):
        store.open_to_write(name).vacuum(
            retention_hours=0, dry_run=False, enforce_retention_duration=False, commit_properties=properties
        )
    table, objects = store.open_to_write(name), store.objects(name)
    past = objects.names(recursive=True)
    with store.step("erase-renew"):
        empty_commit(table, name, properties)
    with store.step("erase-checkpoint"):
        table.create_checkpoint()
    files = set(files_of(table)["path"].to_pylist())
    with store.step("erase-log"):
        for left in not_needed(past, files, table.version(), table.version()):
            objects.delete(left)
    return int(table.version())


def not_needed(names: Iterable[str], files: Set[str], first: int, last: int) -> list[str]:
    """What is in a table's folder and its newest version does not need; the oldest first.

    Args:
        names: of all in the folder; those of folders end with a slash.
        files: the data files of the newest version.
        first: the number of a version with a checkpoint.
        last: the number of the newest version.
    """
    versions = [(_version_of(name), name) for name in names if not name.endswith("/") and sum_of(name) not in files]
    return [
        name for of, name in sorted(versions) if not first <= of <= last and sum_of(name) != f"{LOG}/{LAST_CHECKPOINT}"
    ]


def _remains(
    spark: SparkSession,
    store: Store,
    erased: Erased,
    left: Mapping[str, int],
    claim_checks: Set[str],
    going: npt.NDArray[np.int64],
) -> Iterator[str]:
    yield from strange(store.objects().names(recursive=True), _needed(store, left), claim_checks)
    yield from _rows(spark, store, erased, going)
    yield from history_left(store, np.setdiff1d(erased_positions(store), going))
    yield from names_left(store, read_hidden_heads(store))
    yield from copies_left(store, erased)
    yield from _plans(store, erased)
    yield from sequences_left(spark, store)
    if erased.any():
        if next(naming(store, erased), None) is not None:
            yield "dead_letters has a record that names an erased message"
        if waiting_for_erased(spark, store, erased):
            yield "pending_updates has an update of an erased message"
        yield from in_clear(store, erased)


def _plans(store: Store, erased: Erased) -> Iterator[str]:
    """What unfinished purges and previews have of something erased."""
    heads, objects = read_hidden_heads(store), store.objects()
    for plan in find_plans(store):
        if without_erased(plan.task, erased, heads) != plan.task:
            yield f"{plan.folder}/{PLAN} names an erased message"
    for name in filter(is_frozen_rows, objects.names(PURGES, recursive=True)):
        filesystem, path = objects.locate(name)
        try:
            with pq.ParquetFile(path, filesystem=filesystem) as rows:
                strange, streams = set(rows.schema_arrow.names) - set(FROZEN.names), rows.read(["stream_name"])
        except (pa.ArrowException, OSError):
            strange, streams = {name}, None
        if strange:
            yield f"{name} is not what a purge writes there"
        elif hidden_streams(streams, heads):
            yield f"{name} has the name of a stream that only erased messages had"


def _needed(store: Store, left: Mapping[str, int]) -> Mapping[str, tuple[Set[str], int, int]]:
    """The data files, first and last version of each table."""
    tables = {}
    for name in left:
        # A replay may have added a row to the audit.
        store.known.look_again(name)
        table = store.table(name)
        tables[name] = set(files_of(table)["path"].to_pylist()), left[name], table.version()
    return tables


def _rows(spark: SparkSession, store: Store, erased: Erased, going: npt.NDArray[np.int64]) -> Iterator[str]:
    """Rows of erased messages, and late copies; only files whose positions include an erased one are read.

    Another message with the id was there before the tombstone. A row that came after it is a late copy.
    """
    gone = np.setdiff1d(erased_positions(store), going)
    every = files_of(store.table("messages"))
    if not len(gone) or not every.num_rows:
        return
    around = every.filter(_around(every, gone))["path"].to_pylist()
    if not around:
        return
    start = F.unhex(F.substring("message_key", 1, 2 * HASH_BYTES)).alias("hash")
    rows = files(spark, store, around, "message_id string, global_position bigint, inserted_at timestamp")
    rows = rows.withColumns({"hash": hashed(spark, erased.key, "message_id"), "file": F.col("_metadata.file_name")})
    buried = read_table(spark, store, "tombstones").select("global_position", "erased_at", start)
    if len(going):
        under_way = F.broadcast(spark.createDataFrame(pa.table({"global_position": going})))
        rows, buried = (one.join(under_way, "global_position", "left_anti") for one in (rows, buried))
    late = F.col("b.global_position").isNull() | (F.col("inserted_at") > F.col("erased_at"))
    copies = rows.alias("r").join(buried.alias("b"), (F.col("r.hash") == F.col("b.hash")) & late, "left_semi")
    with_erased = [one.select("file") for one in (rows.join(buried, "global_position", "left_semi"), copies)]
    for row in with_erased[0].union(with_erased[1]).distinct().limit(_SHOWN + 1).collect():
        yield f"messages/{row['file']} has a row of an erased message, which a rule that erases can remove"


def _around(files: pa.Table, positions: np.ndarray) -> pa.Array:
    """Which files can have a row at one of these positions (ascending); files without statistics can."""
    first = pc.fill_null(files["min.global_position"], 0).to_numpy()
    last = pc.fill_null(files["max.global_position"], np.iinfo(np.int64).max).to_numpy()
    return pa.array(np.searchsorted(positions, first, "left") < np.searchsorted(positions, last, "right"))


def names_left(store: Store, heads: HiddenHeads) -> Iterator[str]:
    """Names of streams that had only erased messages, in heads or in the log's statistics of messages."""
    if not heads.by_key:
        return
    if any(heads.hides(name) for rows in read_named_heads(store) for name in rows["stream_name"].to_pylist()):
        yield "heads has the name of a stream that only erased messages had"
    table = store.table("messages")
    files = files_of(table)
    names = {name for column in ("min.stream_name", "max.stream_name") for name in _texts(files, column)}
    doubtful = list(filter(heads.hides, names))
    if doubtful:
        # Of a long name statistics have only the start.
        those = reduce(or_, (pc.starts_with(pc.field("stream_name"), name) for name in doubtful))
        rows = scan(table, ["stream_name"], those)
        alive = {name for batch in rows for name in pc.unique(batch["stream_name"]).to_pylist()}
        if any(not any(name.startswith(start) for name in alive) for start in doubtful):
            yield "the log of messages has the name of a stream that only erased messages had"


def _texts(files: pa.Table, column: str) -> Iterator[str]:
    if column in files.column_names:
        yield from (text for text in pc.unique(files[column]).to_pylist() if text is not None)


def _version_of(name: str) -> int:
    """The version of a log entry; -1 for any other file."""
    match = _OF_VERSION.fullmatch(sum_of(name))
    return int(match[1]) if match else -1
