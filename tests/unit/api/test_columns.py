from datetime import UTC, datetime, timedelta

import pytest

from messagestore_operator.ages import age
from messagestore_operator.api.columns import cells, header
from support.resources import deleting_policy, replay_to_files, smallest_stream, stream_from_files

NOW = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)


def test_a_stream_is_printed_with_ages() -> None:
    stream = stream_from_files()
    stream["metadata"]["creationTimestamp"] = "2026-02-19T08:30:00Z"
    assert dict(zip(header("MessageStream"), cells(stream, NOW), strict=True)) == {
        "NAME": "invoices",
        "READY": "True",
        "PHASE": "Running",
        "MESSAGES": "12",
        "LAG": "3 files",
        "DEAD": "1",
        "LAST-BATCH": "120m",
        "OLDEST": "120m",
        "AGE": "10d",
    }


def test_wide_adds_columns_at_the_end() -> None:
    assert cells(stream_from_files(), NOW, wide=True)[-3:] == ["4096", "12", "Ingesting"]


def test_a_column_of_an_unknown_value_is_empty() -> None:
    assert cells(smallest_stream(), NOW) == ["small", *[""] * 8]


def test_a_policy_prints_its_next_run_as_a_time() -> None:
    line = cells(deleting_policy(), NOW)
    assert line[:3] == ["invoices-30-days", "True", "AwaitingApproval"]
    assert line[3:] == ["invoices", "Enforce", "1", "120m", "4", "2026-03-01T07:30:00Z", ""]


def test_a_replay_prints_its_rate_without_needless_zeros() -> None:
    replay = replay_to_files()
    replay["status"]["progress"]["messagesPerSecond"] = 410.0
    assert cells(replay, NOW)[:7] == ["invoices-again", "True", "Running", "invoices", "5", "10", "410"]


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (timedelta(seconds=0), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=59), "10m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2), "2d"),
        (timedelta(days=7, hours=23), "7d23h"),
        (timedelta(days=8, hours=23), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=800), "2y70d"),
        (timedelta(days=365 * 9), "9y"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(minutes=-5), "<invalid>"),
    ],
)
def test_an_age_is_coarser_the_longer_it_is(ago: timedelta, text: str) -> None:
    assert age((NOW - ago).isoformat(), NOW) == text
