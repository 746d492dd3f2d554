"""Events: few per object; a repeated Event raises a count."""

import asyncio
from typing import Any

import pytest

from messagestore_operator.cluster.labels import object_reference
from messagestore_operator.kube.client import AlreadyExistsError, ApiError, NotFoundError, TooLargeError
from messagestore_operator.kube.events import Events, NewEvent, last_warning
from support.launches import stream

DEAD = NewEvent("Warning", "DeadLetters", "records were set aside as dead letters")


class _Server:
    """An API server that stores Events, and counts requests."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.asked = 0
        self.down = False

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._ask()
        key = f"{path}/{body['metadata']['name']}"
        if key in self.events:
            raise AlreadyExistsError("POST", path, 409, "AlreadyExists", "")
        self.events[key] = body
        return body

    async def merge_patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._ask()
        if path not in self.events:
            raise NotFoundError("PATCH", path, 404, "NotFound", "")
        self.events[path] |= body
        return self.events[path]

    def counts(self) -> list[int]:
        return [event["count"] for event in self.events.values()]

    def _ask(self) -> None:
        self.asked += 1
        if self.down:
            raise ApiError("POST", "events", 0, "Unreachable", "")


class Teller:
    """Records Events while time passes."""

    def __init__(self) -> None:
        self.server: Any = _Server()
        self.now = 0.0
        self.restart()

    def restart(self) -> None:
        self._events = Events(self.server, "replica", lambda: self.now)

    def record(self, event: NewEvent = DEAD, after: float = 0, about: str = "orders") -> None:
        self.now += after
        asyncio.run(self._events.record(object_reference(stream(about, uid=f"uid-{about}")), event))


@pytest.fixture
def teller() -> Teller:
    return Teller()


def test_an_hour_of_one_poison_record_is_one_event_and_few_requests(teller: Teller) -> None:
    for _ in range(720):
        teller.record(after=5)
    assert len(teller.server.events) == 1
    assert teller.server.asked <= 25 + 12
    # The next Event that is sent counts those beyond the budget.
    teller.record(after=300)
    assert teller.server.counts() == [721]


def test_an_object_that_says_something_new_each_time_has_a_budget_and_others_have_their_own(teller: Teller) -> None:
    for number in range(100):
        teller.record(NewEvent("Normal", "RunStopped", f"run {number}"))
    assert len(teller.server.events) == 25
    # Normal Events use nothing of the budget for warnings, nor one object of another's.
    teller.record(DEAD)
    teller.record(DEAD, about="returns")
    assert len(teller.server.events) == 27
    teller.record(NewEvent("Normal", "RunStopped", "later"), after=301)
    assert len(teller.server.events) == 28


def test_a_routine_event_costs_two_requests_an_hour(teller: Teller) -> None:
    for _ in range(121):
        teller.record(NewEvent("Normal", "RunStarted", "ingest run started", routine=True), after=60)
    assert (teller.server.asked, teller.server.counts()) == (5, [121])


def test_a_count_goes_on_after_a_restart_and_begins_anew_once_the_event_ran_out(teller: Teller) -> None:
    teller.record()
    teller.record(after=61)
    teller.restart()
    teller.record(after=61)
    assert teller.server.counts() == [3]
    teller.server.events.clear()
    teller.record(after=3600)
    assert teller.server.counts() == [1]


def test_an_event_that_could_not_be_sent_is_counted_with_the_next(teller: Teller) -> None:
    teller.server.down = True
    teller.record()
    teller.server.down = False
    teller.record(after=61)
    assert teller.server.counts() == [2]


def test_more_events_about_a_pod_than_are_read_are_none() -> None:
    class Flooded:
        async def get(self, path: str) -> dict[str, Any]:
            raise TooLargeError("GET", path, 200, "TooLarge", "the answer has more than 16777216 bytes")

    client: Any = Flooded()
    assert asyncio.run(last_warning(client, "default", "orders-ingest-1-driver")) == ""
