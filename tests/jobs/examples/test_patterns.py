"""The examples of patterns do what docs/patterns/ says, to the message."""

import json
import subprocess
import sys
from pathlib import Path

from messagestore_core.store.handle import Store
from support.local_runs import EXAMPLES, LocalRuns, lines, render
from support.stores import stored


def test_event_sourced_account(local_run: LocalRuns, tmp_path: Path) -> None:
    done = local_run.run_text(render("event-sourced-account", tmp_path))
    assert done.exit_code == 0, done.stderr
    totals = done.status("MessageStream/accounts")["totals"]
    assert (totals["received"], totals["stored"], totals["duplicates"], totals["deadLettered"]) == (9, 6, 1, 2)
    table = f"file://{tmp_path}/event-sourced-account/accounts"
    events = [row for row in stored(table) if row["stream_name"] == "account-12"]
    assert [(row["message_id"], row["position"]) for row in events] == [("e1", 0), ("e2", 1), ("e3", 2), ("e7", 3)]
    balance = 0
    for event in events:
        amount = json.loads(event["payload"]).get("amount", 0)
        balance += amount if event["type"] == "Deposited" else -amount
    assert balance == 0
    letters = Store(table).table("dead_letters").to_pyarrow_table().sort_by("detail").to_pylist()
    assert [letter["detail"] for letter in letters] == [
        "Wrong expected version: -1 (Stream: account-13, Stream Version: 0)",
        "Wrong expected version: 1 (Stream: account-12, Stream Version: 2)",
    ]


def test_resequencer(local_run: LocalRuns, tmp_path: Path) -> None:
    done = local_run.run_text(render("resequencer", tmp_path))
    assert done.exit_code == 0, done.stderr
    uploads = done.status("MessageStream/uploads")
    assert (uploads["totals"]["stored"], uploads["totals"]["deadLettered"]) == (6, 2)
    assert uploads["sequences"] == {
        "incomplete": 1,
        "overdue": 0,
        "oldestId": "upload-9",
        "oldestTime": "2026-03-01T10:00:04Z",
    }
    letters = Store(f"file://{tmp_path}/resequencer/uploads").table("dead_letters").to_pyarrow_table()
    assert letters["reason"].to_pylist() == ["InvalidField"] * 2
    assert done.status("ReplayJob/whole-uploads")["progress"]["replayed"] == 5
    sent = [json.loads(line) for line in lines(tmp_path / "resequencer/in-order")]
    assert [one["messageId"] for one in sent] == ["p1", "p2", "p3", "q1", "q2"]


def test_aggregator(local_run: LocalRuns, tmp_path: Path) -> None:
    done = local_run.run_text(render("aggregator/1-bids", tmp_path))
    assert done.exit_code == 0, done.stderr
    assert done.status("MessageStream/bids")["sequences"]["incomplete"] == 1
    decided = "".join(f"{line}\n" for line in lines(tmp_path / "aggregator/decided"))
    script = EXAMPLES / "aggregator/aggregate.py"
    made = subprocess.run([sys.executable, script], input=decided, capture_output=True, text=True, check=True).stdout
    best = tmp_path / "aggregator/best"
    best.mkdir()
    (best / "1.jsonl").write_text(made)
    (best / "2.jsonl").write_text(made)
    again = local_run.run_text(render("aggregator/2-quotes", tmp_path))
    assert again.exit_code == 0, again.stderr
    totals = again.status("MessageStream/quotes")["totals"]
    assert (totals["stored"], totals["duplicates"]) == (2, 2)
    quotes = stored(f"file://{tmp_path}/aggregator/quotes")
    assert [(row["message_id"], row["causation_id"], json.loads(row["payload"])) for row in quotes] == [
        ("quote-1", "b3", {"carrier": "west", "price": 95}),
        ("quote-2", "b6", {"carrier": "west", "price": 70}),
    ]
