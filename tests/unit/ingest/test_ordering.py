"""Expected versions and sequence numbers, from the one column that has both."""

import pyarrow as pa

from messagestore_jobs.ingest.columns import ordering_of


def test_each_record_says_one_or_the_other_or_both_or_nothing() -> None:
    expected, members = ordering_of(pa.table({"ordering": [None, "-1|||", "|2|3|=up|load=7", None, "5||4|=", "|||"]}))
    assert (expected.rows.tolist(), expected.versions.tolist()) == ([1, 4], [-1, 5])
    assert members.rows.tolist() == [2, 4]
    assert members.names.take(pa.array(members.codes)).to_pylist() == ["up|load=7", ""]
    assert (members.numbers.tolist(), members.sizes.tolist()) == ([2, 0], [3, 4])


def test_a_batch_in_which_nobody_says_anything_has_none() -> None:
    for narrow in (
        pa.table({"row": [1]}),
        pa.table({"ordering": pa.nulls(2, pa.string())}),
        pa.table({"ordering": []}),
    ):
        expected, members = ordering_of(narrow)
        assert len(expected.rows) == len(members.rows) == 0
