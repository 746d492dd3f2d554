"""A status with many long messages stays small enough for etcd."""

from typing import Any

import pytest

from messagestore_operator.api import MessageStream, MessageStreamStatus, RetentionPolicyStatus
from messagestore_operator.api.status import Condition, RunError
from messagestore_operator.decide.actions import decision
from messagestore_operator.status.size import MOST_BYTES, SHORT, fitted, size

LONG = {"reason": "RunFailed", "message": "🙂" * 4096}
OTHER = {"reason": "RunFailed", "message": "<" * 4096}
READY = {"type": "Ready", "status": "False", "message": "é" * 32768}


def failed(number: int, error: dict[str, str]) -> dict[str, Any]:
    return {"name": f"orders-ingest-{number}", "state": "Failed", "error": error}


@pytest.mark.parametrize("error", [LONG, OTHER])
def test_the_messages_of_the_oldest_runs_are_shortened_and_say_so(error: dict[str, str]) -> None:
    runs = [failed(number, error) for number in range(100, 0, -1)]
    full = MessageStreamStatus.model_validate({"conditions": [READY], "recentRuns": runs})
    assert size(full.to_dict()) > MOST_BYTES
    status = fitted(full)
    assert MOST_BYTES * 0.9 < size(status.to_dict()) <= MOST_BYTES
    assert status.conditions == full.conditions
    messages = [run.error.message for run in status.recent_runs if run.error]
    short = [message for message in messages if message != error["message"]]
    assert len(messages) == 100 > len(short)
    assert messages[-len(short) :] == short
    assert {len(message) for message in short} == {SHORT}
    assert all(message.endswith("(shortened: the status would be too large)") for message in short)
    assert fitted(status) == status


def test_a_policy_with_a_long_error_on_each_of_its_streams_can_be_written() -> None:
    streams = [{"name": f"s{number}", "error": LONG, "lastRun": failed(number, LONG)} for number in range(100)]
    status = fitted(RetentionPolicyStatus.model_validate({"conditions": [READY], "streams": streams}))
    assert size(status.to_dict()) <= MOST_BYTES
    assert [stream.name for stream in status.streams] == [f"s{number}" for number in range(100)]
    assert fitted(status) == status


def test_a_decision_writes_what_fits() -> None:
    status = MessageStreamStatus.model_validate({"recentRuns": [failed(number, LONG) for number in range(100)]})
    source = {"files": {"uri": "s3a://lake/in"}}
    spec = {"table": {"uri": "s3a://lake/orders"}, "source": source, "trigger": {"manual": {}}}
    stream = MessageStream.model_validate({"metadata": {"name": "orders"}, "spec": spec})
    decided = decision(stream, None, status, [])
    assert size(decided.status.to_dict()) <= MOST_BYTES
    assert decision(stream, decided.status, decided.status, []).actions == ()


@pytest.mark.parametrize("part", [Condition(type="Ready", status="True"), RunError(reason="RunFailed")])
def test_a_message_that_is_longer_than_a_status_takes_is_cut(part: Condition | RunError) -> None:
    values = {**part.model_dump(), "message": "é" * 40000}
    message = type(part).model_validate(values).message
    assert (len(message), message[-2:]) == (32768, "é…")
