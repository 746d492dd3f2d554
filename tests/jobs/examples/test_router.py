"""The example of a router: orders of a region go to its folder, all to the audit, and the rest to a store."""

import json
import shutil
from pathlib import Path

from support.local_runs import Done, LocalRuns, lines, render
from support.stores import stored


def test_router(local_run: LocalRuns, tmp_path: Path) -> None:
    work, manifests = tmp_path / "router", render("router", tmp_path)
    first = local_run.run_text(manifests)
    assert _sent(work) == (["o1"], ["o1", "o2", "o3"], ["o2", "o3"])
    assert _reached(first) == {"eu": 3, "audit": 3, "rest": 3}
    shutil.copy(work / "later/2.jsonl", work / "landing")
    second = local_run.run_text(manifests)
    assert _sent(work) == (["o1", "o4"], ["o1", "o2", "o3", "o4", "o5"], ["o2", "o3", "o5"])
    assert _reached(second) == {"eu": 5, "audit": 5, "rest": 5}
    status = second.status("ReplayJob/router")
    assert (status["phase"], status["destination"], status["replayedTotal"]) == ("Idle", "3 destinations", 10)


def _sent(work: Path) -> tuple[list[str], ...]:
    """The ids in each folder, and in the store of the rest."""
    eu, audit = ([json.loads(line) for line in lines(work / name)] for name in ("eu", "audit"))
    return (
        [one["messageId"] for one in eu],
        [one["id"] for one in audit],
        [row["message_id"] for row in stored(f"file://{work}/unrouted")],
    )


def _reached(done: Done) -> dict[str, int]:
    """The cursor of each destination."""
    assert done.exit_code == 0, done.stderr
    destinations = done.status("ReplayJob/router")["destinations"]
    return {one["name"]: one["cursor"]["globalPosition"] for one in destinations}
