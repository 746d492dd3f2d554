"""Orders of a replay: a key that is unique for each record, so that a key always means the same place."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.frozen.replays import Key
from messagestore_jobs.rows.matching import all_of


@dataclass(frozen=True)
class Order:
    """The expressions of a key and their types; ``near`` are conditions of a range that prune files by statistics."""

    parts: tuple[tuple[str, str], ...]
    near: Callable[[Key, Key | None], list[Column]] = lambda _start, _end: []

    @property
    def columns(self) -> list[str]:
        """The names of the key's columns in ``keyed``."""
        return [f"_key{i}" for i in range(len(self.parts))]

    def keyed(self, rows: DataFrame) -> DataFrame:
        """The rows with their key."""
        keys = [F.expr(part).alias(name) for name, (part, _) in zip(self.columns, self.parts, strict=True)]
        return rows.select("*", *keys)

    def from_(self, key: Key) -> Column:
        """Whether a keyed row is at a key or after it."""
        if len(self.parts) == 1:
            return F.col(self.columns[0]) >= F.lit(key[0])
        typed = [(name, kind, value) for name, (_, kind), value in zip(self.columns, self.parts, key, strict=True)]
        start = F.struct(*(F.lit(value).cast(kind).alias(name) for name, kind, value in typed))
        return F.struct(*(F.col(name).cast(kind).alias(name) for name, kind, _ in typed)) >= start

    def between(self, start: Key, end: Key | None) -> Column:
        """Whether a keyed row is at ``start`` or after it, and before ``end``."""
        exact = self.from_(start) if end is None else self.from_(start) & ~self.from_(end)
        return all_of([*self.near(start, end), exact])


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
