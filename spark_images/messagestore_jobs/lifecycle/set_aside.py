"""Records of updates that become dead letters."""

from datetime import datetime

import pyarrow as pa

from messagestore_jobs.lifecycle.updates import KIND
from messagestore_jobs.store.dead_letters import new_letters, places, set_aside, set_aside_before
from messagestore_jobs.store.schemas import SOURCE


def source_of(records: pa.Table) -> pa.StructArray:
    """Where records were read, told apart from messages: columns uri, partition and offset."""
    arrays = {name: records[name].combine_chunks() for name in ("uri", "partition", "offset")}
    arrays["kind"] = pa.array([KIND] * records.num_rows, pa.string())
    fields = list(SOURCE)
    return pa.StructArray.from_arrays([arrays[f.name].cast(f.type) for f in fields], fields=fields)


def dead_letters(raw: pa.ChunkedArray, source: pa.Array, why: pa.Table, at: datetime, batch: str) -> pa.Table:
    """Rows of DEAD_LETTERS; ``why`` has columns reason and detail."""
    told = {"raw": raw, "source": source, "reason": why["reason"], "detail": why["detail"]}
    return new_letters(told, at, batch)


def set_aside_once(uri: str, letters: pa.Table, batch: str, read_before: set[str]) -> int:
    """Write the dead letters that are not there yet; how many of them are this batch's own.

    Args:
        uri: the table folder.
        letters: rows of DEAD_LETTERS.
        batch: which sets them aside; one that was cut off may have done so before.
        read_before: source URIs that may have dead letters already.
    """
    if not letters.num_rows:
        return 0
    known = set_aside_before(uri, read_before)
    by = [known.get(place) for place in places(letters)]
    new = letters.filter(pa.array([one is None for one in by], pa.bool_()))
    if new.num_rows:
        set_aside(uri, new)
    return sum(one is None or one == batch for one in by)
