"""The orders of a replay: each is a key that no two records share, so that a place in it means the same for ever."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import ReplayTask

Key = tuple[bool | int | str, ...]
"""A place in an order; it is written down as JSON."""


@dataclass(frozen=True)
class Order:
    """The expressions of a key and their types."""

    parts: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> list[str]:
        """What :meth:`keyed` calls the key's columns."""
        return [f"_key{i}" for i in range(len(self.parts))]

    def keyed(self, rows: DataFrame) -> DataFrame:
        """The rows with their key."""
        keys = [F.expr(part).alias(name) for name, (part, _) in zip(self.columns, self.parts, strict=True)]
        return rows.select("*", *keys)

    def from_(self, key: Key) -> Column:
        """Whether a keyed row stands at a place or behind it."""
        if len(self.parts) == 1:
            return F.col(self.columns[0]) >= F.lit(key[0])
        place = F.struct(
            *(
                F.lit(value).cast(kind).alias(name)
                for name, (_, kind), value in zip(self.columns, self.parts, key, strict=True)
            )
        )
        return F.struct(*(F.col(name).cast(kind).alias(name) for name, (_, kind) in self._typed())) >= place

    def between(self, start: Key, end: Key | None) -> Column:
        """Whether a keyed row stands at ``start`` or behind it, and before ``end``."""
        return self.from_(start) if end is None else self.from_(start) & ~self.from_(end)

    def _typed(self) -> list[tuple[str, tuple[str, str]]]:
        return list(zip(self.columns, self.parts, strict=True))


BY_POSITION = Order((("global_position", "bigint"),))
"""Order of arrival, which is the order of each stream too. Files of the table hold neighbours in it."""

BY_SEQUENCE = Order(
    (
        ("sequence_id IS NULL", "boolean"),
        ("coalesce(sequence_id, '')", "string"),
        ("coalesce(sequence_number, 9223372036854775807)", "bigint"),
        ("global_position", "bigint"),
    )
)
"""Sequence by sequence, each by number; then what belongs to none, as it arrived."""

BY_FAILURE = Order(
    (
        ("unix_micros(failed_at)", "bigint"),
        ("coalesce(source.uri, '')", "string"),
        ("coalesce(source.partition, -1)", "int"),
        ("coalesce(source.offset, -1)", "bigint"),
        ("sha2(coalesce(raw, X''), 256)", "string"),
    )
)
"""Dead letters as they were set aside; what makes two of them the same is in the key."""


def order_of(task: ReplayTask) -> Order:
    """The order that a replay is cut into chunks by, and sent in."""
    if task.origin == "DeadLetters":
        return BY_FAILURE
    return BY_SEQUENCE if task.order == "Sequence" else BY_POSITION
