"""A throttled ingest stays within its rate."""

from datetime import timedelta

from messagestore_jobs.ingest.job import IngestToEnd, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Stopping(IngestToEnd):
    def __init__(self, clock: Clock, at: float) -> None:
        self._clock, self._at = clock, at

    def stopped(self, wait: timedelta) -> bool:
        return self._clock.now >= self._at


def test_a_batch_waits_until_those_before_it_were_due() -> None:
    clock = Clock()
    throttle = Throttle(10, clock, clock.sleep)
    assert not throttle.stopped(IngestToEnd())
    assert clock.now == 100
    throttle.taken(25)
    assert not throttle.stopped(IngestToEnd())
    assert clock.now == 102.5
    throttle.taken(10)
    clock.now += 0.4
    assert not throttle.stopped(IngestToEnd())
    assert round(clock.now, 6) == 103.5


def test_without_a_rate_nothing_waits() -> None:
    clock = Clock()
    throttle = Throttle(None, clock, clock.sleep)
    throttle.taken(1_000_000)
    assert not throttle.stopped(IngestToEnd())
    assert clock.now == 100


def test_a_run_may_be_stopped_while_it_waits() -> None:
    clock = Clock()
    throttle = Throttle(1, clock, clock.sleep)
    throttle.taken(60)
    assert throttle.stopped(Stopping(clock, 102))
    assert clock.now < 103
