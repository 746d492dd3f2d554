"""Apply updates to the lifecycle columns of their messages, in commits with numbers, so that each is made once.

A message without a retry left can become a dead letter too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.ingest import Retry, UpdateCounts
from messagestore_core.contract.run_document import Resource
from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.audit import AuditEntry, add_audit
from messagestore_core.store.dead_letters import NAME_COLUMNS, dead_letter_keys, set_aside, set_aside_for
from messagestore_core.store.delta_log import CommitNote, committed_batch, empty_commit
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.history import write_history
from messagestore_core.store.schemas import MESSAGES
from messagestore_core.store.tombstones import Erased, open_erased
from messagestore_jobs.index.keys import Flags
from messagestore_jobs.lifecycle.history import history_rows
from messagestore_jobs.lifecycle.transitions import Change, Folded, LifecycleState, StoredMessage, Update, fold
from messagestore_jobs.lifecycle.updates import to_dead_letters
from messagestore_jobs.native import with_native
from messagestore_jobs.rows.messages import MERGE, Bounds, committing, merging, read_messages
from messagestore_jobs.session import settings
from messagestore_jobs.source.records import portion_bytes, portions

_CHANGED = ("global_position", "status", "retries", "next_retry_at", "updated_at", "result", "error")
CHANGES = pa.schema([*map(MESSAGES.field, _CHANGED), pa.field("has_outcome", pa.bool_())])
"""Changes of messages' lifecycle columns; ``result`` and ``error`` change only with has_outcome."""
_ONCE = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
_BROADCAST_ROWS = 2_000_000
_RECORD_BYTES = 1024
"""The size assumed for the names of a record's fields, and for numbers and times."""
_DETAIL = "it failed and has no retry left"

COLUMNS = (
    "message_id", "global_position", "inserted_date", "status", "retries", "next_retry_at", "expires_at"
)  # fmt: skip


@dataclass
class LifecycleRun:
    """One run over one store; tombstones are read once, at the first use.

    ``days_of`` gives the days on which messages with these ids were inserted, ``purged`` which of them are
    remembered as purged at a time.
    """

    spark: SparkSession
    run: str
    store: HeldStore
    retry: Retry
    resource: Resource
    days_of: Callable[[pa.Array], list[date]]
    purged: Callable[[pa.Array, datetime], Flags]

    @cached_property
    def erased(self) -> Erased:
        """The tombstones."""
        return open_erased(self.store)

    def noted(self, note: CommitNote, counts: UpdateCounts) -> CommitNote:
        """The note of a commit of this run, with these counts added."""
        return note.model_copy(update={"run": self.run, "updates": note.updates + counts})


def merge_once(
    spark: SparkSession,
    store: HeldStore,
    source: DataFrame,
    bounds: Bounds,
    changes: Mapping[str, Column],
    step: tuple[str, int],
    note: CommitNote,
) -> None:
    """Change the messages whose global position is in ``source``, in a commit that ends a step, not committed yet.

    In changes, expressions by column of ``messages``, the source is ``now`` and the messages are ``m``. The note has
    the totals after the commit.
    """
    merge = merging(spark, store, source, bounds)
    with settings(spark, MERGE), ending(spark, store, "lifecycle", step, note):
        merge.whenMatchedUpdate(set=dict(changes)).execute()


@contextmanager
def ending(spark: SparkSession, store: HeldStore, name: str, step: tuple[str, int], note: CommitNote) -> Iterator[None]:
    """Make the change of ``messages`` in the block an external write ``name``, whose commit ends a step.

    Raises:
        RunFailedError: the step is not committed afterwards.
    """
    app_id, number = step
    once = dict(zip(_ONCE, (app_id, str(number)), strict=True))
    with settings(spark, once), committing(spark, store, name, note):
        yield
    if committed_batch(store, app_id) != number:
        raise RunFailedError("CommitLost", f"step {number} of {app_id} is not in the table after its commit; try again")


def change_rows(changes: Mapping[str, Change], updates: pa.Table, now: datetime) -> pa.Table:
    """Rows of CHANGES; ``updates`` has columns result and error."""
    listed = list(changes.values())
    outcomes = pa.array([change.outcome for change in listed], pa.int64())
    columns = {
        "global_position": [change.message.global_position for change in listed],
        "status": [change.state.status for change in listed],
        "retries": [change.state.retries for change in listed],
        "next_retry_at": [change.state.next_retry_at for change in listed],
        "updated_at": [now] * len(listed),
        "has_outcome": outcomes.is_valid(),
        "result": updates["result"].combine_chunks().take(outcomes),
        "error": updates["error"].combine_chunks().take(outcomes),
    }
    return pa.table([pa.array(columns[f.name], f.type) for f in CHANGES], schema=CHANGES)


