"""What reading functions refuse, with message-db's messages; tests/jobs/library compares the messages themselves."""

from datetime import UTC, datetime

import pytest

from messagestore import reads
from messagestore.arguments import ConsumerGroup, time_in_utc
from messagestore.errors import ArgumentError
from messagestore.reads import correlation_category, is_member


def test_a_category_is_no_stream() -> None:
    with pytest.raises(ArgumentError, match=r"^Must be a stream name: account$"):
        reads.stream_messages("account", 0, 1000, None)


def test_a_stream_is_no_category() -> None:
    with pytest.raises(ArgumentError, match=r"^Must be a category: account-1$"):
        reads.category_messages("account-1", 1, 1000, None, None, None, None)


def test_a_condition_is_not_activated() -> None:
    with pytest.raises(ArgumentError, match=r"^Retrieval with SQL condition is not activated$"):
        reads.stream_messages("account-1", 0, 1000, "true")


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


def test_a_stream_without_an_id_is_nobodys() -> None:
    assert not is_member(ConsumerGroup(0, 1), "account")


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ('{"correlationStreamName":"transfer-1"}', "transfer"),
        ('{"correlationStreamName":"transfer"}', "transfer"),
        ('{"correlationStreamName":null}', None),
        ('{"correlationStreamName":5}', "5"),
        ("[]", None),
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
