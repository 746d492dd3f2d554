"""Begin a replay: where it sends, what it reads, its frozen selection; and its rows in the audit.

A run that goes on has one row for what it has done in an hour: until then the cursor keeps that.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.clock import now
from messagestore_core.contract.destinations import FilesDestination, HttpDestination, KafkaDestination
from messagestore_core.contract.replay import ReplayOutcome, ReplayProgress, ReplayTask, Selection
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.store.audit import note
from messagestore_core.store.cursors import Cursor, Unnoted
from messagestore_core.store.delta_log import table_state
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import exists
from messagestore_core.store.tombstones import erased_positions
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Frozen, digest
from messagestore_jobs.replay.chunks import Delivery
from messagestore_jobs.replay.files import FilesDelivery
from messagestore_jobs.replay.freeze import freeze, freeze_order, nothing_selected
from messagestore_jobs.replay.http.delivery import HttpDelivery
from messagestore_jobs.replay.kafka import KafkaDelivery
from messagestore_jobs.replay.selection import check
from messagestore_jobs.replay.source import Source, is_gone
from messagestore_jobs.replay.stream import StreamDelivery
from messagestore_jobs.replay.waiting import Positions, are_of_round, count_of_round, of_round, without_erased

_NO_SELECTORS = {"held_back", "grouped_by", "sequence_timeout", "waiting"}
REPLAY = "Replay"
"""The action of a replay of messages in the audit."""
_NOTED_EVERY = timedelta(hours=1)
_NO_PROGRESS = {"after", "since", "selected", "bytes"}


def with_task(run: Run, changes: dict[str, object]) -> Run:
    """The run with a changed task."""
    task = task_of(run).model_copy(update=changes)
    return replace(run, document=run.document.model_copy(update={"task": task}))


def task_of(run: Run) -> ReplayTask:
    """The task of a replay."""
    task = run.document.task
    assert isinstance(task, ReplayTask)
    return task


def delivery_of(run: Run) -> Delivery:
    """The delivery to the task's destination."""
    task = task_of(run)
    if isinstance(task.to, FilesDestination):
        return FilesDelivery(run, task.job_id, task.to)
    if isinstance(task.to, KafkaDestination):
        return KafkaDelivery(run, task, task.to)
    if isinstance(task.to, HttpDestination):
        return HttpDelivery(run, task, task.to)
    return StreamDelivery(run, task, task.to)


def begin(run: Run, delivery: Delivery) -> tuple[Source, Frozen]:
    """The source and the frozen selection, which is made if there is none yet."""
    frozen = delivery.state.frozen(task_of(run), run.store.uri)
    if frozen is not None and delivery.state.is_half_removed(frozen):
        delivery.state.remove()
    elif frozen is not None:
        return _again(run, frozen, delivery), frozen
    check(task_of(run).select, task_of(run).origin)
    destination_id, source = delivery.check(), source_of(run, None)
    run.progress.step("select")
    frozen = _frozen(source, run, delivery, destination_id)
    if task_of(run).subscription is not None:
        frozen = with_missed(source, frozen)
    delivery.state.freeze(frozen)
    return source, frozen


def _again(run: Run, frozen: Frozen, delivery: Delivery) -> Source:
    """The source of a selection that was frozen before, maybe by an earlier release, which took other predicates."""
    source, task = source_of(run, frozen), task_of(run)
    if frozen.listed:
        source.use_list(delivery.state.selected_uri)
        return source
    try:
        check(task.select, task.origin)
    except RunFailedError:
        if not source.use_positions(frozen, delivery.state.order_uri):
            raise
    return source


def _frozen(source: Source, run: Run, delivery: Delivery, destination_id: str | None) -> Frozen:
    task_digest = digest(task_of(run), run.store.uri)
    if not exists(run.store):
        return Frozen(
            task=task_digest,
            request_digest=task_of(run).request_digest,
            destination_id=destination_id,
            run=run.run,
            at=source.now,
            selection=nothing_selected(),
            listed=False,
            end=None,
            splits=(),
        )
    if source.listed:
        source.list_selected(delivery.state)
    details = {"destination_id": destination_id, "withheld": source.withheld()}
    frozen = delivery.fit(source, freeze(source, run.run, task_digest).model_copy(update=details))
    if frozen.restores and source.task.select == Selection():
        erased = _erased(source, source.frozen_table, erased_positions(source.store))
        frozen = frozen.model_copy(update={"erased": erased})
    return freeze_order(source, frozen, delivery.state)


def with_missed(source: Source, frozen: Frozen) -> Frozen:
    """The frozen range of a subscription, with how many of its messages have left the store before."""
    select = source.task.select
    rows = of_round(source.frozen_table, select).select("global_position")
    erased = erased_positions(source.store)
    erased = erased[are_of_round(erased, select)]
    if select.waiting is not None:
        # It selects none of them, see ``Source``.
        rows = without_erased(rows, erased)
    # Not where a round is cut short: it was frozen for another task, and more positions.
    is_whole = frozen.task == digest(source.task, source.store.uri)
    try:
        present = frozen.selection.messages if is_whole and _takes_all(source) else rows.count()
    except Exception as error:
        if not is_gone(error):
            raise
        # An erasure has removed the version, and with it what was missing in it.
        return frozen.model_copy(update={"missed": 0, "erased": 0})
    gone = _erased(source, rows, erased)
    return frozen.model_copy(update={"missed": count_of_round(select) - present - gone, "erased": gone})


