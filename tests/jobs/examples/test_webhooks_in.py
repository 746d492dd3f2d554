"""The example of webhooks: what its receiver has answered with 200 is in the store, as it was signed."""

import hashlib
import hmac
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

from hack.downloads import FOLDERS

from support.local_runs import EXAMPLES, LocalRuns, render
from support.servers import free_ports, wait_until_it_listens
from support.stores import stored

SECRET = "not'so\"secret"
DELIVERY = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
BODY = '{"action": "opened",  "title": "Füße"}'.encode()


def test_webhooks_in(local_run: LocalRuns, tmp_path: Path) -> None:
    landing = tmp_path / "webhooks-in/landing"
    landing.mkdir(parents=True)
    with _receiver(landing, tmp_path / "receiver.log") as url:
        assert _deliver(url, "issues", DELIVERY) == 200
        assert _deliver(url, "push", "d-2", b'{"ref": "refs/heads/main"}') == 200
        # Neither a body that somebody else has signed, nor a name that leads elsewhere.
        assert _deliver(url, "issues", "d-3", secret="another") >= 400
        assert _deliver(url, "../../elsewhere", "d-4") >= 400
        manifests = render("webhooks-in", tmp_path)
        first = local_run.run_text(manifests)
        assert first.exit_code == 0, first.stderr
        # The sender sends it again.
        assert _deliver(url, "issues", DELIVERY) == 200
    second = local_run.run_text(manifests)
    totals = second.status("MessageStream/webhooks")["totals"]
    assert (totals["received"], totals["stored"], totals["duplicates"], totals["deadLettered"]) == (3, 2, 1, 0)
    rows = {row["message_id"]: row for row in stored(f"file://{tmp_path}/webhooks-in/store")}
    assert {key: (row["category"], row["type"]) for key, row in rows.items()} == {
        DELIVERY: ("issues", "opened"),
        "d-2": ("push", "event"),
    }
    assert rows[DELIVERY]["payload"] == BODY
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file() and landing in path.parents) == [
        f"{DELIVERY}.json",
        "d-2.json",
    ]


@contextmanager
def _receiver(landing: Path, log: Path) -> Iterator[str]:
    """The URL of the example's receiver."""
    folder, (port,) = EXAMPLES / "webhooks-in", free_ports(1)
    command = [
        f"{FOLDERS['webhook']()}/webhook",
        "-template",
        "-hooks",
        str(folder / "hooks.json"),
        "-ip",
        "127.0.0.1",
        "-port",
        str(port),
    ]
    said = {"WEBHOOK_SECRET": SECRET, "KEEP": str(folder / "keep.sh"), "LANDING": str(landing)}
    with log.open("wb") as sink:
        process = subprocess.Popen(command, env=os.environ | said, stdout=sink, stderr=sink)
    try:
        wait_until_it_listens("webhook", process, port, log, 30)
        yield f"http://127.0.0.1:{port}/hooks/github"
    finally:
        process.terminate()
        process.wait()


def _deliver(url: str, event: str, delivery: str, body: bytes = BODY, secret: str = SECRET) -> int:
    """The status with which a delivery is answered."""
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": f"sha256={signature}",
    }
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
            return int(answer.status)
    except HTTPError as refused:
        return refused.code
