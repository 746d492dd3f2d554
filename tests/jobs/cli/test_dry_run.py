"""`messagestore run --dry-run` tells what a run then does, and changes nothing."""

import json
import random
from pathlib import Path

import pytest

from messagestore_core.store.folder import FORMAT_VERSION
from messagestore_core.store.layout import MARKER
from support.local_runs import Document, LocalRuns, arrive, lines, policy, record, replay, stream, tree
from support.long import few
from support.stores import stored

COUNTS = ("received", "stored", "duplicates", "deadLettered", "filtered", "discarded")


def some_line(choice: random.Random) -> Document | str:
    """A record that may be stored, come again, be filtered, refused by its version or its expiry, or be none."""
    number = choice.randint(1, 9)
    fields = choice.choice([{}, {}, {"expectedVersion": number % 4 - 1}, {"expiresAt": "2026-04-02T00:00:00Z"}])
    return choice.choice([record(number, **fields)] * 4 + ['{"messageId":', '{"messageId":"x","streamName":""}'])


def tell(local_run: LocalRuns, documents: list[Document], *options: str) -> list[Document]:
    """Try documents; nothing below the folder changes by that."""
    before = tree(local_run.folder.parent)
    done = local_run(documents, "--dry-run", *options)
    assert done.exit_code == 0, done.stderr
    after = tree(local_run.folder.parent)
    after.pop("manifests/manifests.yaml")
    before.pop("manifests/manifests.yaml", None)
    assert after == before
    told: list[Document] = json.loads(done.stdout)
    return told


def ingested(status: Document) -> Document:
    return {name: status["lastRun"][name] for name in COUNTS}


@pytest.mark.parametrize("seed", few(range(6), 5))
def test_an_ingest_does_what_its_dry_run_told(local_run: LocalRuns, tmp_path: Path, seed: int) -> None:
    """Of a store that doesn't exist, and of one that has some of the records."""
    choice = random.Random(seed)
    orders = stream(tmp_path, filter={"where": "message_id <> 'm-8'"})
    orders["spec"]["source"]["files"]["afterIngest"] = "Delete"
    for number in range(2):
        records = [some_line(choice) for _ in range(12)]
        arrive(tmp_path, f"{number}.jsonl", records)
        (told,) = tell(local_run, [orders], "--limit", "100", "--payloads")
        status = local_run([orders]).status("MessageStream/orders")
        counts = {name: told["counts"].get(name, 0) for name in COUNTS}
        assert counts == ingested(status)
        assert counts["received"] == len(records)
        assert len(told["messages"]) == counts["stored"]
        assert all(json.loads(one["payload"])["n"] == int(one["messageId"][2:]) for one in told["messages"])
        assert sum(one["records"] for one in told["deadLetters"]) == counts["deadLettered"]
        assert all(one["reason"] and one["source"]["uri"].endswith(f"{number}.jsonl") for one in told["deadLetters"])


def test_a_policy_takes_what_its_dry_run_listed(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 9)))
    held = {"holds": [{"name": "dispute", "match": {"messageIds": ["m-3"]}}]}
    rules = [{"name": "old", "maxAge": "P30D"}, {"name": "one", "match": {"messageIds": ["m-4", "m-5"]}}]
    of_days = policy("of-days", mode="DryRun", rules=rules[:1])
    documents = [stream(tmp_path, **held), policy(rules=rules), of_days]
    listed = tmp_path.with_suffix(".jsonl")
    by_name = {one["name"]: one for one in tell(local_run, documents, "--limit", "2", "--list-to", str(listed))}
    assert by_name["retention"]["counts"] == {"selected": 4, "held": 1, "undecided": 0, "rule old": 3, "rule one": 2}
    assert by_name["of-days"]["note"] == "with what retentionpolicy/retention would remove first"
    every = [json.loads(line) for line in listed.read_text().splitlines()]
    rows = [row for row in every if row["name"] == "retention"]
    assert by_name["retention"]["messages"] == [
        {name: value for name, value in row.items() if name not in ("kind", "name", "stream")} for row in rows[:2]
    ]
    assert {row["messageId"]: row["rules"] for row in rows}["m-5"] == ["old", "one"]
    assert local_run(documents).exit_code == 0
    left = {row["message_id"] for row in stored(f"file://{tmp_path}/orders")}
    assert {f"m-{number}" for number in range(1, 9)} - left == {row["messageId"] for row in rows}


def test_a_replay_sends_what_its_dry_run_listed(local_run: LocalRuns, tmp_path: Path) -> None:
    """Once, or behind the cursor of a subscription; what has ended sends nothing more."""
    orders = stream(tmp_path)
    some = replay(tmp_path, select={"where": "message_id <> 'm-2'", "limit": 4}, order="Global")
    going_on = replay(tmp_path, "going-on", start={"at": "Beginning"}, trigger={"manual": {}})
    documents = [orders, some, going_on]
    sent = {name: list[str]() for name in ("again", "going-on")}
    for number in (1, 5):
        arrive(tmp_path, f"{number}.jsonl", map(record, range(number, number + 4)))
        told = {one["name"]: one for one in tell(local_run, documents)}
        assert local_run(documents).exit_code == 0
        for name, before in sent.items():
            sent[name] = [json.loads(line)["messageId"] for line in lines(tmp_path / name)]
            assert [row["messageId"] for row in told[name]["messages"]] == sent[name][len(before) :]
            assert told[name]["counts"]["selected"] == len(sent[name]) - len(before)
    assert (len(sent["again"]), len(sent["going-on"])) == (3, 8)


def test_what_would_fail_is_told_in_words_about_the_store(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    marker = {"formatVersion": FORMAT_VERSION, "owner": {"namespace": "default", "name": "orders"}}
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / MARKER).write_text(json.dumps(marker))
    mine = {**stream(tmp_path), "metadata": {"name": "mine"}}
    done = local_run([mine, replay(tmp_path, of="mine")], "--dry-run", "-o", "table")
    assert done.exit_code == 1
    assert f"messagestream/mine: it would fail: TableRefused: file://{tmp_path}/orders belongs to" in done.stdout
    assert "replayjob/again: it would fail: StreamFailed" in done.stdout
    assert "dry-run" not in done.stdout.replace("dry run", "")
