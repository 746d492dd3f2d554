"""The queue of runs, as the operator counts it between two reconciliations."""

from typing import Any

import pytest

from messagestore_operator.api import MessageStream
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.cluster import RunAdmission
from messagestore_operator.decide.actions import CreateRun, Decision
from messagestore_operator.decide.run_queue import RunBounds, RunSlot
from messagestore_operator.decide.tables import slots_of
from support.launches import stream

EARLY = "2026-03-01T06:00:00Z"
RUN = "default/orders-ingest-1"


def cache_with(launched: bool | None, version: str = "1") -> Cache:
    """A cache with one stream and its current run, or none."""
    cache = Cache()
    put(cache, launched, version)
    return cache


def put(cache: Cache, launched: bool | None, version: str) -> None:
    run: dict[str, Any] = {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": EARLY}
    run |= {"launchedAt": EARLY} if launched else {}
    document = {**stream().to_dict(), "kind": "MessageStream"}
    document["metadata"] = {**document["metadata"], "resourceVersion": version}
    cache.put({**document, "status": {} if launched is None else {"currentRun": run}})


def decision_of(slot: RunSlot) -> Decision:
    unused: Any = None
    create = CreateRun(unused, unused, unused, unused, slot=slot)
    return Decision((create,), unused, None)


def slot_in(cache: Cache) -> RunSlot:
    resource = cache.resource(("MessageStream", "default", "orders"))
    assert isinstance(resource, MessageStream)
    (slot,) = slots_of(resource, [resource])
    return slot


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


def test_an_admitted_run_counts_before_its_status_says_so_and_once_afterwards(clock: list[float]) -> None:
    cache = cache_with(launched=False)
    admission = RunAdmission(cache, RunBounds(starts_per_second=2), lambda: clock[0])
    slot = slot_in(cache)
    admission.let_start(decision_of(slot))
    admission.let_start(decision_of(slot))
    queue = admission.run_queue()
    assert (list(queue.under_way), queue.starts) == ([RUN], 1)
    put(cache, True, "2")
    assert list(admission.run_queue().under_way) == [RUN]
    put(cache, None, "3")
    assert list(admission.run_queue().under_way) == []


def test_an_admitted_run_that_never_appears_loses_its_slot(clock: list[float]) -> None:
    cache = cache_with(launched=False)
    admission = RunAdmission(cache, RunBounds(), lambda: clock[0])
    admission.let_start(decision_of(slot_in(cache)))
    clock[0] = 61
    assert list(admission.run_queue().under_way) == []


def test_a_waiting_run_is_next_once_a_slot_is_free_and_leaves_the_queue_when_unwanted(clock: list[float]) -> None:
    cache = cache_with(launched=False)
    admission = RunAdmission(cache, RunBounds(starts_per_second=1), lambda: clock[0])
    slot = slot_in(cache)
    other = RunSlot("default/other", ("MessageStream", "default", "other"), frozenset(), slot.since)
    admission.let_start(decision_of(other))
    admission.wait(slot)
    assert (admission.next(), admission.waits(RUN)) == ([], True)
    clock[0] = 1
    assert admission.next() == [("MessageStream", "default", "orders")]
    put(cache, None, "2")
    assert (admission.next(), admission.waits(RUN)) == ([], False)
