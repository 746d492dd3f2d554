"""Selections as conditions over the columns of ``messages`` or ``dead_letters``, and their order.

An order is a key that is unique for each record, so that a key always means the same place. Also which failed messages
are due for a retry, and which of those are held back by others of their group.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.run_document import Interval, Match, ReplayTask, Selection, TimeWindow
from messagestore_core.predicate import DEAD_LETTER_COLUMNS, MESSAGE_COLUMNS
from messagestore_core.predicate.spark import condition
from messagestore_jobs.rows.matching import all_of, compiled, matches
from messagestore_jobs.rows.times import instant
from messagestore_jobs.sequences import states

Key = tuple[bool | int | str, ...]
"""A place in an order; state files have it as JSON."""
# Columns that never change; all others may change while a replay runs.
_LASTING = frozenset(
    {
        "message_id",
        "stream_name",
        "category",
        "position",
        "global_position",
        "type",
        "type_namespace",
        "type_revision",
        "correlation_id",
        "causation_id",
        "reply_to",
        "sequence_id",
        "sequence_number",
        "sequence_size",
        "sequence_end",
        "content_type",
        "payload_encoding",
        "schema_version",
        "ttl",
        "expires_at",
        "time",
        "inserted_at",
        "source",
    }
)


@dataclass(frozen=True)
class Order:
    """The expressions of a key and their types; ``near`` are conditions of a range that prune files by statistics."""

    parts: tuple[tuple[str, str], ...]
    near: Callable[[Key, Key | None], list[Column]] = lambda _start, _end: []

    @property
    def columns(self) -> list[str]:
        """The names of the key's columns in :meth:`keyed`."""
        return [f"_key{i}" for i in range(len(self.parts))]

    def keyed(self, rows: DataFrame) -> DataFrame:
        """The rows with their key."""
        keys = [F.expr(part).alias(name) for name, (part, _) in zip(self.columns, self.parts, strict=True)]
        return rows.select("*", *keys)

    def from_(self, key: Key) -> Column:
        """Whether a keyed row is at a key or after it."""
        if len(self.parts) == 1:
            return F.col(self.columns[0]) >= F.lit(key[0])
        start = F.struct(
            *(
                F.lit(value).cast(kind).alias(name)
                for name, (_, kind), value in zip(self.columns, self.parts, key, strict=True)
            )
        )
        return F.struct(*(F.col(name).cast(kind).alias(name) for name, (_, kind) in self._typed())) >= start

    def between(self, start: Key, end: Key | None) -> Column:
        """Whether a keyed row is at ``start`` or after it, and before ``end``."""
        exact = self.from_(start) if end is None else self.from_(start) & ~self.from_(end)
        return all_of([*self.near(start, end), exact])

    def _typed(self) -> list[tuple[str, tuple[str, str]]]:
        return list(zip(self.columns, self.parts, strict=True))


def _near_sequences(start: Key, end: Key | None) -> list[Column]:
    """Sequences are in order of their ids. Messages without one come last, by position if they have no number."""
    id_, first = F.col("sequence_id"), F.lit(start[1])
    if not start[0]:
        if end is None or end[0]:
            return [id_.isNull() | (id_ >= first)]
        return [id_.between(first, F.lit(end[1]))]
    conditions = [id_.isNull()]
    if start[2] == _NO_NUMBER:
        conditions.append(F.col("global_position") >= start[3])
        if end is not None:
            conditions.append(F.col("global_position") < end[3])
    return conditions


def _near_failures(start: Key, end: Key | None) -> list[Column]:
    conditions = [F.col("failed_at") >= F.timestamp_micros(F.lit(start[0]).cast("bigint"))]
    if end is not None:
        conditions.append(F.col("failed_at") <= F.timestamp_micros(F.lit(end[0]).cast("bigint")))
    return conditions


_NO_NUMBER = (1 << 63) - 1
BY_POSITION = Order((("global_position", "bigint"),))
"""Order of arrival, which is also the order of each stream. The table's files have neighbours together."""


BY_SEQUENCE = Order(
    (
        ("sequence_id IS NULL", "boolean"),
        ("coalesce(sequence_id, '')", "string"),
        (f"coalesce(sequence_number, {_NO_NUMBER})", "bigint"),
        ("global_position", "bigint"),
    ),
    _near_sequences,
)
"""Sequence by sequence, each by number; then messages without a sequence, in order of arrival."""
BEHIND_ALL: Key = (True, "", _NO_NUMBER, _NO_NUMBER)
"""A place behind all messages in order of sequences."""


BY_FAILURE = Order(
    (
        ("unix_micros(failed_at)", "bigint"),
        ("coalesce(source.uri, '')", "string"),
        ("coalesce(source.partition, -1)", "int"),
        ("coalesce(source.offset, -1)", "bigint"),
        ("sha2(coalesce(raw, X''), 256)", "string"),
    ),
    _near_failures,
)
"""Dead letters in order of failure; the key has all that identifies a dead letter."""


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