def _takes_all(source: Source) -> bool:
    """Whether all messages of a range of positions are selected."""
    others = source.task.select.model_copy(update={"global_positions": None})
    return others == Selection() and not source.sends_records


def _erased(source: Source, rows: DataFrame, erased: Positions) -> int:
    """How many of these erased messages are not among the rows."""
    if not len(erased):
        return 0
    tombstones = source.spark.createDataFrame(pa.table({"global_position": erased}))
    return len(erased) - rows.join(F.broadcast(tombstones), "global_position", "left_semi").count()


def source_of(run: Run, frozen: Frozen | None) -> Source:
    """What a frozen selection reads; None: the newest version."""
    task, clock = task_of(run), partial(now, run.document)
    if frozen is not None:
        return Source(run.spark, run.store, task, frozen.selection.table_version, frozen.at, clock)
    name = "dead_letters" if task.origin == "DeadLetters" else "messages"
    version = run.store.table(name).version() if exists(run.store) else 0
    return Source(run.spark, run.store, task, version, run.as_of, clock)


def note_replay(run: Run, outcome: ReplayOutcome) -> ReplayOutcome:
    """Note an ended replay once in the audit of the store that was read; return the outcome unchanged."""
    document, store, task = run.document, run.store, task_of(run)
    if outcome.complete and exists(store):
        counts = counts_of(store, outcome.selection.messages, outcome.progress)
        fields = {"counts": counts, "bytes": outcome.selection.bytes, "once": True}
        if task.origin == "Messages":
            fields["version_before"] = outcome.selection.table_version
        note(store, document, REPLAY if task.origin == "Messages" else "Redrive", detail_of(document, task), **fields)
    return outcome


def counts_of(store: HeldStore, selected: int, sent: ReplayProgress) -> dict[str, int]:
    """The counts of a row in the audit."""
    state = table_state(store)
    rare = {"missed": sent.missed, "expired": sent.expired, "setAside": sent.set_aside, "withheld": sent.withheld}
    return {
        "selected": selected,
        "replayed": sent.replayed,
        "failed": sent.failed,
        "erased": sent.erased,
        "lost": sent.lost,
        **{name: count for name, count in rare.items() if count},
        "messagesAfter": state.messages,
        "deadLettersAfter": state.dead_letters,
    }


def detail_of(document: RunDocument, task: ReplayTask) -> dict[str, Any]:
    """The names of selecting fields, and a digest of the task, as values may name what is erased one day."""
    given = Selection.model_dump(task.select, by_alias=True, exclude_defaults=True, exclude=_NO_SELECTORS)
    return {
        "job": task.job_id,
        "origin": task.origin,
        "select": sorted(given),
        "destination": _destination(task),
        "asked": digest(task, document.table.uri),
    }


def _destination(task: ReplayTask) -> str:
    to = task.to
    if isinstance(to, FilesDestination):
        return to.uri
    if isinstance(to, HttpDestination):
        return to.url
    return f"kafka:{to.topic or 'topicFrom'}" if isinstance(to, KafkaDestination) else to.table.uri


def with_unnoted(run: Run, cursor: Cursor, counts: Mapping[str, int]) -> Cursor:
    """The cursor with more to note, counted since its position of before."""
    before = cursor.unnoted or Unnoted(after=cursor.global_position, since=now(run.document))
    sums = {name: getattr(before, name) + count for name, count in counts.items()}
    return cursor.model_copy(update={"unnoted": before.model_copy(update=sums)})


def is_due(run: Run, cursor: Cursor) -> bool:
    """Whether something waits for its row for an hour."""
    return cursor.unnoted is not None and now(run.document) - cursor.unnoted.since >= _NOTED_EVERY


def note_unnoted(run: Run, cursor: Cursor) -> Cursor:
    """Add a row to the audit; of one range there is one, whatever crashes. Return the cursor without it, to write."""
    unnoted = cursor.unnoted
    if unnoted is None:
        return cursor
    place = {"after": unnoted.after, "until": cursor.global_position, "resets": cursor.resets}
    if cursor.sequences is not None:
        # A round may send what waited, and not move.
        place["rounds"] = cursor.rounds
    counts = counts_of(run.store, unnoted.selected, ReplayProgress(**unnoted.model_dump(exclude=_NO_PROGRESS)))
    detail = {**detail_of(run.document, task_of(run)), **place}
    note(run.store, run.document, REPLAY, detail, counts=counts, bytes=unnoted.bytes, once=True)
    return cursor.model_copy(update={"unnoted": None})
