"""A store's whole life in the cluster, with real webhooks: the status matches the tables."""

import json
from pathlib import Path
from typing import Any

import yaml

from support.laws import Source, Store, check_laws, check_replayed, read_store
from support.local_runs import EXAMPLES
from support.site import POLICY, REPLAY, STREAM, Site

EXAMPLE = EXAMPLES / "github-webhooks"
HELD = "issue-444500041"
LEAVING, REPLAYED = ["discussion", "issue"], ["check_run", "pull_request"]


def test_webhooks_are_ingested_purged_and_replayed_and_the_status_matches_the_tables(site: Site) -> None:
    landed = _landing(EXAMPLE).read_bytes()
    site.land("github-webhooks/1.jsonl", landed)
    wanted = yaml.safe_load((EXAMPLE / "1-stream.yaml").read_text())["spec"]
    del wanted["table"], wanted["source"], wanted["trigger"]
    site.apply(site.stream("github-webhooks", **wanted))
    before = site.ran(STREAM, "github-webhooks")
    taken_in = read_store(site, "github-webhooks")
    _check_status(before, taken_in)

    archive = {"uri": site.uri("archive"), "format": "Parquet", "storage": site.storage()}
    rules = [{"name": "issues", "match": {"categories": LEAVING}}]
    site.apply(site.policy("issues", "github-webhooks", rules=rules, archive=archive))
    # The two share no data, so they run at the same time.
    site.apply(site.replay("replayed", "github-webhooks", select={"categories": REPLAYED}))
    _check_purge(
        site.wait(POLICY, "issues", _purged, "a purge"), taken_in, read_store(site, "github-webhooks", "archive")
    )
    _check_replay(site, site.wait(REPLAY, "replayed", _complete, "complete"), taken_in)
    check_laws(read_store(site, "github-webhooks", "archive"), webhooks(landed))


def webhooks(landed: bytes) -> Source:
    """The example's source, read with plain Python."""

    def message(line: bytes) -> tuple[str, Any]:
        record = json.loads(line)
        return record["headers"]["X-GitHub-Delivery"], record["body"]

    return Source(landed.splitlines(), message, wanted=lambda line: json.loads(line)["body"] != {})


def _landing(example: Path) -> Path:
    (file,) = (example / "landing").glob("*.jsonl")
    return file


def _purged(status: dict[str, Any]) -> bool:
    return any(stream.get("lastPurge") for stream in status.get("streams", []))


def _complete(status: dict[str, Any]) -> bool:
    return any(one["type"] == "Complete" and one["status"] == "True" for one in status.get("conditions", []))


def _check_status(status: dict[str, Any], store: Store) -> None:
    assert status["totals"] == store.totals
    table = status["table"]
    assert (table["messages"], table["deadLetters"]) == (len(store.messages), len(store.dead_letters))
    assert table["lastGlobalPosition"] == max(row["global_position"] for row in store.messages)
    assert status["lag"]["files"] == 0


def _check_purge(status: dict[str, Any], before: Store, after: Store) -> None:
    matched = [row for row in before.messages if row["category"] in LEAVING]
    held = [row for row in matched if row["stream_name"] == HELD]
    assert held
    (of_stream,) = status["streams"]
    purge = of_stream["lastPurge"]
    assert (purge["purged"], purge["archived"], purge["held"]) == (
        len(matched) - len(held),
        len(matched) - len(held),
        len(held),
    )
    gone = {row["message_id"] for row in matched} - {row["message_id"] for row in held}
    assert {row["message_id"] for row in after.archived} == gone
    assert {row["message_id"] for row in after.messages} == {row["message_id"] for row in before.messages} - gone


def _check_replay(site: Site, status: dict[str, Any], before: Store) -> None:
    assert "replayed/manifest.json" in site.objects("replayed")
    sent = site.sent("replayed")
    selected = [row for row in before.messages if row["category"] in REPLAYED]
    assert selected
    check_replayed(sent, selected)
    assert (status["selection"]["messages"], status["progress"]["replayed"]) == (len(selected), len(selected))
