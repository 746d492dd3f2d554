"""Selections as conditions over the columns of ``messages`` or ``dead_letters``.

Also which failed messages are due for a retry, and which of those are held back by others of their group.
"""

from datetime import datetime
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.run_document import Interval, Match, ReplayTask, Selection, TimeWindow
from messagestore_core.envelope import READ
from messagestore_core.predicate import DEAD_LETTER_COLUMNS, MESSAGE_COLUMNS
from messagestore_core.predicate.spark import condition
from messagestore_jobs.frozen.orders import BY_FAILURE, BY_POSITION, BY_SEQUENCE, Order
from messagestore_jobs.rows.matching import all_of, compiled, instant, matches
from messagestore_jobs.sequences import states

_LASTING = frozenset(field.column for field in READ if field.lasting)
"""The columns that never change; all others may change while a replay runs."""


def order_of(task: ReplayTask) -> Order:
    """The order in which a replay is cut into chunks and sent."""
    if task.origin == "DeadLetters":
        return BY_FAILURE
    return BY_SEQUENCE if task.order == "Sequence" else BY_POSITION


def check(selection: Selection, origin: str) -> None:
    """Refuse a predicate that may not run.

    Raises:
        RunFailedError: it is refused; the message says which part and why.
    """
    if selection.where is not None:
        columns = DEAD_LETTER_COLUMNS if origin == "DeadLetters" else MESSAGE_COLUMNS
        compiled(selection.where, columns, "select.where")


def lasts(selection: Selection) -> bool:
    """Whether the selection always matches the same messages, even if the lifecycle or scrubs change them."""
    if selection.statuses or selection.headers or selection.due_for_retry:
        return False
    if selection.sequences is not None and selection.sequences.complete_only:
        return False
    return selection.where is None or compiled(selection.where).columns <= _LASTING


def selected_messages(messages: DataFrame, selection: Selection, now: datetime) -> DataFrame:
    """The messages that match all selectors; the limit is applied later, in order."""
    rows = messages.where(all_of([matches(_match(selection)), *_within(selection)]))
    if selection.due_for_retry:
        rows = due_for_retry(rows, messages, selection.held_back, now)
    if selection.sequences is not None and selection.sequences.complete_only:
        ids = selection.sequences.ids
        candidates = messages.where(F.col("sequence_id").isin(*ids)) if ids else messages
        rows = rows.join(states(candidates).where("complete"), "sequence_id", "left_semi")
    return rows.select(*messages.columns)


def selected_dead_letters(dead_letters: DataFrame, selection: Selection) -> DataFrame:
    """The dead letters that match all selectors, without those that were redriven."""
    conditions = [F.col("redriven_at").isNull(), *_window("failed_at", selection.time_window)]
    if selection.reasons:
        conditions.append(F.col("reason").isin(*selection.reasons))
    if selection.where is not None:
        conditions.append(condition(compiled(selection.where, DEAD_LETTER_COLUMNS)))
    return dead_letters.where(all_of(conditions))


def due_for_retry(
    rows: DataFrame, messages: DataFrame, held_back: Literal["Retrying", "Failed"] | None, now: datetime
) -> DataFrame:
    """The ``rows`` that have failed, are due and have not expired.

    With ``held_back`` only the first of each group is due: of all messages of a correlation id, the earliest that has
    failed or is tried again. Those that failed for good count only with ``Failed``.

    Args:
        rows: messages, selected or not.
        messages: all messages.
        held_back: which messages hold others back.
        now: the time of the run.
    """
    lasts = F.col("expires_at").isNull() | (F.col("expires_at") > instant(now))
    due = rows.where((F.col("status") == "FAILED") & (F.col("next_retry_at") <= instant(now)) & lasts)
    if held_back is None:
        return due
    first = (
        messages.where(_has_failed(held_back) & F.col("correlation_id").isNotNull())
        .groupBy("correlation_id")
        .agg(F.min("global_position").alias("_first"))
    )
    grouped = due.join(first, "correlation_id", "left").where("_first IS NULL OR _first = global_position")
    return grouped.select(*rows.columns)


def _match(selection: Selection) -> Match:
    return Match(
        stream_names=selection.stream_names,
        categories=selection.categories,
        types=selection.types,
        statuses=selection.statuses,
        correlation_ids=selection.correlation_ids,
        sequence_ids=selection.sequences.ids if selection.sequences else (),
        message_ids=selection.message_ids,
        headers=selection.headers,
        where=selection.where,
    )


def _within(selection: Selection) -> list[Column]:
    return [
        *_window("time", selection.time_window),
        *_interval("global_position", selection.global_positions),
        *_interval("position", selection.positions),
    ]


def _window(column: str, window: TimeWindow | None) -> list[Column]:
    conditions = []
    if window is not None and window.from_ is not None:
        conditions.append(F.col(column) >= instant(window.from_))
    if window is not None and window.to is not None:
        conditions.append(F.col(column) < instant(window.to))
    return conditions


def _interval(column: str, interval: Interval | None) -> list[Column]:
    conditions = []
    if interval is not None and interval.from_ is not None:
        conditions.append(F.col(column) >= interval.from_)
    if interval is not None and interval.to is not None:
        conditions.append(F.col(column) <= interval.to)
    return conditions


def _has_failed(held_back: str) -> Column:
    failed = F.col("status") == "FAILED"
    if held_back == "Retrying":
        failed = failed & F.col("next_retry_at").isNotNull()
    # Only the first comparison prunes files by statistics.
    return (F.col("status") >= "FAILED") & (failed | ((F.col("status") == "PROCESSING") & (F.col("retries") > 0)))
