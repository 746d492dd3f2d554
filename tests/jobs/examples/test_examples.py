"""Every example does what its README says, to the message."""

import json
import re
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from ruamel.yaml import YAML

from messagestore_core.store.handle import Store
from messagestore_operator.api import parse_resource
from messagestore_operator.cluster.resource_metrics import samples
from support.local_runs import EXAMPLES, Done, LocalRuns, lines, render
from support.stores import stored


def test_github_webhooks(local_run: LocalRuns, tmp_path: Path) -> None:
    done = local_run.run_text(render("github-webhooks", tmp_path))
    assert done.exit_code == 0, done.stderr
    arrived = [json.loads(line) for line in lines(tmp_path / "github-webhooks/landing")]
    old = [one for one in arrived if one["received_at"] < "2026-01-06"]
    held = [one for one in old if one["entity"] == "issue-444500041"]
    assert (len(arrived), len(old), len(held)) == (329, 127, 12)

    stream = done.status("MessageStream/github-webhooks")
    assert (stream["totals"]["received"], stream["totals"]["stored"]) == (329, 329)
    kept = stored(f"file://{tmp_path}/github-webhooks/table")
    assert stream["table"]["messages"] == len(kept) == 329 - 127 + 12

    (policy,) = done.status("RetentionPolicy/webhooks-90-days")["streams"]
    assert (policy["lastPurge"]["purged"], policy["lastPurge"]["archived"], policy["lastPurge"]["held"]) == (
        115,
        115,
        12,
    )
    assert ds.dataset(_archived(tmp_path / "github-webhooks/archive")).count_rows() == 115

    job = done.status("ReplayJob/replay-pull-requests")
    sent = [json.loads(line) for line in lines(tmp_path / "github-webhooks/replayed")]
    wanted = [row for row in kept if row["category"] == "pull_request"]
    assert job["progress"]["replayed"] == len(sent) == len(wanted) == 21
    assert {one["headers"]["x-replay-job"] for one in sent} == {"replay-pull-requests"}
    assert [one["headers"]["x-original-position"] for one in sent] == [str(one["position"]) for one in sent]
    assert _figures(render("github-webhooks", tmp_path), done) >= {
        *("condition", "last_success_timestamp_seconds", "last_run_seconds", "last_run_cpu_seconds"),
        *("last_run_written_bytes", "messages", "dead_letters", "table_bytes", "table_small_files", "records"),
        *("lag_files", "lag_seconds", "last_batch_timestamp_seconds"),
        *("last_batch_stage_seconds", "last_batch_waited_seconds"),
        *("preview_messages", "preview_held_messages", "awaiting_approval"),
        *("last_purge_timestamp_seconds", "last_purge_messages"),
        *("replay_selected_messages", "replay_sent_messages", "replay_broken_messages", "replay_percent"),
    }


def _figures(manifests: str, done: Done) -> set[str]:
    """The figures for Prometheus that have a series, by the statuses after a run."""
    documents = YAML(typ="safe").load_all(manifests)
    resources = [
        parse_resource({**one, "status": done.status(f"{one['kind']}/{one['metadata']['name']}")}) for one in documents
    ]
    return {figure for resource in resources for figure, _, value in samples(resource) if value is not None}


def test_cloudevents(local_run: LocalRuns, tmp_path: Path) -> None:
    done = local_run.run_text(render("cloudevents", tmp_path), "--at", "2026-03-16T00:00:00Z")
    assert done.exit_code == 0, done.stderr
    assert done.status("MessageStream/shop")["totals"] == _totals(received=12, stored=10, duplicates=1, deadLettered=1)
    assert done.status("MessageStream/placed-orders")["totals"] == _totals(received=5, stored=5)
    assert done.status("ReplayJob/placed-orders")["progress"]["replayed"] == 5
    previews = {
        one["name"]: one["preview"]["messages"] for one in done.status("RetentionPolicy/newest-only")["streams"]
    }
    assert previews == {"shop": 5, "placed-orders": 0}
    again = stored(f"file://{tmp_path}/cloudevents/placed-orders")
    assert {row["type"] for row in again} == {"com.example.order.placed"}


