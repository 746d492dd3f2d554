"""A test's wait ends with a result, or with an error that says what there was instead."""

from itertools import count

import pytest

from support.waiting import scaled, wait_until


def test_a_wait_returns_what_its_check_returned() -> None:
    found = iter([None, [], "it"])
    assert wait_until(lambda: next(found), 10, str, beat=0) == "it"


def test_a_wait_that_fails_describes_what_there_was_instead() -> None:
    with pytest.raises(AssertionError, match="not within 0 s: the server listens"):
        wait_until(lambda: False, 0, lambda: "the server listens")


def test_nobody_waits_for_what_has_died() -> None:
    with pytest.raises(AssertionError, match="the server listens"):
        wait_until(lambda: False, 3600, lambda: "the server listens", alive=lambda: False)


def test_a_wait_lasts_longer_while_there_is_progress_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("support.waiting.scaled", lambda seconds: seconds)
    looks, steps = count(), count()
    assert wait_until(lambda: next(looks) == 8, 5, str, progress=lambda: next(steps) // 3, beat=0)
    with pytest.raises(AssertionError, match="not within 6 s"):
        wait_until(lambda: False, 5, str, progress=lambda: "rests", beat=0)
    with pytest.raises(AssertionError, match="not within 16 s"):
        wait_until(lambda: False, 5, str, progress=lambda: next(steps), beat=0)


def test_a_busy_machine_has_more_time_and_one_that_hangs_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("support.waiting._slowness", lambda: 1.5)
    for load, seconds in [(0.1, 15), (2.0, 15), (4.0, 30), (99.0, 50)]:
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0, 0))
        assert scaled(10) == seconds
