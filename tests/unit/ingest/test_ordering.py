"""Expected versions and sequence numbers, from the one column that has both."""

import pyarrow as pa

from messagestore_jobs.ingest.columns import ordering_of


def test_a_record_may_have_an_expected_version_a_sequence_both_or_neither() -> None:
    expected, members = ordering_of(pa.table({"ordering": [None, "-1|||", "|2|3|=up|load=7", None, "5||4|=", "|||"]}))
    assert (expected.rows.tolist(), expected.versions.tolist()) == ([1, 4], [-1, 5])
    assert members.rows.tolist() == [2, 4]
    assert members.names.take(pa.array(members.codes)).to_pylist() == ["up|load=7", ""]
    assert (members.numbers.tolist(), members.sizes.tolist()) == ([2, 0], [3, 4])


def test_a_batch_without_expected_versions_and_sequences_has_no_rows_of_either() -> None:
    for narrow in (
        pa.table({"row": [1]}),
        pa.table({"ordering": pa.nulls(2, pa.string())}),
        pa.table({"ordering": []}),
    ):
        expected, members = ordering_of(narrow)
        assert len(expected.rows) == len(members.rows) == 0