@pytest.mark.long
def test_privacy(local_run: LocalRuns, tmp_path: Path) -> None:
    done = local_run.run_text(render("privacy", tmp_path), "--at", "2026-03-16T00:00:00Z")
    assert done.exit_code == 0, done.stderr
    assert done.status("MessageStream/signups")["totals"] == _totals(received=12, stored=12)
    erased = done.status("RetentionPolicy/erase-customer-42")["streams"][0]["lastPurge"]
    scrubbed = done.status("RetentionPolicy/hash-after-a-week")["streams"][0]["lastPurge"]
    assert (erased["purged"], erased["held"]) == (3, 1)
    assert (scrubbed["scrubbed"], scrubbed["held"]) == (5, 2)
    left = {row["message_id"]: row for row in stored(f"file://{tmp_path}/privacy/signups")}
    assert sorted(left) == ["s-1", "s-10", "s-11", "s-2", "s-3", "s-4", "s-5", "s-7", "s-8"]
    named = {key for key, row in left.items() if b"@example.com" in row["payload"]}
    assert named == {"s-2", "s-3", "s-10", "s-11"}
    assert Store(f"file://{tmp_path}/privacy/signups").table("tombstones").to_pyarrow_table().num_rows == 3


@pytest.mark.long
def test_retries(local_run: LocalRuns, tmp_path: Path) -> None:
    manifests, work = render("retries", tmp_path), tmp_path / "retries"
    first = local_run.run_text(manifests, "--at", "2026-03-16T00:00:00Z")
    assert first.exit_code == 0, first.stderr
    stream = first.status("MessageStream/orders")
    assert stream["totals"] == _totals(received=6, stored=6)
    lifecycle = stream["lifecycle"]
    assert lifecycle.pop("unfinished") == {"received": 1, "processing": 0, "failed": 3}
    assert lifecycle == {
        "received": 8,
        "applied": 5,
        "stale": 1,
        "pending": 1,
        "deadLettered": 1,
        "exhausted": 0,
        "expired": 0,
        "retried": 0,
        "timedOut": 0,
        "lagSummary": "0 files",
    }
    assert first.status("ReplayJob/orders-again")["selection"]["messages"] == 0

    second = local_run.run_text(manifests, "--at", "2026-03-16T00:02:00Z")
    assert second.exit_code == 0, second.stderr
    job = second.status("ReplayJob/orders-again")
    assert (job["phase"], job["round"], job["replayedTotal"]) == ("Idle", 1, 2)
    sent = [json.loads(line) for line in lines(work / "again/round-00000001")]
    assert [(one["messageId"], one["headers"]["x-attempt"]) for one in sent] == [("o-2", "2"), ("o-4", "2")]

    answers = [
        {"messageId": "o-2", "status": "COMPLETED", "attempt": 2},
        {"messageId": "o-4", "status": "FAILED", "attempt": 2, "error": "no such article"},
    ]
    (work / "updates/answers.jsonl").write_text("".join(json.dumps(one) + "\n" for one in answers))
    third = local_run.run_text(manifests, "--at", "2026-03-16T00:04:00Z")
    assert third.exit_code == 0, third.stderr
    assert third.status("ReplayJob/orders-again")["round"] == 2
    assert [json.loads(line)["messageId"] for line in lines(work / "again/round-00000002")] == ["o-3"]
    states = {row["message_id"]: (row["status"], row["retries"]) for row in stored(f"file://{work}/orders")}
    assert states == {
        "o-1": ("COMPLETED", 0),
        "o-2": ("COMPLETED", 1),
        "o-3": ("PROCESSING", 1),
        "o-4": ("FAILED", 2),
        "o-5": ("EXPIRED", 0),
        "o-6": ("RECEIVED", 0),
    }


def test_every_example_is_tested() -> None:
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    tested = set(re.findall(r'(?:render\(f?|EXAMPLES / )"([a-z-]+)', "".join(texts)))
    # gitops is for a cluster's tools, and others need a broker: other tests have those.
    by_others = {"bridge", "gitops", "kafka", "topic-restore"}
    assert tested | by_others == {path.name for path in EXAMPLES.iterdir() if path.is_dir()}


def test_every_example_and_every_pattern_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)/`", listed, re.M)) | {"gitops"} == {
        path.name for path in EXAMPLES.iterdir() if path.is_dir()
    }
    patterns = EXAMPLES.parent / "docs/patterns"
    with_examples, _, by_source = (patterns / "README.md").read_text().partition("## By source\n")
    pages, others = (set(re.findall(r"\]\(([a-z-]+\.md)\)", text)) for text in (with_examples, by_source))
    assert pages | others == {path.name for path in patterns.glob("*.md")} - {"README.md"}
    assert set(re.findall(r"docs/patterns/([a-z-]+\.md)", listed)) == pages
    for page in pages:
        example = re.search(r"\]\(\.\./\.\./examples/([a-z-]+)\)", (patterns / page).read_text())
        assert example is not None, page
        assert (EXAMPLES / example[1]).is_dir(), page


def _totals(**given: int) -> dict[str, int]:
    names = ("received", "stored", "duplicates", "deadLettered", "filtered", "discarded", "unknownFields")
    return {name: given.get(name, 0) for name in names}


def _archived(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*.parquet")]
