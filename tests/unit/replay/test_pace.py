"""The rate limit, on a clock that the test controls."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.contract.replay import ReplayOutcome
from messagestore_jobs.replay.control import Pace


class Hands:
    """A control and a clock."""

    def __init__(self, rate: float | None) -> None:
        self.rate, self.time, self.suspend_at = rate, 0.0, float("inf")

    def suspended(self) -> bool:
        return self.time >= self.suspend_at

    def stopped(self, wait: timedelta) -> bool:
        return self.suspended()

    def messages_per_second(self) -> float | None:
        return self.rate

    def reached(self, outcome: ReplayOutcome) -> None: ...

    def clock(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def pace(hands: Hands) -> Pace:
    return Pace(hands, hands.clock, hands.sleep)


@given(st.floats(0.5, 1e6), st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 60)), min_size=1, max_size=20))
def test_never_more_has_gone_than_the_limit_allows(rate: float, chunks: list[tuple[int, float]]) -> None:
    hands = Hands(rate)
    limit = pace(hands)
    gone = 0
    for messages, work in chunks:
        hands.time += work
        assert limit.wait(messages)
        gone += messages
        assert gone <= rate * hands.time * (1 + 1e-9) + 1e-6


def test_time_spent_on_work_shortens_the_wait() -> None:
    hands = Hands(10.0)
    limit = pace(hands)
    hands.time = 0.9
    assert limit.wait(10)
    assert hands.time == 1.0


def test_a_pause_does_not_end_in_a_burst() -> None:
    hands = Hands(10.0)
    limit = pace(hands)
    hands.time = 1000
    began = hands.time
    for _ in range(5):
        assert limit.wait(10)
    assert hands.time - began >= 3


def test_without_a_limit_nothing_is_waited_for() -> None:
    hands = Hands(None)
    assert pace(hands).wait(1_000_000)
    assert hands.time == 0


def test_a_limit_that_is_lifted_or_lowered_counts_at_once() -> None:
    hands = Hands(1.0)
    limit = pace(hands)
    sleep = hands.sleep

    def lift(seconds: float) -> None:
        sleep(seconds)
        hands.rate = None if hands.time > 5 else hands.rate

    limit._sleep = lift
    assert limit.wait(1000)
    assert hands.time < 6


def test_a_suspension_ends_the_wait() -> None:
    hands = Hands(1.0)
    hands.suspend_at = 3
    assert not pace(hands).wait(1000)
    assert hands.time < 4
