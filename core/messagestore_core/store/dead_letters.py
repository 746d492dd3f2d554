"""The ``dead_letters`` table: one row for each record that was set aside."""

import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.scan import scan_in
from messagestore_core.store.schemas import DEAD_LETTERS, REFUSAL, SOURCE, UTC, literal

_EARLIER = 10
"""How many refusals before the last a dead letter keeps."""
DeadLetterKey = tuple[str, int | None, int, bytes | None]
"""What makes two dead letters the same: uri, partition, offset, and the SHA-256 of the bytes."""
NAME_COLUMNS = ("message_id", "stream_name", "correlation_id")
"""The columns by which an erasure or a look-up finds a dead letter; null where its record doesn't tell them."""
DEAD_LETTER_KEY = pa.schema(
    [("uri", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("digest", pa.binary())]
)
"""The same as columns."""

READ_AGAIN = "readAgain/"
"""How ``redriven_by`` begins of a dead letter that is closed because its file was read again without it."""
_STATE = ("reason", "detail", "batch", "redriven_by")
_WHERE_AND_WHY = {
    **{name: f"source['{name}']" for name in ("uri", "partition", "offset")},
    **{name: name for name in ("reason", "detail", "batch")},
}
_DEAD_LETTERS_AT_ONCE = 64
_SAME = " AND ".join(
    f"({given.format('t')} IS NOT DISTINCT FROM {given.format('s')})"
    for given in ("{}.raw", *(f"{{}}.source['{name}']" for name in SOURCE.names))
)
"""Whether rows t and s are the same dead letter."""


class SourcePosition(NamedTuple):
    """Where a record was read."""

    uri: str
    partition: int | None
    offset: int


class Redrive(NamedTuple):
    """When a redrive began, its resource, and its source id in the target."""

    at: datetime
    by: str
    source: str


class DeadLettersBefore:
    """The table of dead letters as a run finds it."""

    def __init__(self, store: Store) -> None:
        self._store, self._at = store, store.known.of("dead_letters")

    def changed(self) -> bool:
        """Whether this process has changed the table since, or opened it for the first time."""
        return self._store.known.of("dead_letters") != self._at


def new_dead_letters(columns: Mapping[str, pa.Array | pa.ChunkedArray], failed_at: datetime, batch: str) -> pa.Table:
    """Rows of DEAD_LETTERS that a batch sets aside; columns that are not given are null. ``reason`` must be given."""
    count = len(columns["reason"])
    given = {
        **columns,
        "failed_at": pa.repeat(pa.scalar(failed_at, UTC), count),
        "batch": pa.repeat(pa.scalar(batch), count),
    }
    return pa.table({name: given.get(name, pa.nulls(count)) for name in DEAD_LETTERS.names}).cast(DEAD_LETTERS)


def source_column(records: pa.Table) -> pa.StructArray:
    """Column ``source`` of records that have its fields as columns."""
    columns = [records[field.name].combine_chunks().cast(field.type) for field in SOURCE]
    return pa.StructArray.from_arrays(columns, fields=list(SOURCE))


def dead_letter_keys(rows: pa.Table) -> list[DeadLetterKey]:
    """The key of each row (schema DEAD_LETTERS, or one that has LETTER_KEY)."""
    columns = rows if "digest" in rows.column_names else _key_columns(rows)
    return list(zip(*(columns[name].to_pylist() for name in DEAD_LETTER_KEY.names), strict=True))


def _key_columns(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    digests = [hashlib.sha256(raw.as_buffer()).digest() if raw.is_valid else None for raw in rows["raw"]]
    source = [pc.struct_field(rows["source"], name) for name in DEAD_LETTER_KEY.names[:-1]]
    return pa.table([*source, digests], names=DEAD_LETTER_KEY.names).cast(DEAD_LETTER_KEY)


def set_aside_before(store: Store, uris: set[str]) -> dict[DeadLetterKey, str]:
    """The dead letters from these source URIs: their keys, and the batch that set each aside."""
    if not uris:
        return {}
    rows = _from(store, uris)
    return dict(zip(dead_letter_keys(rows), rows["batch"].to_pylist(), strict=True))


def set_aside_for(store: Store, uris: set[str], reasons: Sequence[DeadLetterReason]) -> pa.Table:
    """The dead letters from these source URIs with one of the reasons: columns LETTER_KEY, reason and batch."""
    return _from(store, uris, pc.field("reason").isin(pa.array([str(reason) for reason in reasons])))


def _from(
    store: Store, uris: set[str], condition: pc.Expression | None = None, columns: Sequence[str] = ("reason", "batch")
) -> pa.Table:
    """Read a few dead letters at a time, as each may have many bytes."""
    wanted = pc.field("source", "uri").isin(pa.array(sorted(uris)))
    batches = scan_in(
        store,
        "dead_letters",
        ["source", "raw", *columns],
        wanted if condition is None else wanted & condition,
        batch_size=_DEAD_LETTERS_AT_ONCE,
        batch_readahead=1,
        fragment_readahead=1,
    )
    schema = pa.schema([*DEAD_LETTER_KEY, *(pa.field(name, pa.string()) for name in columns)])
    matching = [
        pa.table([*_key_columns(b).columns, *(b[name] for name in columns)], names=schema.names).cast(schema)
        for b in batches
    ]
    return pa.concat_tables([schema.empty_table(), *matching])


def uris_of_cut_dead_letters(store: Store) -> set[str]:
    """The source URIs of dead letters that have, or may have, only a part of their record's bytes."""
    uri, reason = pc.field("source", "uri"), pc.field("reason")
    # Of an earlier release: a compressed file may be cut short, or hold a line that is none of JSON.
    doubtful = pc.field("cut").is_null() & (reason == str(DeadLetterReason.UNPARSEABLE)) & pc.ends_with(uri, ".gz")
    cut = pc.field("cut") | (reason == str(DeadLetterReason.RECORD_TOO_LARGE)) | doubtful
    rows = scan_in(store, "dead_letters", ["source"], cut).read_all()
    return set(pc.struct_field(rows["source"], "uri").to_pylist()) - {None}


def source_positions_of(store: Store, batch: str) -> set[SourcePosition]:
    """The places of the dead letters that a batch set aside."""
    sources = scan_in(store, "dead_letters", ["source"], pc.field("batch") == batch).read_all()["source"]
    return set(map(SourcePosition, *(pc.struct_field(sources, name).to_pylist() for name in SourcePosition._fields)))


def withdraw(store: HeldStore, batch: str, keep: Callable[[SourcePosition], bool] = lambda position: False) -> None:
    """Withdraw what a batch that was not committed set aside, durably, but for places that stay.

    Dead letters that were redriven, and that the batch set aside again, get back the refusal before; others go.
    """
    _reopen(store, batch)
    chosen = [position for position in sorted(source_positions_of(store, batch), key=repr) if not keep(position)]
    if not chosen:
        return
    columns = dict(zip(SourcePosition._fields, zip(*chosen, strict=True), strict=True))
    rows = pa.table(
        {name: pa.array(columns[name], DEAD_LETTER_KEY.field(name).type) for name in SourcePosition._fields}
    )
    last = "array_element(t.earlier, -1)"
    before = {field.name: f"{last}['{field.name}']" for field in REFUSAL}
    before["tries"] = "nullif(t.tries - 1, 1)"
    before["earlier"] = "CASE WHEN array_length(t.earlier) > 1 THEN array_pop_back(t.earlier) END"
    known = "coalesce(array_length(t.earlier), 0) > 0"
    same = "t.source['uri'] = s.uri AND t.source['offset'] = s.\"offset\""
    same += " AND (t.source['partition'] IS NOT DISTINCT FROM s.\"partition\")"
    merge = store.merge_rows("dead_letters", rows, f"t.batch = {literal(batch)} AND {same}")
    with store.step("dead-letters-withdrawn"):
        merge.when_matched_update(updates=before, predicate=known).when_matched_delete(f"NOT ({known})").execute()


def _reopen(store: HeldStore, batch: str) -> None:
    """Reopen what a batch has closed."""
    by = f"{READ_AGAIN}{batch}"
    if not scan_in(store, "dead_letters", ["batch"], pc.field("redriven_by") == by).read_all().num_rows:
        return
    with store.step("dead-letters-reopened"):
        opened = {"redriven_at": "null", "redriven_by": "null"}
        store.update_rows("dead_letters", opened, f"redriven_by = {literal(by)}")


def set_aside(store: HeldStore, rows: pa.Table) -> None:
    """Append dead letters (schema DEAD_LETTERS), durably."""
    with store.step("dead-letters"):
        store.write_rows("dead_letters", rows.cast(DEAD_LETTERS))


def set_aside_new(store: HeldStore, rows: pa.Table, known: Mapping[DeadLetterKey, str]) -> list[str | None]:
    """Append those dead letters (schema DEAD_LETTERS) that are not known by ``set_aside_before``, durably.

    Returns:
        Which batch set each of them aside before; None for those that were appended.
    """
    # The keys have digests of all bytes.
    before = [known.get(key) for key in dead_letter_keys(rows)] if known else list[str | None]([None] * rows.num_rows)
    new = rows.filter(pa.array([batch is None for batch in before], pa.bool_()))
    if new.num_rows:
        set_aside(store, new)
    return before


def close_and_reopen(
    store: HeldStore,
    read: Mapping[str, Sequence[tuple[int, int]]],
    again: Set[DeadLetterKey],
    at: datetime,
    batch: str,
) -> None:
    """Close the dead letters of what a batch reads anew that don't come again, and reopen those that do, durably.

    Only those that were closed so are reopened: what was redriven stays so. Dead letters of the batch itself, of status
    updates and of messages stay as they are.

    Args:
        read: the offsets that the batch reads, [start, end), by source URI.
        again: the dead letters of the batch.
    """
    of_records = (pc.field("source", "kind") == "files") & (
        pc.field("reason") != str(DeadLetterReason.RETRIES_EXHAUSTED)
    )
    rows = _from(store, set(read), of_records, _STATE)
    within = [
        any(start <= offset < end for start, end in read[uri])
        for uri, offset in zip(rows["uri"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    ]
    comes = [key in again for key in dead_letter_keys(rows)]
    redriven = [by is not None for by in rows["redriven_by"].to_pylist()]
    closed = [(by or "").startswith(READ_AGAIN) for by in rows["redriven_by"].to_pylist()]
    others = [other != batch for other in rows["batch"].to_pylist()]
    to_close = np.array(within) & ~np.array(comes) & ~np.array(redriven) & np.array(others)
    for chosen, values in (
        (to_close, {"redriven_at": f"timestamp '{at.isoformat()}'", "redriven_by": literal(f"{READ_AGAIN}{batch}")}),
        (np.array(comes) & np.array(closed), {"redriven_at": "null", "redriven_by": "null"}),
    ):
        if chosen.any():
            _change(store, rows.filter(pa.array(chosen)), values)


def _change(store: HeldStore, rows: pa.Table, values: dict[str, str]) -> None:
    """Change dead letters, found by where they were read, by whom and why."""
    same = " AND ".join(f'(t.{given} IS NOT DISTINCT FROM s."{name}")' for name, given in _WHERE_AND_WHY.items())
    merge = store.merge_rows("dead_letters", rows.select(list(_WHERE_AND_WHY)), same)
    with store.step("dead-letters-closed"):
        merge.when_matched_update(updates=values).execute()


def remove(store: HeldStore, rows: pa.Table) -> None:
    """Delete dead letters, by columns raw and source; the caller names the write."""
    store.merge_rows("dead_letters", rows, _SAME).when_matched_delete().execute()


def mark_redriven(store: HeldStore, sent: pa.Table, redrive: Redrive) -> None:
    """Set redriven_at and redriven_by of dead letters whose bytes and source are in ``sent``, if not set yet.

    Dead letters that failed again are those of the replay's own batch; they stay unmarked, for another redrive. The
    caller names the write.

    Args:
        sent: columns value, uri, offset, partition and kind; with failed_at only files with such times are read.
    """
    marks = pa.table(
        {
            "raw": sent["value"],
            "source": source_column(sent),
            "at": pa.repeat(pa.scalar(redrive.at, UTC), len(sent)),
            "by": pa.repeat(pa.scalar(redrive.by), len(sent)),
        }
    )
    others = f"NOT starts_with(coalesce(t.batch, ''), {literal(f'{redrive.source}/')})"
    # An earlier release staged no times.
    within = _failed_within(sent["failed_at"]) if "failed_at" in sent.column_names else "true"
    same = " AND ".join((_SAME, "t.redriven_at IS NULL", others, within))
    merge = store.merge_rows("dead_letters", marks, same)
    merge.when_matched_update(updates={"redriven_at": 's."at"', "redriven_by": 's."by"'}).execute()


def _failed_within(times: pa.ChunkedArray) -> str:
    """Whether a dead letter failed within these times; as literals, which alone prune files."""
    if not len(times):
        return "false"
    first, last = (f"timestamp '{at.isoformat()}'" for at in pc.min_max(times).as_py().values())
    return f"t.failed_at >= {first} AND t.failed_at <= {last}"


def set_aside_again(store: HeldStore, rows: pa.Table) -> None:
    """Give dead letters that were redriven and failed again the newer reason; the earlier ones are kept.

    A dead letter whose row is gone is added again. A batch that is repeated counts as one try.
    """
    again = {name: f's."{name}"' for name in ("reason", "detail", "failed_at", "redriven_at", "redriven_by", "batch")}
    again |= {name: f'coalesce(s."{name}", t."{name}")' for name in NAME_COLUMNS}
    last = "named_struct(" + ", ".join(f"'{field.name}', t.\"{field.name}\"" for field in REFUSAL) + ")"
    earlier = f"array_slice(array_append(coalesce(t.earlier, make_array()), {last}), -{_EARLIER}, -1)"
    another = again | {"tries": "coalesce(t.tries, 1) + 1", "earlier": earlier}
    own = "t.batch IS NOT DISTINCT FROM s.batch"
    merge = store.merge_rows("dead_letters", rows, _SAME)
    with store.step("dead-letters"):
        merge = merge.when_matched_update(updates=another, predicate=f"NOT ({own})")
        merge.when_matched_update(updates=again, predicate=own).when_not_matched_insert_all().execute()
