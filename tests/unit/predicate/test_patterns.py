"""Patterns and literals at their limits: each may be as long as documented, and no longer."""

import time
from collections.abc import Iterator

import pytest

from messagestore_core.predicate.literals import (
    MAX_PATTERN,
    check_path,
    escape_like,
    read_interval,
    read_number,
    read_string,
    read_timestamp,
)


@pytest.mark.parametrize(
    ("pattern", "escape", "written"),
    [
        (r"a\b", "!", r"a\\b"),
        ("a!_b!%", "!", r"a\_b\%"),
        ("a!!b", "!", "a!b"),
        (r"a\\b", "\\", r"a\\b"),
        ("axxb", "x", "axb"),
    ],
)
def test_a_like_pattern_is_written_with_a_backslash(pattern: str, escape: str, written: str) -> None:
    assert escape_like(pattern, escape) == written


def test_a_like_pattern_may_be_as_long_as_is_said() -> None:
    assert MAX_PATTERN == 512
    assert escape_like("a" * 512, "!") == "a" * 512
    with pytest.raises(ValueError, match="longer than 512"):
        escape_like("a" * 513, "!")


@pytest.mark.parametrize("pattern", ["a!", "a!b", "!X"])
def test_an_escape_stands_before_a_sign_of_like(pattern: str) -> None:
    with pytest.raises(ValueError, match="stands before something else"):
        escape_like(pattern, "!")


@pytest.fixture(params=["UTC", "America/New_York"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the machine's time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-05T08:15:00", "2026-01-05T08:15:00Z"),
        ("2026-01-05", "2026-01-05T00:00:00Z"),
        ("2026-01-05 08:15:00.25+02:00", "2026-01-05T06:15:00.250000Z"),
        ("2026-01-05T08:15:00.123456Z", "2026-01-05T08:15:00.123456Z"),
    ],
)
def test_a_time_without_a_zone_is_in_utc_wherever_it_is_read(text: str, utc: str) -> None:
    assert read_timestamp(text) == utc


def test_the_largest_character_interval_and_path_are_taken_and_none_larger() -> None:
    assert read_string(r"'\U0010ffff'") == "\U0010ffff"
    assert read_interval("100000000 seconds") == "100000000 SECOND"
    check_path("$." + "a" * 1022)
    with pytest.raises(ValueError, match="no Unicode character"):
        read_string(r"'\U00110000'")
    with pytest.raises(ValueError, match="is no interval"):
        read_interval("100000001 seconds")
    with pytest.raises(ValueError, match="longer than 1024"):
        check_path("$." + "a" * 1023)


def test_a_decimal_has_38_digits_at_most() -> None:
    longest = f"{'1' * 20}.{'2' * 18}"
    assert read_number(longest) == longest
    with pytest.raises(ValueError, match="more than 38 digits"):
        read_number(f"{longest}3")


def test_a_text_holds_no_surrogate_from_the_first_to_the_last_and_what_stands_beside_them() -> None:
    assert read_string(r"'\ud7ff\ue000'") == "\ud7ff\ue000"
    for half in (r"'\ud800'", r"'\udfff'"):
        with pytest.raises(ValueError, match="half of a surrogate pair"):
            read_string(half)
