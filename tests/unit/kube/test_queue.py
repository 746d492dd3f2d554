"""The work queue: due keys, once each, by one worker at a time."""

import asyncio

import pytest

from messagestore_operator.kube.queue import HEAD_START, WorkQueue
from support.waiting import scaled


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _due(queue: WorkQueue[str]) -> list[str]:
    """Take all due keys, in order."""

    async def take() -> list[str]:
        found: list[str] = []
        while queue.depth:
            found.append(await queue.get())
        return found

    return asyncio.run(take())


def test_a_key_that_is_asked_for_three_times_is_due_once(clock: Clock) -> None:
    queue = WorkQueue[str](clock=clock)
    for _ in range(3):
        queue.add("a")
    assert _due(queue) == ["a"]


def test_the_earlier_of_two_times_counts(clock: Clock) -> None:
    queue = WorkQueue[str](clock=clock)
    queue.add("a", 60)
    queue.add("a", 5)
    queue.add("a", 30)
    clock.now += 5
    assert _due(queue) == ["a"]
    clock.now += 60
    assert _due(queue) == []


def test_a_key_that_a_worker_has_is_due_again_only_when_it_is_done(clock: Clock) -> None:
    queue = WorkQueue[str](clock=clock)
    queue.add("a")
    assert _due(queue) == ["a"]
    queue.add("a")
    assert queue.depth == 0
    queue.done("a")
    assert _due(queue) == ["a"]


def test_other_keys_are_served_while_a_key_is_taken_and_requested_again(clock: Clock) -> None:
    queue = WorkQueue[str](clock=clock)
    queue.add("a")
    assert _due(queue) == ["a"]
    queue.add("a")
    clock.now += 1
    queue.add("b")
    assert _due(queue) == ["b"]


def test_a_key_that_comes_first_goes_before_what_became_due_a_while_ago(clock: Clock) -> None:
    queue = WorkQueue[str](clock=clock)
    queue.add("long ago")
    clock.now += HEAD_START
    queue.add("lately")
    clock.now += 1
    queue.add("applied", first=True)
    assert _due(queue) == ["long ago", "applied", "lately"]


def test_a_key_that_is_due_already_can_come_to_be_first(clock: Clock) -> None:
    queue = WorkQueue[str](clock=clock)
    for key in ("a", "b"):
        queue.add(key)
        clock.now += 1
    queue.add("b", first=True)
    assert _due(queue) == ["b", "a"]


def test_a_key_is_first_only_once(clock: Clock) -> None:
    queue = WorkQueue[str](clock=clock)
    queue.add("b", first=True)
    assert _due(queue) == ["b"]
    queue.done("b")
    for key in ("a", "b"):
        clock.now += 1
        queue.add(key)
    assert _due(queue) == ["a", "b"]


def _fail(queue: WorkQueue[str], clock: Clock) -> float:
    """Take a due key, fail, wait until it is due again, and return how long that took."""
    assert _due(queue) == ["a"]
    wait = queue.done("a", failed=True)
    assert queue.depth == 0
    clock.now += wait
    return wait


def test_a_key_that_fails_waits_twice_as_long_each_time_up_to_a_bound(clock: Clock) -> None:
    queue = WorkQueue[str](backoff_base=1, backoff_max=5, clock=clock)
    queue.add("a")
    assert [_fail(queue, clock) for _ in range(5)] == [1, 2, 4, 5, 5]


def test_a_success_ends_the_row_of_failures(clock: Clock) -> None:
    queue = WorkQueue[str](backoff_base=1, clock=clock)
    queue.add("a")
    assert [_fail(queue, clock) for _ in range(2)] == [1, 2]
    assert _due(queue) == ["a"]
    queue.done("a")
    queue.add("a")
    assert _fail(queue, clock) == 1


def test_lateness_is_that_of_the_key_that_is_due_the_longest(clock: Clock) -> None:
    queue = WorkQueue[str](clock=clock)
    queue.add("a")
    clock.now += 3
    queue.add("b")
    queue.add("c", 60)
    clock.now += 4
    assert (queue.lateness, queue.depth) == (7, 2)


def test_a_waiting_worker_wakes_up_for_a_new_key() -> None:
    async def scenario() -> str:
        queue = WorkQueue[str]()
        taken = asyncio.create_task(queue.get())
        await asyncio.sleep(0.01)
        queue.add("a")
        return await asyncio.wait_for(taken, scaled(1))

    assert asyncio.run(scenario()) == "a"


def test_a_waiting_worker_wakes_up_when_a_key_becomes_due() -> None:
    async def scenario() -> str:
        queue = WorkQueue[str]()
        queue.add("a", 0.02)
        return await asyncio.wait_for(queue.get(), scaled(1))

    assert asyncio.run(scenario()) == "a"


def test_every_waiting_worker_gets_one_of_the_keys_that_become_due_together() -> None:
    async def scenario() -> set[str]:
        queue = WorkQueue[str]()
        taken = [asyncio.create_task(queue.get()) for _ in range(4)]
        await asyncio.sleep(0.01)
        for key in "abcd":
            queue.add(key, 0.02)
        return set(await asyncio.wait_for(asyncio.gather(*taken), scaled(1)))

    assert asyncio.run(scenario()) == set("abcd")


def test_a_worker_that_was_ended_while_it_waited_takes_no_key() -> None:
    async def scenario() -> str:
        queue = WorkQueue[str]()
        ended, waiting = (asyncio.create_task(queue.get()) for _ in range(2))
        await asyncio.sleep(0.01)
        ended.cancel()
        await asyncio.sleep(0)
        queue.add("a")
        return await asyncio.wait_for(waiting, scaled(1))

    assert asyncio.run(scenario()) == "a"


def test_a_key_with_priority_finds_a_worker_though_all_others_are_busy() -> None:
    async def taken() -> list[str]:
        queue = WorkQueue[str]()
        express = asyncio.create_task(queue.get(first=True))
        await asyncio.sleep(0)
        for key in "abc":
            queue.add(key)
        await asyncio.sleep(0)
        assert not express.done()
        queue.add("b", first=True)
        found = [await asyncio.wait_for(express, scaled(1))]
        return found + [await queue.get() for _ in range(2)]

    assert asyncio.run(taken()) == ["b", "a", "c"]


def test_a_worker_for_keys_with_priority_leaves_them_to_an_idle_worker() -> None:
    async def taken() -> tuple[str, bool]:
        queue = WorkQueue[str]()
        express = asyncio.create_task(queue.get(first=True))
        idle = asyncio.create_task(queue.get())
        for _ in range(10):
            await asyncio.sleep(0)
        queue.add("a", first=True)
        found = await asyncio.wait_for(idle, scaled(1))
        await asyncio.sleep(0)
        waits = not express.done()
        express.cancel()
        return found, waits

    assert asyncio.run(taken()) == ("a", True)


def test_workers_that_await_nothing_leave_the_event_loop_a_round_between_any_two_keys() -> None:
    async def rounds_between_keys() -> list[int]:
        queue, rounds, given = WorkQueue[int](), [0], list[int]()
        for key in range(40):
            queue.add(key)

        async def count() -> None:
            while True:
                rounds[0] += 1
                await asyncio.sleep(0)

        async def work() -> None:
            while True:
                queue.done(await queue.get())
                given.append(rounds[0])

        tasks = [asyncio.create_task(one) for one in (count(), work(), work(), work())]
        while len(given) < 40:
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        return given

    given = asyncio.run(rounds_between_keys())
    assert len(set(given)) == len(given)
