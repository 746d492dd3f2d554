"""The example of an outbox: each event reaches the endpoint, or is set aside, and what was relayed is gone."""

import json
import shutil
from pathlib import Path

from support.httpendpoint import Answer, http_endpoint
from support.local_runs import Done, LocalRuns, render
from support.stores import positions


def test_outbox_relay(local_run: LocalRuns, tmp_path: Path) -> None:
    work, store = tmp_path / "outbox-relay", f"file://{tmp_path}/outbox-relay/outbox"
    with http_endpoint(lambda request: Answer(422 if request.attributes["id"] == "e2" else 202)) as endpoint:
        manifests = render("outbox-relay", tmp_path).replace("http://127.0.0.1:8085/events", endpoint.url)
        first = local_run.run_text(manifests)
        assert first.exit_code == 0, first.stderr
        assert [request.attributes["id"] for request in endpoint.taken] == ["e1", "e3"]
        (refused,) = [json.loads(file.read_text()) for file in (work / "refused").rglob("*.jsonl")]
        assert (refused["id"], refused["knativeerrorcode"]) == ("e2", "422")
        assert _relayed(first, store) == (3, 3, [])
        shutil.copy(work / "later/2.jsonl", work / "landing")
        second = local_run.run_text(manifests)
        assert second.exit_code == 0, second.stderr
        # The event that comes again is known, though it is gone.
        assert [request.attributes["id"] for request in endpoint.taken] == ["e1", "e3", "e4"]
        assert _relayed(second, store) == (4, 1, [])
        assert second.status("ReplayJob/relay")["destinations"][0]["cursor"]["setAside"] == 1


def _relayed(done: Done, store: str) -> tuple[int, int, list[int]]:
    """The cursor, what left the store after it, and what is left."""
    (destination,) = done.status("ReplayJob/relay")["destinations"]
    purged = done.status("RetentionPolicy/outbox-relayed")["purged"]
    return destination["cursor"]["globalPosition"], purged, positions(store)
