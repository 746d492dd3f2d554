"""The example of request and reply does what docs/patterns/request-reply.md says, to the message."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from messagestore.reader import Reader
from support.local_runs import EXAMPLES, Done, LocalRuns, render
from support.stores import stored


@pytest.mark.long
def test_request_reply(local_run: LocalRuns, tmp_path: Path) -> None:
    manifests, work = render("request-reply", tmp_path), tmp_path / "request-reply"
    requests, answers = f"file://{work}/requests", f"file://{work}/answers"
    now = datetime.now(UTC)

    _program("ask.py", work / "requests-landing")
    asked = _run(local_run, manifests, now)
    assert asked.status("MessageStream/requests")["totals"]["stored"] == 4
    assert asked.status("MessageStream/requests")["lifecycle"]["unfinished"]["received"] == 4

    answer = ("answer.py", requests, work / "answers-landing", work / "requests-status")
    _program(*answer)
    # The second time, the store has not yet read that the requests are answered.
    _program(*answer)
    answered = _run(local_run, manifests, now + timedelta(hours=1))
    totals = answered.status("MessageStream/answers")["totals"]
    assert (totals["received"], totals["stored"], totals["duplicates"]) == (6, 3, 3)
    lifecycle = answered.status("MessageStream/requests")["lifecycle"]
    assert (lifecycle["received"], lifecycle["applied"], lifecycle["stale"], lifecycle["expired"]) == (6, 3, 3, 0)

    assert [(row["stream_name"], row["position"], row["message_id"]) for row in stored(answers)] == [
        ("answer-checkout", 0, "answer-to-check-1"),
        ("answer-checkout", 1, "answer-to-check-2"),
        ("answer-billing", 0, "answer-to-check-4"),
    ]
    assert _program("collect.py", answers, "checkout") == [
        "checkout-17: check-1 granted",
        "checkout-18: check-2 refused",
    ]
    assert _program("collect.py", answers, "billing") == ["billing-5: check-4 refused"]
    with Reader(requests) as asking, Reader(answers) as answering:
        (request,) = asking.load_for_correlation("checkout-17", statuses=["COMPLETED"])
        (found,) = answering.load_for_correlation("checkout-17")
        assert (found.causation_id, found.stream_name) == (request.message_id, request.reply_to)
        assert list(answering.load_for_correlation("checkout-19")) == []
        assert [message.message_id for message in asking.unfinished()] == ["check-3"]

    late = _run(local_run, manifests, now + timedelta(hours=25))
    assert late.status("MessageStream/requests")["lifecycle"]["expired"] == 1
    states = {row["message_id"]: row["status"] for row in stored(requests)}
    assert states == {"check-1": "COMPLETED", "check-2": "COMPLETED", "check-3": "EXPIRED", "check-4": "COMPLETED"}
    with Reader(requests) as asking:
        (expired,) = asking.load_for_correlation("checkout-19", statuses=["EXPIRED"])
        assert expired.expires_at == expired.time + timedelta(days=1)


def _run(local_run: LocalRuns, manifests: str, at: datetime) -> Done:
    done = local_run.run_text(manifests, "--at", at.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert done.exit_code == 0, done.stderr
    return done


def _program(name: str, *arguments: object) -> list[str]:
    """The output of a program of the example."""
    command = [sys.executable, EXAMPLES / "request-reply" / name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
