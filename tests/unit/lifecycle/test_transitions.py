"""The status transitions, as a table, and what is true of any history."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.bounds import LAST_MOMENT
from messagestore_core.contract.ingest import Retry
from messagestore_jobs.lifecycle.transitions import (
    ENDED,
    STATUSES,
    Applied,
    Change,
    Folded,
    LifecycleState,
    StoredMessage,
    Update,
    after,
    fold,
)

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RETRY = Retry(max_retries=2)
LATER = NOW + HOUR
STALE = None

RECEIVED = LifecycleState("RECEIVED")
PROCESSING = LifecycleState("PROCESSING")
COMPLETED = LifecycleState("COMPLETED")
FAILED = LifecycleState("FAILED", 1, NOW + timedelta(minutes=2))
EXHAUSTED = LifecycleState("FAILED", 3)
EXPIRED = LifecycleState("EXPIRED")
PAUSED = replace(FAILED, next_retry_at=LAST_MOMENT)
DUE = replace(FAILED, next_retry_at=NOW - HOUR)


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        (RECEIVED, "RECEIVED", STALE),
        (RECEIVED, "PROCESSING", PROCESSING),
        (RECEIVED, "COMPLETED", COMPLETED),
        (RECEIVED, "FAILED", FAILED),
        (RECEIVED, "EXPIRED", STALE),
        (PROCESSING, "RECEIVED", STALE),
        (PROCESSING, "PROCESSING", STALE),
        (PROCESSING, "COMPLETED", COMPLETED),
        (PROCESSING, "FAILED", FAILED),
        (PROCESSING, "EXPIRED", STALE),
        (FAILED, "RECEIVED", STALE),
        (FAILED, "PROCESSING", LifecycleState("PROCESSING", 1)),
        (FAILED, "COMPLETED", LifecycleState("COMPLETED", 1)),
        (FAILED, "FAILED", STALE),
        (FAILED, "EXPIRED", STALE),
        *((terminal, status, STALE) for terminal in (COMPLETED, EXHAUSTED, EXPIRED) for status in STATUSES),
    ],
)
def test_an_update_to_each_status_has_its_outcome_after_each_state(
    state: LifecycleState, status: str, expected: LifecycleState | None
) -> None:
    assert after(state, Update(status), RETRY, NOW) == expected


@pytest.mark.parametrize(
    ("state", "status", "attempt", "expected"),
    [
        (RECEIVED, "FAILED", 1, FAILED),
        (FAILED, "FAILED", 1, STALE),
        (FAILED, "PROCESSING", 1, STALE),
        (FAILED, "COMPLETED", 1, STALE),
        (FAILED, "PROCESSING", 2, LifecycleState("PROCESSING", 1)),
        (FAILED, "COMPLETED", 2, LifecycleState("COMPLETED", 1)),
        (FAILED, "FAILED", 2, LifecycleState("FAILED", 2, NOW + timedelta(minutes=4))),
        (LifecycleState("PROCESSING", 1), "FAILED", 1, STALE),
        (LifecycleState("PROCESSING", 1), "PROCESSING", 2, STALE),
        (LifecycleState("PROCESSING", 1), "FAILED", 2, LifecycleState("FAILED", 2, NOW + timedelta(minutes=4))),
        (LifecycleState("PROCESSING", 2), "FAILED", 3, EXHAUSTED),
        (RECEIVED, "PROCESSING", 3, LifecycleState("PROCESSING", 2)),
        (PROCESSING, "PROCESSING", 2, LifecycleState("PROCESSING", 1)),
        (RECEIVED, "FAILED", 2, LifecycleState("FAILED", 2, NOW + timedelta(minutes=4))),
        (RECEIVED, "PROCESSING", 4, STALE),
        (RECEIVED, "RECEIVED", 2, STALE),
    ],
)
def test_an_update_that_names_its_attempt(
    state: LifecycleState, status: str, attempt: int, expected: LifecycleState | None
) -> None:
    assert after(state, Update(status, attempt=attempt), RETRY, NOW) == expected


@pytest.mark.parametrize(
    ("state", "attempt", "expected"),
    [
        (EXHAUSTED, None, LifecycleState("FAILED", 3, NOW)),
        (EXHAUSTED, 3, LifecycleState("FAILED", 3, NOW)),
        (EXHAUSTED, 2, STALE),
        (replace(EXHAUSTED, expires_at=NOW), None, STALE),
        *((other, None, STALE) for other in (RECEIVED, PROCESSING, COMPLETED, EXPIRED)),
    ],
)
def test_a_retry_update_gives_an_exhausted_message_one_more_attempt(
    state: LifecycleState, attempt: int | None, expected: LifecycleState | None
) -> None:
    found = after(state, Update("RETRY", attempt=attempt), RETRY, NOW)
    assert found == expected
    if found is not None:
        assert after(found, Update("FAILED", attempt=4), RETRY, NOW) == LifecycleState("FAILED", 4)


@pytest.mark.parametrize(
    ("state", "time", "expected"),
    [
        (FAILED, None, NOW),
        (FAILED, NOW - HOUR, NOW),
        (FAILED, LATER, LATER),
        (FAILED, FAILED.next_retry_at, STALE),
        (EXHAUSTED, LATER, LATER),
        (PAUSED, None, NOW),
        (PAUSED, LATER, LATER),
        (DUE, None, STALE),
        (DUE, LATER, LATER),
    ],
)
def test_a_failed_message_is_due_when_it_is_asked_for(
    state: LifecycleState, time: datetime | None, expected: datetime | None
) -> None:
    found = after(state, Update("RETRY", time=time), RETRY, NOW)
    assert found == (replace(state, next_retry_at=expected) if expected else STALE)


def test_pause_and_resume_apply_only_to_failed_messages() -> None:
    others = (RECEIVED, PROCESSING, COMPLETED, EXPIRED, EXHAUSTED)
    assert [after(state, Update("PAUSE"), RETRY, NOW) for state in (FAILED, DUE, PAUSED, *others)] == [
        PAUSED,
        PAUSED,
        *[STALE] * 6,
    ]
    assert [after(state, Update("RESUME"), RETRY, NOW) for state in (PAUSED, FAILED, DUE, *others)] == [
        replace(FAILED, next_retry_at=NOW),
        *[STALE] * 7,
    ]
    assert after(PAUSED, Update("RESUME", attempt=2), RETRY, NOW) is STALE
    assert after(PAUSED, Update("COMPLETED", attempt=2), RETRY, NOW) == LifecycleState("COMPLETED", 1)
    due = replace(PAUSED, expires_at=NOW)
    assert after(due, Update("EXPIRED"), RETRY, NOW) == LifecycleState("EXPIRED", 1, expires_at=NOW)


@pytest.mark.parametrize("open_", [RECEIVED, PROCESSING, FAILED])
def test_an_open_message_expires_once_its_time_has_passed(open_: LifecycleState) -> None:
    due = replace(open_, expires_at=NOW)
    assert after(due, Update("EXPIRED"), RETRY, NOW) == replace(due, status="EXPIRED", next_retry_at=None)
    assert after(due, Update("COMPLETED"), RETRY, NOW) is STALE
    assert after(due, Update("EXPIRED", time=NOW - HOUR), RETRY, NOW) is STALE


def test_an_update_counts_if_its_work_was_done_before_the_message_expired() -> None:
    due = replace(PROCESSING, expires_at=NOW)
    assert after(due, Update("COMPLETED", time=NOW - HOUR), RETRY, LATER) == replace(due, status="COMPLETED")
    assert after(due, Update("COMPLETED", time=NOW), RETRY, LATER) is STALE


def test_a_time_in_the_future_expires_nothing() -> None:
    waits = replace(RECEIVED, expires_at=LATER)
    assert after(waits, Update("EXPIRED", time=LATER + HOUR), RETRY, NOW) is STALE
    assert after(waits, Update("COMPLETED", time=LATER + HOUR), RETRY, NOW) == replace(waits, status="COMPLETED")


def test_fewer_retries_than_before_leave_a_message_open_until_it_fails_again() -> None:
    tried = LifecycleState("PROCESSING", 2)
    fewer = Retry(max_retries=0)
    assert after(tried, Update("COMPLETED"), fewer, NOW) == LifecycleState("COMPLETED", 2)
    assert after(tried, Update("FAILED"), fewer, NOW) == EXHAUSTED


updates = st.builds(
    Update,
    st.sampled_from(STATUSES),
    time=st.none() | st.integers(-3, 3).map(lambda hours: NOW + hours * HOUR),
    attempt=st.none() | st.integers(1, 5),
)
histories = st.lists(updates, max_size=12)
expiries = st.none() | st.integers(-2, 2).map(lambda hours: NOW + hours * HOUR)


def states(history: list[Update], expires_at: datetime | None = None) -> list[LifecycleState]:
    """Each state of a message in a history, from its arrival."""
    passed = [LifecycleState("RECEIVED", expires_at=expires_at)]
    for update in history:
        state = after(passed[-1], update, RETRY, NOW)
        if state is not None:
            passed.append(state)
    return passed


@given(histories, expiries)
def test_no_status_update_lowers_retries_or_leaves_an_end(history: list[Update], expires_at: datetime | None) -> None:
    passed = states(history, expires_at)
    assert all(not state.terminal for state in passed[:-1])
    for before, then in pairwise(passed):
        assert then != before
        assert then.retries >= before.retries
        assert then.expires_at == before.expires_at
        assert (then.next_retry_at is not None) <= (then.status == "FAILED")
        assert then.status not in ENDED or then.next_retry_at is None
        assert then.status != "RECEIVED"
        if then.retries == before.retries:
            assert (before.status, then.status) in {
                ("RECEIVED", "PROCESSING"),
                ("FAILED", "PROCESSING"),
                *((open_, end) for open_ in ("RECEIVED", "PROCESSING", "FAILED") for end in ENDED),
            }


@given(histories, expiries)
def test_a_history_told_twice_update_by_update_is_told_once(history: list[Update], expires_at: datetime | None) -> None:
    # Except a failure without an attempt: repeated after a new try, it counts as a failure of that try.
    twice = [update for update in history for _ in range(2)]
    assert states(twice, expires_at) == states(history, expires_at)


@given(st.permutations([Update(s, attempt=a) for a in (1, 2, 3) for s in ("PROCESSING", "FAILED")]))
def test_failures_that_name_their_attempts_count_once_in_any_order(history: list[Update]) -> None:
    assert states(history)[-1].retries == 3
    assert states(history)[-1].status == "FAILED"


@given(histories)
def test_a_message_that_ended_stays_as_it_is(history: list[Update]) -> None:
    for end in (COMPLETED, EXPIRED, EXHAUSTED):
        assert all(after(end, update, RETRY, NOW) is STALE for update in history)


TODAY = date(2026, 1, 5)
ONE, TWO, FAILING = (
    StoredMessage("one", 1, TODAY, RECEIVED),
    StoredMessage("two", 2, TODAY, COMPLETED),
    StoredMessage("failing", 3, TODAY, EXHAUSTED),
)
KNOWN = {"one": ONE, "two": TWO, "failing": FAILING}


def folded(*batch: tuple[str, str]) -> Folded:
    return fold([(message_id, Update(status)) for message_id, status in batch], KNOWN, RETRY, NOW)


def test_each_update_of_a_batch_is_applied_or_stale_or_of_an_unknown_message_and_no_other_is_lost_for_it() -> None:
    found = folded(
        ("nobody", "FAILED"), ("one", "PROCESSING"), ("one", "PROCESSING"), ("two", "FAILED"), ("no", "FAILED")
    )
    applied = Applied(ONE, RECEIVED, PROCESSING, 1, has_outcome=False)
    assert found == Folded({"one": Change(ONE, PROCESSING)}, (applied,), stale=2, unknown=(0, 4))


def test_updates_of_a_message_follow_each_other_and_the_last_that_ended_it_gives_its_outcome() -> None:
    found = folded(("one", "FAILED"), ("one", "PROCESSING"), ("two", "FAILED"), ("one", "COMPLETED"))
    assert found.changes == {"one": Change(ONE, LifecycleState("COMPLETED", 1), outcome=3)}
    assert (found.applied, found.stale, found.unknown) == (3, 1, ())
    assert [(one.before.status, one.after.status, one.row, one.has_outcome) for one in found.steps] == [
        ("RECEIVED", "FAILED", 0, True),
        ("FAILED", "PROCESSING", 1, False),
        ("PROCESSING", "COMPLETED", 3, True),
    ]
    # A message that is tried again keeps the outcome of the failure before.
    again = folded(("one", "FAILED"), ("one", "PROCESSING"))
    assert again.changes == {"one": Change(ONE, LifecycleState("PROCESSING", 1), outcome=0)}


def test_a_batch_counts_what_it_tries_again_and_tells_what_is_out_of_retries() -> None:
    assert (folded(("one", "FAILED")).acts, folded(("one", "FAILED")).exhausted) == ({}, ())
    retried = folded(("failing", "RETRY"), ("one", "PROCESSING"))
    assert (retried.applied, retried.acts, retried.exhausted) == (2, {"RETRY": 1}, ())
    paused = folded(("one", "FAILED"), ("one", "PAUSE"), ("one", "PAUSE"), ("one", "RESUME"))
    assert (paused.applied, paused.acts, paused.stale) == (3, {"PAUSE": 1, "RESUME": 1}, 1)
    assert folded(("failing", "RETRY"), ("failing", "PROCESSING"), ("failing", "FAILED")).exhausted == (FAILING,)
    assert folded(("one", "COMPLETED")).exhausted == ()
