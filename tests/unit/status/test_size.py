"""A status with many long messages stays small enough for etcd."""

from datetime import UTC, datetime
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_operator.api import MessageStream, MessageStreamStatus, RetentionPolicyStatus
from messagestore_operator.decide.actions import decision
from messagestore_operator.status.conditions import conditions, well
from messagestore_operator.status.runs import api_error
from messagestore_operator.status.size import MOST_BYTES, SHORT, fitted, size

LONG = {"reason": "RunFailed", "message": "🙂" * 4096}
OTHER = {"reason": "RunFailed", "message": "<" * 4096}
SPEC = {
    "table": {"uri": "s3a://lake/orders"},
    "source": {"files": {"uri": "s3a://lake/in"}},
    "trigger": {"manual": {}},
}
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
    stream = MessageStream.model_validate({"metadata": {"name": "orders"}, "spec": SPEC})
    decided = decision(stream, None, status, [])
    assert size(decided.status.to_dict()) <= MOST_BYTES
    assert decision(stream, decided.status, decided.status, []).actions == ()


def test_a_message_that_is_longer_than_a_status_takes_is_cut() -> None:
    long = "é" * 40000
    error = api_error(RunError(reason="NotAllowed", message=long))
    stream = MessageStream.model_validate({"metadata": {"name": "orders"}, "spec": SPEC})
    (condition,) = conditions(stream, [], well("WrongApproval", long), datetime(2026, 1, 5, tzinfo=UTC))
    assert error is not None
    for message in (error.message, condition.message):
        assert (len(message), message[-2:]) == (32768, "é…")
