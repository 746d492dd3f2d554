"""What lies behind the cursor of a continuous replay, up to a position, at one version of its store."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.store.tombstones import Erased
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.replay.envelopes import is_original
from messagestore_jobs.replay.records import as_records, values_of
from messagestore_jobs.replay.selection import REFUSED, is_undecided, matches_all
from messagestore_jobs.replay.source import Source

Positions = npt.NDArray[np.int64]


class Portion(NamedTuple):
    """A range of positions that is sent at once: those behind ``after``, up to ``until``."""

    after: int
    until: int
    claim_checks: int


class Counted(NamedTuple):
    """What became of a range of positions."""

    selected: int = 0
    bytes: int = 0
    replayed: int = 0
    failed: int = 0
    erased: int = 0
    missed: int = 0
    expired: int = 0
    set_aside: int = 0


class Records(NamedTuple):
    """The records of a portion: their positions, the text of each (null: not sent), and whether it has expired."""

    positions: Positions
    values: pa.ChunkedArray
    expired: npt.NDArray[np.bool_]

    @property
    def sent(self) -> int:
        """How many are sent."""
        return len(self.values) - int(self.values.null_count)

    @property
    def content(self) -> bytes:
        """What is sent, one record per line."""
        return "\n".join(self.values.drop_null().to_pylist()).encode()


_NOTHING = Records(np.array([], np.int64), pa.chunked_array([], pa.string()), np.array([], np.bool_))


@dataclass(frozen=True)
class Behind:
    """The messages of a range of positions: columns ``global_position``, ``size``, ``claim`` and ``selected``."""

    source: Source
    rows: DataFrame
    after: int
    until: int
    messages: pa.Table
    gone: Positions
    """Those of the range that were erased, in the store or not."""
    undecided: int | None = None
    """The first whose condition does not say whether it goes here."""

    def up_to(self, until: int) -> "Behind":
        """The part of the range up to a position."""
        messages = self._within(self.messages, self.after, until)
        return replace(self, until=until, messages=messages, gone=self.gone[self.gone <= until], undecided=None)

    def portions(self, most_bytes: int, most_messages: float) -> Iterator[Portion]:
        """Cut the range, so that what is sent at once fits into memory; at least one message each."""
        chosen = self._chosen
        sizes, claims = (chosen[name].to_pylist() for name in ("size", "claim"))
        after, taken, held, held_claims = self.after, 0, 0, 0
        for at, size, claim in zip(chosen["global_position"].to_pylist(), sizes, claims, strict=True):
            if taken and (taken >= most_messages or held + size > most_bytes):
                yield Portion(after, at - 1, held_claims)
                after, taken, held, held_claims = at - 1, 0, 0, 0
            taken, held, held_claims = taken + 1, held + size, held_claims + claim
        yield Portion(after, self.until, held_claims)

    def records(self, portion: Portion, run: str, line_breaks: LineBreaks) -> Records:
        """The records of a portion, in order."""
        positions = self._within(self._chosen, portion.after, portion.until)["global_position"]
        if not len(positions):
            return _NOTHING
        source = self.source
        place = F.col("global_position")
        rows = self.rows.where(place.between(portion.after + 1, portion.until) & _is_wanted(source, self.rows))
        rows = rows.drop(REFUSED)
        gone = self.gone[(self.gone > portion.after) & (self.gone <= portion.until)]
        if len(gone):
            rows = rows.where(~place.isin(gone.tolist()))
        values = values_of(source.task.job_id, run, source.now)
        records = as_records(source.order.keyed(rows), source, values, portion.claim_checks, line_breaks).toArrow()
        records = records.sort_by(source.order.columns[0])
        expired: npt.NDArray[np.bool_] = records["_expired"].to_numpy()
        return Records(records[source.order.columns[0]].to_numpy(), records["value"], expired)

    def counted(self, records: Records, after: int, until: int) -> Counted:
        """What became of the range behind ``after``, up to ``until``, of which these records were sent."""
        chosen, messages = (self._within(rows, after, until) for rows in (self._selected, self.messages))
        gone = self.gone[(self.gone > after) & (self.gone <= until)]
        within = (records.positions > after) & (records.positions <= until)
        has_value = records.values.is_valid().to_numpy()
        expired = int((within & records.expired).sum())
        present = messages["global_position"].to_numpy()
        erased_stored = int(np.isin(present, gone).sum())
        return Counted(
            selected=chosen.num_rows,
            bytes=pc.sum(chosen["size"]).as_py() or 0,
            replayed=int((within & has_value).sum()),
            failed=int((within & ~has_value).sum()) - expired,
            erased=int(np.isin(chosen["global_position"].to_numpy(), gone).sum()) + len(gone) - erased_stored,
            missed=until - after - len(present) - (len(gone) - erased_stored),
            expired=expired,
        )

    def failed_in(self, records: Records, after: int, until: int) -> Positions:
        """The positions of records that are not as they were stored, of a range."""
        within = (records.positions > after) & (records.positions <= until)
        broken = within & ~records.values.is_valid().to_numpy() & ~records.expired
        failed: Positions = records.positions[broken]
        return failed

    @cached_property
    def _selected(self) -> pa.Table:
        return self.messages.filter(self.messages["selected"])

    @cached_property
    def _chosen(self) -> pa.Table:
        """The selected ones that are not erased."""
        selected = self._selected
        return selected.filter(pa.array(~np.isin(selected["global_position"].to_numpy(), self.gone)))

    @staticmethod
    def _within(rows: pa.Table, after: int, until: int) -> pa.Table:
        place = pc.field("global_position")
        return rows.filter((place > after) & (place <= until))


def _is_wanted(source: Source, rows: DataFrame) -> Column:
    """Whether a message is selected, and can be sent in the destination's form."""
    selected = matches_all(source.task.select)
    return selected & is_original(rows) if source.sends_records else selected


def look_behind(source: Source, after: int, until: int, erased: Erased) -> Behind:
    """Look at the messages behind ``after``, up to ``until``, in the newest version; reads only small columns."""
    rows = source.current().where(F.col("global_position").between(after + 1, until))
    rows = source.with_refused(rows, (after, until))
    messages = rows.select(
        "global_position",
        F.coalesce(F.col("payload_size").cast("bigint"), F.lit(0)).alias("size"),
        F.col("payload_uri").isNotNull().cast("int").alias("claim"),
        F.coalesce(_is_wanted(source, rows), F.lit(False)).alias("selected"),
        F.coalesce(is_undecided(source.task), F.lit(False)).alias("undecided"),
        *(["message_id"] if erased.any() else []),
    ).toArrow()
    messages = messages.sort_by("global_position")
    gone = np.array([], np.int64)
    if erased.any():
        known, places = erased.positions, messages["global_position"]
        erased_stored = places.to_numpy()[erased.contains_messages(messages["message_id"], places)]
        gone = np.union1d(known[(known > after) & (known <= until)], erased_stored)
    left = messages.filter(messages["undecided"])["global_position"].to_numpy()
    left = left[~np.isin(left, gone)]
    return Behind(source, rows, after, until, messages, gone, int(left[0]) if len(left) else None)
