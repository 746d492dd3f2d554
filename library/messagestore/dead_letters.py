"""Read a store's dead letters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from messagestore import sql
from messagestore.arguments import batch_limit, check_reasons
from messagestore.versions import Versions
from messagestore_core.store.schemas import DEAD_LETTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One record that was set aside: its bytes, its source, and why it was not stored.

    ``tries`` is how often it was set aside; ``earlier`` has time and reason of the tries before the last, oldest first.
    ``message_id``, ``stream_name`` and ``correlation_id`` are those of its message, None if the record tells none.
    """

    raw: bytes | None
    source: Mapping[str, Any]
    reason: str
    detail: str | None
    failed_at: datetime
    redriven_at: datetime | None
    redriven_by: str | None
    message_id: str | None = None
    stream_name: str | None = None
    correlation_id: str | None = None
    tries: int = 1
    earlier: Sequence[Mapping[str, Any]] = ()


_COLUMNS = tuple(DeadLetter.__dataclass_fields__)
_BYTES = frozenset({"raw"})


def dead_letter_rows(
    versions: Versions, reasons: Sequence[str], redriven: bool | None, batch_size: int | None, *, raw: bool
) -> pa.Table:
    """The rows of ``messagestore.reader.Reader.dead_letters``."""
    check_reasons(reasons)
    where = []
    if reasons:
        where.append(sql.one_of("reason", reasons))
    if redriven is not None:
        where.append(f"redriven_at is {'not ' if redriven else ''}null")
    order = ("failed_at desc", "source['uri']", "source['offset']")
    without = frozenset() if raw else _BYTES
    return versions.other("dead_letters", DEAD_LETTERS).rows(where, order, batch_limit(batch_size), _COLUMNS, without)


def dead_letters_of(rows: pa.Table) -> Iterator[DeadLetter]:
    """The dead letters of rows."""
    return (DeadLetter(**row | _tries(row)) for row in rows.to_pylist())


def _tries(row: dict[str, Any]) -> dict[str, Any]:
    earlier = [{name: refusal[name] for name in ("failed_at", "reason", "detail")} for refusal in row["earlier"] or ()]
    return {"tries": row["tries"] or 1, "earlier": earlier}
