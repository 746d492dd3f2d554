"""The walk of docs/operate.md in the cluster: what the plugin says and does, with runs that do it."""

import json
import re
import tarfile
from pathlib import Path

import pytest
from hack import kind
from hack.programs import program
from typer.testing import CliRunner

from messagestore_operator.plugin.main import app
from support.laws import read_store
from support.records import records
from support.site import POLICY, REPLAY, STREAM, Site

STORED, LARGE = 120, 64
"""How many messages are stored at once, and the bytes of one that is larger than the stream takes at first."""


class Walk:
    """The plugin, as the cluster's administrator in the site's namespace."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def said(self, *arguments: str) -> str:
        """What a command prints; raises AssertionError if it fails."""
        where = ("--namespace", self._site.namespace, "--kubeconfig", str(kind.kubeconfig()))
        result = CliRunner().invoke(app, [*arguments, *where])
        assert result.exit_code == 0, f"{arguments}: {result.output}\n{self._site.story()}"
        return result.output


@pytest.fixture
def walk(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Walk:
    monkeypatch.setenv("PATH", str(program("kubectl").parent), prepend=":")
    monkeypatch.chdir(tmp_path)
    return Walk(site)


@pytest.mark.long
def test_a_day_of_operating_a_stream_goes_by_the_plugin_alone(site: Site, walk: Walk, tmp_path: Path) -> None:
    _find_what_fails(site, walk)
    _send_dead_letters_again(site, walk)
    _approve_a_purge(site, walk)
    _pause_and_slow_a_replay(site, walk)
    assert walk.said("report", "--file", "report.tar.gz").startswith("report.tar.gz: ")
    with tarfile.open(tmp_path / "report.tar.gz") as report:
        names = " ".join(report.getnames())
    assert all(f"/{one}/" in names for one in ("MessageStream", "RetentionPolicy", "ReplayJob")), names


def _find_what_fails(site: Site, walk: Walk) -> None:
    site.land("orders/1.jsonl", records(range(STORED)) + _large())
    bounds = {"maxSize": f"{LARGE - 1}"}
    site.apply(site.stream(storage=site.storage("lake"), payload=bounds, trigger={"interval": "PT5S"}))
    site.condition(STREAM, "orders", "Ready", "False", "SecretMissing")
    assert walk.said("status").splitlines()[1].split()[:4] == ["stream/orders", "False", "Failing", "SecretMissing"]
    assert "Create the Secret, with label messagestore.dev/use" in walk.said("status", "stream", "orders")
    site.apply(site.secret("lake", site.cluster.s3.access_key, site.cluster.s3.secret_key))
    site.wait(
        STREAM, "orders", lambda status: status.get("totals", {}).get("stored") == STORED, "all others are stored"
    )
    assert "Ready True" in walk.said("status", "stream", "orders")


def _send_dead_letters_again(site: Site, walk: Walk) -> None:
    assert walk.said("dead-letters", "orders").splitlines()[1].split()[2:4] == ["PayloadTooLarge", "1"]
    (letter,) = json.loads(walk.said("dead-letters", "orders", "--list", "--payload", "-o", "json"))
    assert (letter["messageId"], letter["raw"]) == (f"m-{STORED}", _large().decode().rstrip())
    site.kubectl("patch", STREAM, "orders", "--type=merge", "--patch", '{"spec":{"payload":{"maxSize":"1Ki"}}}')
    name = re.search(r"replay ([a-z0-9-]+)", walk.said("redrive", "orders", "--reason", "PayloadTooLarge"))
    assert name
    site.wait(REPLAY, name[1], lambda status: status.get("finishedAt"), "all is redriven")
    assert '"n"' in walk.said("message", "orders", f"m-{STORED}", "--payload")
    site.until(lambda: json.loads(walk.said("dead-letters", "orders", "-o", "json")) == [], "none is left")


def _approve_a_purge(site: Site, walk: Walk) -> None:
    rules = [
        {"name": "ordered", "match": {"streamNames": ["order-0"]}},
        {"name": "three", "match": {"messageIds": ["m-3"]}},
    ]
    site.apply(site.policy("old", "orders", approval="Required", rules=rules))
    (stream,) = site.wait(POLICY, "old", lambda status: status.get("phase") == "AwaitingApproval", "it waits")[
        "streams"
    ]
    shown = [line.split()[2:4] for line in walk.said("preview", "old").splitlines()[1:]]
    assert shown == [["all", "26"], ["ordered", "25"], ["three", "1"]]
    listed = json.loads(walk.said("preview", "old", "--list", "-o", "json"))
    assert {one["messageId"]: one["rules"] for one in listed} == {
        **{f"m-{number}": ["ordered"] for number in range(0, STORED + 1, 5)},
        "m-3": ["three"],
    }
    assert "m-3" in walk.said("preview", "old", "--list", "--rule", "three", "--limit", "1")
    walk.said("approve", "old", "--preview", stream["preview"]["id"], "--yes")
    site.wait(POLICY, "old", lambda status: status.get("purged") == 26, "what was approved is gone")
    left = {row["message_id"] for row in read_store(site, "orders").messages}
    assert left == {f"m-{number}" for number in range(STORED)} - {one["messageId"] for one in listed}


def _pause_and_slow_a_replay(site: Site, walk: Walk) -> None:
    files = {"uri": site.uri("again"), "storage": site.storage("lake")}
    site.apply(site.replay("again", "orders", destination={"files": files}, rateLimit={"messagesPerSecond": 1}))
    site.wait(REPLAY, "again", lambda status: status.get("phase") == "Running", "it sends")
    assert walk.said("replay", "pause", "again") == "replay again: is suspended\n"
    site.wait(REPLAY, "again", lambda status: status.get("phase") == "Paused", "it pauses")
    walk.said("replay", "rate", "again", "50")
    assert walk.said("replay", "resume", "again") == "replay again: goes on\n"
    done = site.wait(REPLAY, "again", lambda status: status.get("finishedAt"), "all is sent")
    assert done["progress"]["replayed"] == STORED - 25


def _large() -> bytes:
    content = json.dumps({"n": "x" * (LARGE - len('{"n": ""}'))})
    return f'{{"messageId":"m-{STORED}","streamName":"order-0","type":"Placed","payload":{content}}}\n'.encode()
