"""The example of an idempotent receiver does what docs/patterns/idempotent-receiver.md says, to the message."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.local_runs import EXAMPLES, Done, LocalRuns, lines, render
from support.stores import stored

RECEIVER = EXAMPLES / "idempotent-receiver/receiver.py"
STREAMS = ("payments", "payments-of-a-day")


@pytest.mark.long
def test_idempotent_receiver(local_run: LocalRuns, tmp_path: Path) -> None:
    work = tmp_path / "idempotent-receiver"
    streams, with_replay = (
        render("idempotent-receiver/1-streams.yaml", tmp_path),
        render("idempotent-receiver", tmp_path),
    )

    first = local_run.run_text(streams, "--at", "2026-03-16T00:00:00Z")
    assert [_counts(first, name) for name in STREAMS] == [(5, 3, 2), (5, 3, 2)]

    shutil.copy(work / "later/2-same-day.jsonl", work / "landing")
    second = local_run.run_text(streams, "--at", "2026-03-16T12:00:00Z")
    assert [_counts(second, name) for name in STREAMS] == [(8, 4, 4), (8, 4, 4)]

    shutil.copy(work / "later/3-next-week.jsonl", work / "landing")
    third = local_run.run_text(with_replay, "--at", "2026-03-23T00:00:00Z")
    assert [_counts(third, name) for name in STREAMS] == [(11, 5, 6), (11, 7, 4)]
    ever, of_a_day = (stored(f"file://{work}/{name}") for name in STREAMS)
    assert [row["message_id"] for row in ever] == ["p1", "p2", "p3", "p4", "p5"]
    assert [row["message_id"] for row in of_a_day] == ["p1", "p2", "p3", "p4", "p1", "p4", "p5"]
    # The first arrival stays, with its own spelling.
    assert (ever[0]["payload"], ever[2]["payload"]) == (
        b'{"amount": 10.50, "currency": "EUR"}',
        b'{"amount": 5, "currency": "EUR"}',
    )

    assert third.status("ReplayJob/payments-again")["progress"]["replayed"] == 7
    replayed = lines(work / "again")
    booked = [(1, "p1"), (2, "p2"), (3, "p3"), (4, "p4"), (7, "p5")]
    known = [(5, "p1"), (6, "p4")]
    assert _received(work, replayed) == _told("booked", booked[:4]) + _told("known", known) + _told(
        "booked", booked[4:]
    )
    assert _received(work, replayed) == _told("known", booked[:4] + known + booked[4:])
    with sqlite3.connect(work / "accounts.db") as database:
        balances = database.execute("select account, sum(cents) from booking group by account order by account")
        assert balances.fetchall() == [("payment-ada", 1650), ("payment-bob", 2700)]


def _counts(done: Done, stream: str) -> tuple[int, int, int]:
    assert done.exit_code == 0, done.stderr
    totals = done.status(f"MessageStream/{stream}")["totals"]
    return totals["received"], totals["stored"], totals["duplicates"]


def _received(work: Path, records: list[str]) -> list[str]:
    """The receiver's output for records."""
    given = "".join(f"{record}\n" for record in records)
    command = [sys.executable, RECEIVER, work / "accounts.db"]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout.splitlines()


def _told(word: str, messages: list[tuple[int, str]]) -> list[str]:
    return [f"{word} {message_id}, number {position} of payments-again" for position, message_id in messages]