def without_erased(context: LifecycleRun, updates: pa.Table) -> pa.Table:
    """The updates that found no message, without those of erased messages, of which nothing is kept."""
    if not updates.num_rows:
        return updates
    erased = context.erased.contains(updates["message_id"].combine_chunks())
    return updates.filter(pa.array(~erased)) if erased.any() else updates


def still_unknown(context: LifecycleRun, what: Folded, updates: pa.Table, at: datetime) -> tuple[int, ...]:
    """The updates whose messages may still come: those of purged messages that are remembered are stale.

    ``what`` was folded from the updates; of them column message_id is taken.
    """
    if not what.unknown:
        return ()
    ids = updates["message_id"].take(pa.array(what.unknown, pa.int64())).combine_chunks()
    return tuple(np.array(what.unknown)[~context.purged(ids, at)].tolist())


def folded(context: LifecycleRun, updates: pa.Table, at: datetime, after: int | None = None) -> Folded:
    """Fold updates to changes of their messages; with ``after`` only of those behind that global position.

    The updates are in order of arrival; columns message_id, status, time and attempt.
    """
    if not updates.num_rows:
        return Folded({}, (), 0, ())
    ids = updates["message_id"]
    messages = find_messages(context, ids.combine_chunks(), after)
    said = map(Update, *(updates[name].to_pylist() for name in ("status", "time", "attempt")))
    return fold(zip(ids.to_pylist(), said, strict=True), messages, context.retry, at)


def commit(
    context: LifecycleRun, what: Folded, updates: pa.Table, at: datetime, step: tuple[str, int], note: CommitNote
) -> CommitNote:
    """Make the changes, even without any, in a commit that ends a step, unless it was made before; return its note."""
    if context.retry.set_aside and what.exhausted:
        set_exhausted_aside(context, what.exhausted, at, f"{step[0]}/{step[1]}")
    if what.acts:
        _audit_acts(context, what, at, f"{step[0]}/{step[1]}")
    kept = what.steps if context.store.keeps_history else ()
    write_history(context.store, history_rows(context.run, kept, updates, at), step)
    if committed_batch(context.store, step[0]) >= step[1]:
        return note
    if what.changes:
        _commit_changes(context, what.changes, updates, at, step, note)
    else:
        _commit_nothing(context.store, step, note)
    return note


def _commit_changes(
    context: LifecycleRun,
    changes: Mapping[str, Change],
    updates: pa.Table,
    at: datetime,
    step: tuple[str, int],
    note: CommitNote,
) -> None:
    """Only files with one of the messages are rewritten."""
    messages = [change.message for change in changes.values()]
    positions = [message.global_position for message in messages]
    bounds = Bounds(sorted({message.inserted_date for message in messages}), min(positions), max(positions))
    source = context.spark.createDataFrame(change_rows(changes, updates, at))
    if len(changes) <= _BROADCAST_ROWS:
        source = F.broadcast(source)
    merge_once(context.spark, context.store, source, bounds, _set(), step, note)


def set_exhausted_aside(context: LifecycleRun, messages: Sequence[StoredMessage], at: datetime, batch: str) -> None:
    """Make dead letters of messages, once per ``batch``, as Native records; the messages stay in the store, as FAILED.

    The driver holds some of the records at a time. They don't have payloads of claim checks. An earlier try of the
    batch may have set some aside; the record of such a message may have changed since, as it may have been redelivered.
    """
    store, days = context.store, sorted({message.inserted_date for message in messages})
    positions = pa.array([message.global_position for message in messages], pa.int64())
    exhausted = _among(context, days, positions).select("global_position", "source", _size().alias("size")).toArrow()
    exhausted = exhausted.sort_by("global_position")
    sources = _source_positions(exhausted["source"])
    dead_letters = set_aside_for(store, {uri for uri, *_ in sources}, (DeadLetterReason.RETRIES_EXHAUSTED,))
    known = {key[:3] for key in dead_letter_keys(dead_letters.filter(pc.equal(dead_letters["batch"], batch)))}
    new = np.array([source not in known for source in sources], np.bool_)
    numbers = _together(portions(exhausted["size"].to_numpy(), portion_bytes(context.spark)), sources)
    for number in np.unique(numbers[new]):
        some = exhausted["global_position"].filter(pa.array(new & (numbers == number))).combine_chunks()
        set_aside(store, _dead_letters(with_native(_among(context, days, some)), at, batch))


_SourcePosition = tuple[str, int | None, int]
"""The uri, partition and offset of a record."""


def _source_positions(source: pa.ChunkedArray) -> list[_SourcePosition]:
    fields = (pc.struct_field(source, name).to_pylist() for name in ("uri", "partition", "offset"))
    return list(zip(*fields, strict=True))


