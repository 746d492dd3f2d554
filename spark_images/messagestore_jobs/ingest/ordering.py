"""What few records say of more than themselves: the version their stream must have, and their place in a sequence.

Both come to the driver in one column of text, null for a record that says neither: four bytes a record where nobody
does, a seventh of what columns of their own would take. No Spark, no I/O.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messagestore_jobs.ingest.assign import EXPECTED_BY_NOBODY, IN_NO_SEQUENCE
from messagestore_jobs.ingest.expected import Expected, Numbers
from messagestore_jobs.ingest.sequences import Members

COLUMN = "ordering"
SEPARATOR = "|"
"""Between expected version, number and told size, each empty where there is none, and the sequence."""
IS_THERE = "="
"""Before the sequence where there is one, as its id may be empty."""
_PARTS = 4


def ordering_of(narrow: pa.Table) -> tuple[Expected, Members]:
    """Who expects a version, and who belongs to a sequence, by column ``ordering`` where there is one."""
    if COLUMN not in narrow.column_names or narrow[COLUMN].null_count == narrow.num_rows:
        return EXPECTED_BY_NOBODY, IN_NO_SEQUENCE
    rows = np.flatnonzero(pc.is_valid(narrow[COLUMN]))
    texts = narrow[COLUMN].take(pa.array(rows)).combine_chunks()
    flat = pc.split_pattern(texts, SEPARATOR, max_splits=_PARTS - 1).flatten()
    expected, number, told, sequence = (flat.take(pa.array(np.arange(i, len(flat), _PARTS))) for i in range(_PARTS))
    return _expected(rows, expected), _members(rows, number, told, sequence)


def _expected(rows: Numbers, texts: pa.Array) -> Expected:
    there = _is_there(texts)
    return Expected(rows[there], texts.filter(pa.array(there)).cast(pa.int64()).to_numpy())


def _members(rows: Numbers, number: pa.Array, told: pa.Array, sequence: pa.Array) -> Members:
    there = _is_there(sequence)
    names = pc.dictionary_encode(pc.utf8_slice_codeunits(sequence.filter(pa.array(there)), len(IS_THERE)))
    numbers, sizes = (_whole(texts.filter(pa.array(there))) for texts in (number, told))
    return Members(rows[there], names.dictionary, names.indices.to_numpy(), numbers, sizes)


def _is_there(texts: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.not_equal(texts, "").to_numpy(zero_copy_only=False)
    return found


def _whole(texts: pa.Array) -> Numbers:
    """0 where there is none."""
    numbers: Numbers = pc.if_else(pc.equal(texts, ""), "0", texts).cast(pa.int64()).to_numpy()
    return numbers
