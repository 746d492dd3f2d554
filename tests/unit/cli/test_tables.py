"""Cells of tables that commands print."""

from datetime import UTC, datetime

import pytest
import typer

from messagestore_operator.cli.options import moment, seconds
from messagestore_operator.cli.output import shown


@pytest.mark.parametrize(
    ("year", "told"), [(1, "0001-01-05T00:00:00Z"), (999, "0999-01-05T00:00:00Z"), (9999, "9999-01-05T00:00:00Z")]
)
def test_a_time_has_four_digits_of_its_year(year: int, told: str) -> None:
    assert shown(datetime(year, 1, 5, 0, 0, 0, 999_999, tzinfo=UTC)) == told


@pytest.mark.parametrize("text", ["2026-01-05", "2026-01-05T00:00:00", "0001-01-01T00:00:00+05:00", "now"])
def test_an_option_of_a_time_takes_only_times_of_this_calendar_with_a_zone(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="must be a time by RFC 3339"):
        moment(text)
    assert moment("2026-01-05t01:00:00+01:00") == datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize("text", ["999999999h", "99999d", "P99999DT999999H", "999999999999"])
def test_a_duration_that_no_process_can_wait_for_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="must be a"):
        seconds(text)
    assert seconds("2399976h") == seconds("P99999D") == 99_999 * 86400
    assert seconds("500ms") == 0.5
