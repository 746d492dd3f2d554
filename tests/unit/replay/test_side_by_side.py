"""What is told of destinations that go on side by side, without any of them."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.replay import DestinationState, GoingOn, ReplayOutcome
from messagestore_jobs.context import Run
from messagestore_jobs.replay.control import ReplayToEnd
from messagestore_jobs.replay.routes import Board, wait_after
from support.outcomes import subscription_outcome

AT = datetime(2026, 3, 1, tzinfo=UTC)
AWAY = RunError(reason="KafkaUnreachable", message="it doesn't answer")
NEWEST = 9


class Told(ReplayToEnd):
    """Keeps what was told last."""

    last: ReplayOutcome | None = None

    def reached(self, outcome: ReplayOutcome) -> None:
        self.last = outcome


@pytest.fixture
def board() -> Board:
    store = SimpleNamespace(table=lambda _: SimpleNamespace(version=lambda: NEWEST))
    return Board(cast(Run, SimpleNamespace(store=store)), ["eu", "hook"], Told(None))


def took(board: Board, name: str, tombstones: int, messages: int = 3) -> None:
    outcome = subscription_outcome(Lag(as_of=AT, records=0), messages, 7)
    board.took(name, outcome.model_copy(update={"tombstones": tombstones}))


def failed(board: Board, name: str, cursor: Any = None) -> None:
    going_on = GoingOn(tries=1, since=AT, last_try=AT)
    board.failed(DestinationState(name=name, cursor=cursor, error=AWAY, going_on=going_on))


def test_an_erasure_waits_only_for_destinations_that_send_by_older_tombstones(board: Board) -> None:
    board.begins("eu")
    assert board.outcome().tombstones is None
    took(board, "eu", 4)
    assert board.outcome().tombstones == 4
    # What has begun, and hasn't said by which tombstones, may send by any.
    board.begins("hook")
    assert board.outcome().tombstones is None
    took(board, "hook", 6)
    assert board.outcome().tombstones == 4
    failed(board, "eu")
    assert board.outcome().tombstones == 6
    failed(board, "hook")
    assert board.outcome().tombstones == NEWEST
    board.begins("eu")
    assert board.outcome().tombstones is None


def test_a_failing_destination_keeps_its_cursor_and_the_others_continue(board: Board) -> None:
    for name in ("eu", "hook"):
        board.begins(name)
        took(board, name, 4)
    failed(board, "eu")
    states = {one.name: one for one in board.outcome().destinations}
    assert (states["eu"].cursor.global_position, states["eu"].error, states["hook"].error) == (7, AWAY, None)
    assert (board.outcome().takes, board.outcome(complete=True).redelivered) == (True, 6)
    took(board, "eu", 4, messages=5)
    states = {one.name: one for one in board.outcome().destinations}
    assert (states["eu"].error, board.outcome().redelivered) == (None, 8)


def test_the_waits_between_retries_double_up_to_ten_minutes() -> None:
    waits = [wait_after(tries) for tries in (1, 2, 3, 7, 100)]
    assert waits == [timedelta(seconds=n) for n in (10, 20, 40, 600, 600)]