def _together(numbers: npt.NDArray[np.int64], sources: Sequence[_SourcePosition]) -> npt.NDArray[np.int64]:
    """The numbers of portions, the same for records from one place, as what was set aside is known by its place.

    A file that replaces another has records at the same places.
    """
    first: dict[_SourcePosition, int] = {}
    return np.array([first.setdefault(*one) for one in zip(sources, numbers.tolist(), strict=True)], np.int64)


def _among(context: LifecycleRun, days: list[date], positions: pa.Array) -> DataFrame:
    """The messages with these global positions, of which there is at least one."""
    least, most = pc.min_max(positions).as_py().values()
    wanted = context.spark.createDataFrame(pa.table({"global_position": positions}))
    rows = read_messages(context.spark, context.store).where(Bounds(days, least, most).condition())
    return rows.join(F.broadcast(wanted), "global_position", "left_semi")


def _size() -> Column:
    """About the bytes of a message's Native record."""
    texts = [F.octet_length(name) for name in MESSAGES.names if pa.types.is_string(MESSAGES.field(name).type)]
    payload = F.when(F.col("payload_uri").isNull(), F.col("payload_size"))
    sizes = [*texts, payload, F.octet_length("result"), F.octet_length(F.to_json("headers"))]
    return sum((F.coalesce(size, F.lit(0)) for size in sizes), F.lit(_RECORD_BYTES))


def _dead_letters(messages: DataFrame, at: datetime, batch: str) -> pa.Table:
    ordered = messages.orderBy("global_position")
    why = F.lit(str(DeadLetterReason.RETRIES_EXHAUSTED)).alias("reason"), F.lit(_DETAIL).alias("detail")
    records = ordered.select(F.col("value").cast("binary").alias("raw"), "source", *NAME_COLUMNS, *why).toArrow()
    return to_dead_letters(records, records["source"], at, batch)


def find_messages(context: LifecycleRun, message_ids: pa.Array, after: int | None = None) -> dict[str, StoredMessage]:
    """The messages in the store by id; of several with the same id the newest that is not erased.

    It takes one pass over COLUMNS of the days on which they were inserted. With ``after`` files without any message
    behind that global position are not read.
    """
    ids = message_ids.unique()
    days = context.days_of(ids)
    if not days:
        return {}
    wanted = context.spark.createDataFrame(pa.table({"message_id": ids}))
    messages = read_messages(context.spark, context.store).where(F.col("inserted_date").isin(*days)).select(*COLUMNS)
    if after is not None:
        messages = messages.where(F.col("global_position") > F.lit(after))
    matching = messages.join(F.broadcast(wanted), "message_id", "left_semi").select(*COLUMNS).toArrow()
    # A purge that broke off may not have removed what it erases yet.
    erased = context.erased.contains_messages(matching["message_id"], matching["global_position"])
    rows = matching.filter(pa.array(~erased)).sort_by("global_position").to_pylist()
    return {row["message_id"]: message_of(row) for row in rows}


def message_of(row: dict[str, Any]) -> StoredMessage:
    """The message of a row of COLUMNS."""
    state = LifecycleState(row["status"], row["retries"], row["next_retry_at"], row["expires_at"])
    return StoredMessage(row["message_id"], row["global_position"], row["inserted_date"], state)


def _set() -> dict[str, Column]:
    has_outcome = F.col("now.has_outcome")
    set_ = {name: F.col(f"now.{name}") for name in ("status", "retries", "next_retry_at", "updated_at")}
    for name in ("result", "error"):
        set_[name] = F.when(has_outcome, F.col(f"now.{name}")).otherwise(F.col(f"m.{name}"))
    return set_


def _commit_nothing(store: HeldStore, step: tuple[str, int], note: CommitNote) -> None:
    """A commit that ends a step and touches no file."""
    table = store.open_to_write("messages")
    properties = store.commit_properties(note, Transaction(*step))
    properties.max_commit_retries = 0
    with store.step("lifecycle"):
        empty_commit(table, "messages", properties)


_ACTIONS = {"RETRY": ("Retry", "retried"), "PAUSE": ("Pause", "paused"), "RESUME": ("Resume", "resumed")}


def _audit_acts(context: LifecycleRun, what: Folded, at: datetime, batch: str) -> None:
    """Note who was acted on in the audit, before the commit, so that none is missing.

    Each run of a repeated batch has rows.
    """
    version = context.store.table("messages").version()
    for act, count in sorted(what.acts.items()):
        action, name = _ACTIONS[act]
        rules, counts = {"batch": batch}, {name: count}
        add_audit(
            context.store, AuditEntry(at, action, context.run, context.resource, rules, version, version + 1, counts)
        )
