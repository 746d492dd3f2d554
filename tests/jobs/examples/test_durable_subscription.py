"""The example of a durable subscription does what examples/README.md says, to the message."""

import json
import shutil
from pathlib import Path

from support.local_runs import Done, LocalRuns, lines, render


def test_durable_subscription(local_run: LocalRuns, tmp_path: Path) -> None:
    work, manifests = tmp_path / "durable-subscription", render("durable-subscription", tmp_path)
    first = local_run.run_text(manifests)
    assert (_sent(work), _reached(first)) == (["o1", "o3"], (3, 2, 0))
    shutil.copy(work / "later/2.jsonl", work / "landing")
    second = local_run.run_text(manifests)
    assert (_sent(work), _reached(second)) == (["o1", "o3", "o5"], (5, 3, 0))
    third = local_run.run_text(manifests)
    assert (_sent(work), _reached(third)) == (["o1", "o3", "o5"], (5, 3, 0))
    assert third.status("ReplayJob/orders-out")["phase"] == "Idle"


def _sent(work: Path) -> list[str]:
    return [json.loads(line)["messageId"] for line in lines(work / "out")]


def _reached(done: Done) -> tuple[int, int, int]:
    """The cursor, the messages sent in all rounds, and the lag."""
    assert done.exit_code == 0, done.stderr
    job = done.status("ReplayJob/orders-out")
    (destination,) = job["destinations"]
    return destination["cursor"]["globalPosition"], job["replayedTotal"], destination["lag"]["records"]
