"""What reading functions refuse, with message-db's messages; tests/jobs/library compares the messages themselves."""

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from messagestore import reads
from messagestore.arguments import ConsumerGroup, length_of_time, time_in_utc
from messagestore.conditions import narrowed
from messagestore.errors import ArgumentError
from messagestore.reads import correlation_category, is_member


@pytest.mark.parametrize("given", [30, 30.5, "PT30S", None])
def test_a_length_of_time_is_a_timedelta(given: object) -> None:
    assert length_of_time("timeout", timedelta(seconds=30)) == timedelta(seconds=30)
    with pytest.raises(ArgumentError, match=r"^timeout is .*; give a timedelta, such as timedelta\(seconds=30\)$"):
        length_of_time("timeout", given)


@pytest.mark.parametrize("given", [date(2026, 1, 5), "2026-01-05T00:00:00Z", 5])
def test_a_time_is_a_datetime(given: object) -> None:
    with pytest.raises(ArgumentError, match=r"^since is .*; give a datetime with a time zone$"):
        time_in_utc("since", given)
    with pytest.raises(ArgumentError, match=r"^since is .*; give a datetime with a time zone$"):
        reads.matching(since=given, newest_first=True, payloads=False)


def test_a_condition_may_be_as_long_as_any_beside_another() -> None:
    where = f"type = '{'a' * 4087}'"
    wanted = narrowed(where, "contains(error, 'x')")
    condition = reads.matching(where=wanted, newest_first=True, payloads=False).condition
    assert condition is not None
    assert condition.columns == ("error", "type")
    rows = pa.table({"type": ["a" * 4087, "a" * 4087, "b"], "error": ["ax", "a", "x"]})
    assert condition.keeps(rows).to_pylist() == [True, False, False]


def test_a_category_is_no_stream() -> None:
    with pytest.raises(ArgumentError, match=r"^Must be a stream name: account$"):
        reads.stream_messages("account", 0, 1000, None)


def test_one_text_is_no_list_of_texts() -> None:
    with pytest.raises(ArgumentError, match=r"^type: give a list of texts, \['Placed'\], instead of one$"):
        reads.matching(types="Placed", newest_first=True, payloads=False)


def test_a_stream_is_no_category() -> None:
    with pytest.raises(ArgumentError, match=r"^Must be a category: account-1$"):
        reads.category_messages("account-1", 1, 1000, None, None, None, None)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("type RLIKE 'a'", r"^where: `RLIKE` at character 6: is not taken; write LIKE"),
        ("id = 'a'", r"^where: `id` at character 1: there is no such column"),
        ("string(payload_size / 2) = '1'", r"^where: string\(\) takes no number here that is rounded"),
        ("time < concat('2026', '-01-05')", r"^where: .* is a time made of texts; write it as TIMESTAMP"),
        ("", r"^where: .* is empty"),
    ],
)
def test_a_condition_is_refused_with_what_to_write(condition: str, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        reads.stream_messages("account-1", 0, 1000, condition)


@pytest.mark.parametrize(
    ("condition", "pushed"),
    [
        ("type = 'it''s' AND retries > 2", ["\"type\" = 'it''s'", '"retries" > 2']),
        ("status IN ('FAILED') AND (type = 'a' OR type = 'b')", ["\"status\" in ('FAILED')"]),
        ("error IS NULL AND ttl IS NOT NULL", ['"error" is null', '"ttl" is not null']),
        ("position BETWEEN 1 AND 5", ['"position" between 1 and 5']),
        (
            "time < '2300-01-01'",
            ['"time" < arrow_cast(10413792000000000, \'Timestamp(Microsecond, Some("UTC"))\')'],
        ),
        ("position = 1.0 OR true", []),
        ("position = 1.0 AND payload_size = 9223372036854775807 AND lower(type) = 'a' AND NOT type = 'b'", []),
    ],
)
def test_only_comparisons_that_mean_the_same_to_the_engine_are_pushed_down(condition: str, pushed: list[str]) -> None:
    own = reads.stream_messages("account-1", 0, 1000, condition).condition
    assert [text for _, text in own.pushed] == pushed


def test_a_condition_chooses_files_by_texts_that_all_its_messages_have() -> None:
    read = reads.arrived_since(None, 0, 1000, "category = 'a' AND type = 'b' AND (status = 'c' OR retries = 1)")
    assert read.files == {"category": "a"}


def test_a_batch_of_minus_one_has_no_bound() -> None:
    assert reads.stream_messages("account-1", 0, -1, None).limit is None
    assert reads.stream_messages("account-1", None, None, None).limit == 1000


def test_text_is_never_read_as_sql() -> None:
    assert reads.of_name("a-' or true --").conditions[0] == "stream_name = 'a-'' or true --'"


def test_every_stream_with_an_id_has_one_member_of_a_group() -> None:
    for number in range(50):
        owners = [member for member in range(3) if is_member(ConsumerGroup(member, 3), f"account-{number}")]
        assert len(owners) == 1


def test_streams_of_one_cardinal_id_have_the_same_member() -> None:
    for member in range(3):
        group = ConsumerGroup(member, 3)
        assert is_member(group, "account-7+a") == is_member(group, "account-7+b") == is_member(group, "account-7")


def test_a_stream_without_an_id_belongs_to_no_member_of_a_group() -> None:
    assert not is_member(ConsumerGroup(0, 1), "account")


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ('{"correlationStreamName":"transfer-1"}', "transfer"),
        ('{"correlationStreamName":"transfer"}', "transfer"),
        ('{"correlationStreamName":null}', None),
        ('{"correlationStreamName":5}', "5"),
        ("[]", None),
        ('{"deep":' + "[" * 990 + "]" * 990 + ',"correlationStreamName":"transfer-1"}', "transfer"),
        ('{"long":' + "9" * 5000 + ',"correlationStreamName":"transfer-1"}', "transfer"),
        ("{", None),
        (None, None),
    ],
)
def test_the_correlation_is_the_category_of_the_stream_that_metadata_names(
    metadata: str | None, found: str | None
) -> None:
    assert correlation_category(metadata) == found


def test_a_time_without_a_zone_is_refused_as_each_process_would_take_it_otherwise() -> None:
    with pytest.raises(ArgumentError, match=r"^at has no time zone$"):
        time_in_utc("at", datetime(2026, 1, 5))
    with pytest.raises(ArgumentError, match="is outside of the years 1 to 9999 in UTC"):
        time_in_utc("at", datetime.fromisoformat("0001-01-01T00:00:00+05:00"))
    assert time_in_utc("at", datetime.fromisoformat("2026-01-05T01:00:00+01:00")) == datetime(2026, 1, 5, tzinfo=UTC)
