"""Which days are removed whole because of their age, by the log alone."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from messagestore_core.contract.purge import Hold, Match, PurgeTask, Rule, StreamPosition
from messagestore_core.store.delta_log import DAY
from messagestore_jobs.purge.whole_days import WholeDays, whole_days

NOON = timedelta(hours=12)
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
DAYS = [date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3)]
OLD = Rule(name="old", max_age=timedelta(days=30))
NOTHING = WholeDays((), others=True)


def files(*times: datetime | None) -> pa.Table:
    """One file per day, with its earliest time; the default is noon."""
    noons = [FIRST + timedelta(days=n) + NOON for n in range(3)]
    return pa.table(
        {
            DAY: pa.array(DAYS),
            "min.inserted_at": pa.array(noons, pa.timestamp("us", "UTC")),
            "min.time": pa.array(times or noons, pa.timestamp("us", "UTC")),
        }
    )


def found(cut: datetime, log: pa.Table | None = None, **task: Any) -> WholeDays:
    """The whole days by rule ``OLD``, at a time when everything before ``cut`` is older."""
    given = PurgeTask(**{"mode": "Enforce", "rules": (OLD,), **task})
    return whole_days(given, files() if log is None else log, cut + timedelta(days=30))


def test_days_that_ended_before_the_cut_leave_whole() -> None:
    assert found(FIRST + timedelta(days=2)) == WholeDays(tuple(DAYS[:2]), others=False)


def test_of_the_day_that_the_cut_lies_in_messages_are_looked_at_one_by_one() -> None:
    assert found(FIRST + timedelta(days=2, hours=13)) == WholeDays(tuple(DAYS[:2]), others=True)


def test_a_cut_before_the_days_first_message_concerns_none_of_it() -> None:
    assert found(FIRST + timedelta(days=2, hours=11)) == WholeDays(tuple(DAYS[:2]), others=False)


def test_the_rule_that_reaches_furthest_says_how_far() -> None:
    young = Rule(name="young", max_age=timedelta(days=29))
    assert found(FIRST, rules=(OLD, young)) == WholeDays((DAYS[0],), others=False)


def test_a_day_with_a_late_message_has_its_messages_read() -> None:
    late = files(FIRST + NOON, FIRST + timedelta(days=1) + NOON, FIRST)
    assert found(FIRST + timedelta(days=2), late) == WholeDays(tuple(DAYS[:2]), others=True)


@pytest.mark.parametrize("column", ["min.time", "min.inserted_at"])
def test_files_without_times_in_the_log_have_their_messages_read(column: str) -> None:
    assert found(FIRST + timedelta(days=1), files().drop_columns([column])).others
    unknown = files(FIRST + NOON, FIRST + timedelta(days=1) + NOON, None)
    assert found(FIRST + timedelta(days=1), unknown).others


@pytest.mark.parametrize(
    "task",
    [
        {"rules": (OLD, Rule(name="two", statuses=("COMPLETED",)))},
        {"rules": (OLD.model_copy(update={"match": Match(types=("created",))}),)},
        {"rules": (OLD.model_copy(update={"erase": True}),)},
        {"rules": (Rule(name="cut", truncate_before=StreamPosition(stream_name="a", position=3)),)},
        {"rules": (Rule(name="nothing"),)},
        {"rules": ()},
        {"holds": (Hold(name="kept", match=Match(types=("created",))),)},
        {"action": "Scrub"},
        {"approval_required": True},
    ],
    ids=["a status", "a match", "erasure", "a position", "no condition", "no rule", "a hold", "a scrub", "an approval"],
)
def test_rules_that_need_more_than_age_read_every_message(task: dict[str, Any]) -> None:
    assert found(FIRST + timedelta(days=2), **task) == NOTHING


def test_an_empty_store_has_no_day() -> None:
    assert found(FIRST, files().slice(0, 0)) == NOTHING
