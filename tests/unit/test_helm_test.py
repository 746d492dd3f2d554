"""When `helm test` takes a resource to be done, and to have failed."""

import json
from typing import Any

import pytest

from messagestore_jobs.samples import lines
from messagestore_operator.helm_test import NotAsExpectedError, Step, progress

STEP = Step((), "lastRun", {"totals.stored": 10})
READY, STALLED = ({"type": kind, "status": "True", "message": f"it is {kind}"} for kind in ("Ready", "Stalled"))
DONE = {"observedGeneration": 1, "conditions": [READY], "lastRun": {"name": "r"}, "totals": {"stored": 10}}


def _stream(**status: Any) -> dict[str, Any]:
    return {"kind": "MessageStream", "metadata": {"name": "orders", "generation": 1}, "status": status}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (DONE, (True, "MessageStream orders is done: totals.stored 10")),
        ({}, (False, "MessageStream orders: no status yet")),
        ({**DONE, "lastRun": None}, (False, "MessageStream orders: it is Ready")),
        ({**DONE, "observedGeneration": 0}, (False, "MessageStream orders: it is Ready")),
        ({**DONE, "conditions": [{**READY, "status": "False"}]}, (False, "MessageStream orders: it is Ready")),
        ({**DONE, "observedGeneration": 0, "conditions": [STALLED]}, (False, "MessageStream orders: no status yet")),
    ],
)
def test_a_resource_is_done_once_it_is_ready_and_has_done_its_work(
    status: dict[str, Any], said: tuple[bool, str]
) -> None:
    assert progress(_stream(**status), STEP) == said


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"observedGeneration": 1, "conditions": [STALLED]}, "MessageStream orders is stalled: it is Stalled"),
        ({**DONE, "totals": {"stored": 9}}, r"with totals\.stored 9 instead of totals\.stored 10"),
        ({**DONE, "totals": {}}, r"with totals\.stored None instead of totals\.stored 10"),
    ],
)
def test_a_resource_that_is_stalled_or_has_other_counts_has_failed(status: dict[str, Any], why: str) -> None:
    with pytest.raises(NotAsExpectedError, match=why):
        progress(_stream(**status), STEP)


def test_the_samples_are_messages_of_one_stream() -> None:
    records = [json.loads(line) for line in lines(10).splitlines()]
    assert (len({one["messageId"] for one in records}), {one["streamName"] for one in records}) == (10, {"sample-1"})
