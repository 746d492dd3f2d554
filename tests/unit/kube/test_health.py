"""When probes fail: work is late or hangs, or watches miss changes."""

import asyncio

import aiohttp

from messagestore_operator.cluster.metrics import Metrics
from messagestore_operator.kube.health import Health, served
from messagestore_operator.kube.ratelimit import TokenBucket


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def _leading(clock: Clock) -> Health:
    health = Health(stalled_after=60, resync=300, clock=clock)
    health.synced()
    return health


def test_a_leader_that_makes_progress_has_no_problems() -> None:
    assert _leading(Clock()).problems() == []


def test_a_leader_is_not_ready_before_it_has_read_everything_but_is_alive() -> None:
    health = Health(60, 300, Clock())
    assert (health.problems(), health.unready()) == ([], ["not everything has been read yet"])


def test_a_replica_that_waits_to_lead_is_ready() -> None:
    health = Health(60, 300, Clock())
    health.waiting_to_lead = True
    assert (health.problems(), health.unready()) == ([], [])


def test_a_resource_that_waits_too_long_for_a_worker_is_a_problem() -> None:
    health = _leading(Clock())
    health.lateness = lambda: 61
    assert health.problems() == health.unready() == ["a resource has been due for 61 s"]


def test_a_reconciliation_that_hangs_is_a_problem_until_it_ends() -> None:
    clock = Clock()
    health = _leading(clock)
    health.begin("orders")
    clock.now += 61
    assert health.problems() == ["reconciling a resource has lasted 61 s"]
    health.end("orders")
    assert health.problems() == []


def test_not_having_read_everything_for_long_is_a_problem() -> None:
    clock = Clock()
    health = _leading(clock)
    clock.now += 661
    assert health.problems() == ["everything was last read 661 s ago"]


def test_changes_that_watches_missed_are_a_problem_the_second_time_in_a_row() -> None:
    health = _leading(Clock())
    health.synced(missed=3)
    assert health.problems() == []
    health.synced(missed=1)
    assert health.problems() == ["watches have missed changes, twice in a row"]
    health.synced(missed=0)
    assert health.problems() == []


def test_late_work_makes_a_replica_unready_and_does_not_end_it() -> None:
    health, metrics = _leading(Clock()), Metrics()
    health.lateness = lambda: 3600
    metrics.watch_health(lambda: bool(health.problems()))
    told = asyncio.run(_asked(health, metrics))
    assert told["/healthz"] == (200, "ok")
    assert told["/readyz"] == (503, "a resource has been due for 3600 s")
    assert metrics.registry.get_sample_value("messagestore_operator_stalled") == 1


async def _asked(health: Health, metrics: Metrics) -> dict[str, tuple[int, str]]:
    """The answers of the probes."""
    any_port = ("127.0.0.1", 0)
    async with served(health, metrics.page, any_port, any_port) as (port, _), aiohttp.ClientSession() as session:
        found = {}
        for path in ("/healthz", "/readyz"):
            async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                found[path] = (answer.status, await answer.text())
        return found


def test_a_burst_passes_at_once_and_then_the_rate_holds() -> None:
    clock = Clock()
    bucket = TokenBucket(rate=10, burst=3, clock=clock)
    waits = [round(bucket.reserve(), 6) for _ in range(5)]
    assert waits == [0, 0, 0, 0.1, 0.2]


def test_a_pause_earns_no_more_than_a_burst() -> None:
    clock = Clock()
    bucket = TokenBucket(rate=10, burst=2, clock=clock)
    clock.now += 3600
    assert [round(bucket.reserve(), 6) for _ in range(4)] == [0, 0, 0.1, 0.2]
