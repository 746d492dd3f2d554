"""What a local run does and prints, and its exit code."""

import fcntl
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from messagestore_core.store.audit import rows_of
from messagestore_core.store.handle import Store
from support.keys import HUSH
from support.local_runs import AT, Document, LocalRuns, arrive, policy, record, replay, stream, tree
from support.stores import stored

ORDERS, AGAIN = "MessageStream/orders", "ReplayJob/again"


def test_status_adds_up_with_the_sources_bytes(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [*map(record, range(1, 9)), record(3), '{"messageId":', "[1]"])
    done = local_run([stream(tmp_path, filter={"where": "message_id <> 'm-8'"})])
    assert done.exit_code == 0
    status = done.status(ORDERS)
    lines = (tmp_path / "landing/a.jsonl").read_bytes().count(b"\n")
    assert status["totals"] == {
        "received": lines,
        "stored": 7,
        "duplicates": 1,
        "deadLettered": 2,
        "filtered": 1,
        "discarded": 0,
        "unknownFields": 0,
    }
    assert lines == 7 + 1 + 2 + 1
    assert status["table"]["messages"] == len(stored(f"file://{tmp_path}/orders")) == 7
    assert status["table"]["deadLetters"] == 2
    assert status["lag"]["files"] == 0
    assert status["phase"] == "Idle"
    assert status["conditions"][0]["message"] == "7 messages stored; last batch 0s ago"
    assert done.ready(ORDERS) == ("True", "Ingesting")
    assert json.loads(done.stdout)["kind"] == "List"


def test_a_source_folder_without_files_is_ready_with_a_reason_until_a_file_was_read(
    local_run: LocalRuns, tmp_path: Path
) -> None:
    for _ in range(2):
        done = local_run([stream(tmp_path)])
        assert (done.exit_code, done.ready(ORDERS)) == (0, ("True", "SourceNotFound"))
    arrive(tmp_path, "a.jsonl", [record(1)])
    assert local_run([stream(tmp_path)]).ready(ORDERS) == ("True", "Ingesting")
    (tmp_path / "landing/a.jsonl").unlink()
    assert local_run([stream(tmp_path)]).ready(ORDERS) == ("True", "Ingesting")


def test_a_second_run_goes_on(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 5)))
    assert local_run([stream(tmp_path)]).exit_code == 0
    arrive(tmp_path, "b.jsonl", map(record, range(4, 8)))
    status = local_run([stream(tmp_path)]).status(ORDERS)
    assert (status["lastRun"]["received"], status["lastRun"]["stored"], status["lastRun"]["duplicates"]) == (4, 3, 1)
    assert (status["totals"]["received"], status["totals"]["stored"]) == (8, 7)
    third = local_run([stream(tmp_path)]).status(ORDERS)
    assert third["lastRun"]["received"] == 0
    assert third["totals"] == status["totals"]
    assert third["lastBatchTime"] == AT


def test_resources_in_order_on_one_store(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 11)))
    archive = {"uri": f"file://{tmp_path}/archive", "format": "JSONLines"}
    done = local_run([stream(tmp_path), policy(archive=archive), replay(tmp_path)])
    assert done.exit_code == 0
    purge = done.status("RetentionPolicy/retention")["streams"][0]["lastPurge"]
    assert (purge["purged"], purge["archived"]) == (5, 5)
    # The stream's status is from the end, not from when its own run ended.
    assert done.status(ORDERS)["table"]["messages"] == 5
    assert done.status(ORDERS)["totals"]["stored"] == 10
    job = done.status("ReplayJob/again")
    assert (job["phase"], job["selection"]["messages"], job["progress"]["replayed"]) == ("Succeeded", 5, 5)
    assert {one["type"] for one in job["conditions"]} == {"Ready", "Complete"}
    sent = [json.loads(line) for part in (tmp_path / "again").glob("part-*") for line in part.read_text().splitlines()]
    assert sorted(one["messageId"] for one in sent) == ["m-10", "m-2", "m-4", "m-6", "m-8"]


def test_after_a_replay_into_a_stream_both_say_what_they_have(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [*map(record, range(1, 4)), "no record"])
    into_copy = {"destination": {"stream": {"name": "copy"}}}
    copies = replay(tmp_path, **into_copy)
    redrives = replay(tmp_path, "redrive", origin="DeadLetters", **into_copy)
    done = local_run([stream(tmp_path), stream(tmp_path, "copy", suspend=True), copies, redrives])
    assert done.exit_code == 0
    orders, copy = done.status(ORDERS)["table"], done.status("MessageStream/copy")["table"]
    assert (orders["messages"], orders["deadLetters"], orders["deadLettersByReason"]) == (3, 0, [])
    assert (copy["messages"], copy["deadLetters"], copy["lastGlobalPosition"]) == (3, 1, 3)
    assert copy["deadLettersByReason"] == [{"reason": "Unparseable", "count": 1}]


def test_the_option_at_sets_the_time_of_a_run(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 5)))
    early = local_run([stream(tmp_path), policy()], "--at", "2026-03-02T01:00:00+01:00")
    assert early.status("RetentionPolicy/retention")["streams"][0]["lastPurge"]["purged"] == 0
    assert early.ready("RetentionPolicy/retention") == ("True", "NothingToRemove")
    assert early.status(ORDERS)["lastRun"]["startedAt"] == "2026-03-02T00:00:00Z"
    late = local_run([stream(tmp_path), policy()], "--at", "2026-03-31T12:00:00Z")
    assert late.status("RetentionPolicy/retention")["streams"][0]["lastPurge"]["purged"] == 2
    inserted = {row["inserted_at"] for row in stored(f"file://{tmp_path}/orders")}
    assert inserted == {datetime(2026, 3, 2, tzinfo=UTC)}


def test_a_due_erasure_runs_right_after_its_purge(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 4)))
    gone = {"name": "gone", "match": {"messageIds": ["m-2"]}, "erase": True}
    asked = [stream(tmp_path), policy(rules=[gone], erasure={"within": "P1D"})]
    early = local_run(asked, "--at", "2026-03-02T00:00:00Z").status("RetentionPolicy/retention")["streams"][0]
    assert early["lastPurge"]["eraseDueBy"] == "2026-03-03T00:00:00Z"
    assert "erasedAt" not in early["lastPurge"]
    late = local_run(asked, "--at", "2026-03-03T00:00:00Z").status("RetentionPolicy/retention")["streams"][0]
    assert late["lastPurge"]["erasedAt"] == "2026-03-03T00:00:00Z"
    assert (late["lastRun"]["kind"], late["lastRun"]["state"]) == ("erase", "Succeeded")
    assert "sealed archives" in late["lastPurge"]["possibleCopies"][0]


@pytest.mark.parametrize("fails", [True, False])
def test_neither_a_purge_that_fails_nor_a_preview_delays_an_erasure(
    local_run: LocalRuns, tmp_path: Path, fails: bool
) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 5)))
    asked = {"rules": [{"name": "gone", "match": {"messageIds": ["m-2"]}, "erase": True}], "erasure": {"within": "P1D"}}
    local_run([stream(tmp_path), policy(**asked)], "--at", "2026-03-02T00:00:00Z")
    assert len(rows_of(Store(f"file://{tmp_path}/orders"), "Erase")) == 0
    (tmp_path / "taken").write_text("no folder")
    archive = {"uri": f"file://{tmp_path}/taken"}
    later = {"rules": [{"name": "old", "maxAge": "PT1S"}], "archive": archive} if fails else {**asked, "mode": "DryRun"}
    done = local_run([stream(tmp_path), policy(**later)], "--at", "2026-03-03T00:00:00Z")
    assert len(rows_of(Store(f"file://{tmp_path}/orders"), "Erase")) == 1
    last = done.status("RetentionPolicy/retention")["streams"][0]["lastRun"]
    assert (done.exit_code, last["kind"], last["state"]) == (
        (1, "purge", "Failed") if fails else (0, "erase", "Succeeded")
    )


def test_a_purged_message_is_a_duplicate_for_as_long_as_the_stream_says(local_run: LocalRuns, tmp_path: Path) -> None:
    remembering = stream(tmp_path, deduplication={"rememberPurged": "P30D"})
    arrive(tmp_path, "a.jsonl", map(record, range(1, 5)))
    assert (
        local_run([remembering, policy()]).status("RetentionPolicy/retention")["streams"][0]["lastPurge"]["purged"] == 2
    )

    def counts_of(name: str, *options: str) -> tuple[int, int]:
        arrive(tmp_path, name, map(record, range(1, 5)))
        told = local_run([remembering], *options).status(ORDERS)["lastRun"]
        return told["stored"], told["duplicates"]

    assert counts_of("b.jsonl") == (0, 4)
    assert counts_of("c.jsonl", "--at", "2026-05-06T00:00:00Z") == (2, 2)


def test_a_dry_run_only_previews(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 5)))
    done = local_run([stream(tmp_path), policy(mode="DryRun")])
    status = done.status("RetentionPolicy/retention")
    assert status["streams"][0]["preview"]["byRule"] == {"old": 2}
    assert "lastPurge" not in status["streams"][0]
    assert done.status(ORDERS)["table"]["messages"] == 4


def test_an_approval_is_waited_for(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 5)))
    asked = policy(approval="Required")
    waiting = local_run([stream(tmp_path), asked])
    status = waiting.status("RetentionPolicy/retention")
    assert (waiting.exit_code, status["phase"]) == (0, "AwaitingApproval")
    preview = status["streams"][0]["preview"]["id"]
    asked["metadata"]["annotations"] = {"messagestore.dev/approved-preview": preview}
    done = local_run([stream(tmp_path), asked])
    assert done.status("RetentionPolicy/retention")["streams"][0]["lastPurge"]["purged"] == 2


def test_a_secret_reaches_the_job_and_nobody_else(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1, headers={"X-Customer": "ada-lovelace"}), record(2)])
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"key": HUSH}}
    scrub = {"headers": ["x-customer"], "method": "Hash", "keySecretRef": {"name": "key"}}
    done = local_run([secret, stream(tmp_path), policy(action="Scrub", scrub=scrub)])
    assert done.exit_code == 0
    assert done.status("RetentionPolicy/retention")["streams"][0]["lastPurge"]["scrubbed"] == 1
    assert HUSH not in done.stdout + done.stderr
    assert "ada-lovelace" not in str(stored(f"file://{tmp_path}/orders"))
    assert not any(HUSH.encode() in content for content in tree(tmp_path / "orders").values())


def test_a_suspended_resource_is_not_run(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    before = tree(tmp_path / "landing")
    asleep = {"suspend": True}
    done = local_run([stream(tmp_path, **asleep), policy(**asleep), replay(tmp_path, **asleep)])
    assert done.exit_code == 0
    phases = [item["status"]["phase"] for item in done.items.values()]
    assert phases == ["Suspended", "Suspended", "Paused"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["landing", "manifests"]
    assert tree(tmp_path / "landing") == before


def test_wrong_manifests_touch_nothing(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    user = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "credentialsSecretRef": {"name": "nobody"}}
    kafka = {"bootstrapServers": "kafka:9092", "topics": ["orders"], "security": user}
    documents = [
        stream(tmp_path),
        stream(tmp_path, "far", table={"uri": "s3a://lake/far"}),
        stream(tmp_path, "topic", source={"kafka": kafka}),
        policy(streams=["orders", "nowhere"], archive={"uri": f"file://{tmp_path}/orders/archive"}),
        policy("hash", action="Scrub", scrub={"headers": ["a"], "method": "Hash", "keySecretRef": {"name": "gone"}}),
        replay(tmp_path, order="Sideways"),
    ]
    done = local_run(documents)
    assert (done.exit_code, done.stdout) == (2, "")
    for said in (
        "spec.table.uri: must be file:///",
        "spec.source.kafka.security.credentialsSecretRef.name: there is no Secret nobody",
        "spec.streamRefs[1].name: there is no MessageStream nowhere",
        "spec.archive.uri: is in the table folder of MessageStream orders",
        "spec.scrub.keySecretRef.name: there is no Secret gone",
        "spec.order: must be one of",
    ):
        assert said in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["landing", "manifests"]


@pytest.mark.parametrize("option", [("--at", "yesterday"), ("--at", "2026-04-06"), ("--wait", "P1M"), ("--cores", "0")])
def test_wrong_options_are_refused(local_run: LocalRuns, tmp_path: Path, option: tuple[str, str]) -> None:
    assert local_run([stream(tmp_path)], *option).exit_code == 2
    assert not (tmp_path / "orders").exists()


def test_a_folder_with_something_else_is_refused_untouched(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders/thesis.txt").write_text("all of it")
    done = local_run([stream(tmp_path), policy(), replay(tmp_path), stream(tmp_path, "others")])
    assert done.exit_code == 1
    assert tree(tmp_path / "orders") == {"thesis.txt": b"all of it"}
    assert done.status(ORDERS)["phase"] == "Stalled"
    assert done.ready(ORDERS) == ("False", "TableRefused")
    # Resources that depend on it don't run, and say so; the others run.
    assert done.ready("RetentionPolicy/retention") == ("False", "StreamFailed")
    assert done.ready("ReplayJob/again") == ("False", "StreamFailed")
    assert not (tmp_path / "again").exists()
    assert done.status("MessageStream/others")["totals"]["stored"] == 1


def test_another_streams_table_is_refused_until_it_is_adopted(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    assert local_run([stream(tmp_path)]).exit_code == 0
    before = tree(tmp_path / "orders")
    heir = stream(tmp_path, "heir", table={"uri": f"file://{tmp_path}/orders"})
    done = local_run([heir])
    assert (done.exit_code, done.ready("MessageStream/heir")) == (1, ("False", "TableRefused"))
    assert "default/orders" in done.stderr
    assert tree(tmp_path / "orders") == before
    heir["metadata"]["annotations"] = {"messagestore.dev/adopt-table": f"file://{tmp_path}/orders"}
    adopted = local_run([heir])
    assert adopted.exit_code == 0
    assert adopted.status("MessageStream/heir")["totals"]["duplicates"] == 1


def test_another_namespaces_table_is_adopted_where_its_stream_releases_it(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    assert local_run([stream(tmp_path)]).exit_code == 0
    heir = stream(tmp_path, "heir", table={"uri": f"file://{tmp_path}/orders"})
    annotations = {"messagestore.dev/adopt-table": f"file://{tmp_path}/orders"}
    heir["metadata"] |= {"namespace": "shop", "annotations": annotations}
    done = local_run([heir])
    assert (done.exit_code, done.ready("MessageStream/heir")) == (1, ("False", "TableRefused"))
    assert "another namespace's MessageStream" in done.stderr
    old = stream(tmp_path, suspend=True)
    old["metadata"]["annotations"] = {"messagestore.dev/release-table-to": "shop/heir"}
    adopted = local_run([old, heir])
    assert adopted.exit_code == 0
    assert adopted.status("MessageStream/heir")["totals"]["duplicates"] == 1
    released = local_run([{**old, "spec": {**old["spec"], "suspend": False}}])
    assert (released.exit_code, released.ready(ORDERS)) == (1, ("False", "TableReleased"))


def test_a_busy_table_is_waited_for_and_never_written(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    with (tmp_path / "orders.messagestore-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = local_run([stream(tmp_path), replay(tmp_path)], "--wait", "300ms")
    assert done.exit_code == 1
    assert "another run is writing" in done.stderr
    assert "waiting" in done.stderr
    assert done.ready(ORDERS) == ("False", "TableBusy")
    assert done.status(ORDERS)["phase"] == "Failing"
    assert not (tmp_path / "orders").exists()
    assert local_run([stream(tmp_path)]).status(ORDERS)["totals"]["stored"] == 1


def test_yaml_and_tables_say_the_same(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 4)))
    assert local_run([stream(tmp_path)]).exit_code == 0
    as_json = json.loads(local_run([stream(tmp_path, suspend=True)]).stdout)
    assert yaml.safe_load(local_run([stream(tmp_path, suspend=True)], "-o", "yaml").stdout) == as_json
    table = local_run([stream(tmp_path, suspend=True)], "-o", "table").stdout.splitlines()
    assert table[0].split() == ["NAME", "READY", "PHASE", "MESSAGES", "LAG", "DEAD", "LAST-BATCH", "OLDEST", "AGE"]
    assert table[1].split() == ["orders", "True", "Suspended", "3", "0", "0s", "36d"]


def test_a_lists_own_output_can_be_run_again(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    first = local_run([stream(tmp_path)])
    second = local_run.run_text(first.stdout, "--at", "2026-04-07T00:00:00Z")
    status = second.status(ORDERS)
    assert len(status["recentRuns"]) == 2
    assert status["conditions"][0]["lastTransitionTime"] == AT


def the_first(count: int, start: int = 1) -> Document:
    return {"globalPositions": {"from": start, "to": start + count - 1}}


def test_a_replay_that_is_made_again_under_its_name_sends_what_it_asks_for_now(
    local_run: LocalRuns, tmp_path: Path
) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 7)))
    (tmp_path / "other").mkdir()
    copy = stream(tmp_path, "copy", source={"files": {"uri": f"file://{tmp_path}/other"}})
    streams, to = [stream(tmp_path), copy], {"stream": {"name": "copy"}}

    def copied(**spec: Any) -> set[str]:
        done = local_run([*streams, replay(tmp_path, destination=to, **spec)])
        assert (done.exit_code, done.status(AGAIN)["phase"]) == (0, "Succeeded")
        return {row["message_id"] for row in stored(f"file://{tmp_path}/copy")}

    assert copied(select=the_first(2)) == {"m-1", "m-2"}
    assert copied(select=the_first(2, 3)) == {"m-1", "m-2", "m-3", "m-4"}
    before = tree(tmp_path / "copy/messages")
    assert len(copied(select=the_first(2), rateLimit={"messagesPerSecond": 1000})) == 4
    assert len(copied(select=the_first(2, 3))) == 4
    assert tree(tmp_path / "copy/messages") == before
    # An earlier release noted no more than that a replay of this name has ended.
    ended = tmp_path / "copy/_replays/default.again/ended.json"
    ended.write_text(json.dumps({k: v for k, v in json.loads(ended.read_text()).items() if k != "asked"}))
    assert len(copied(select=the_first(1, 6))) == 4


def test_a_folder_with_what_another_replay_sent_is_refused(local_run: LocalRuns, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 7)))
    assert local_run([stream(tmp_path), replay(tmp_path, select=the_first(2))]).exit_code == 0
    before = tree(tmp_path / "again")
    assert local_run([stream(tmp_path), replay(tmp_path, select=the_first(2))]).exit_code == 0
    manifest = tmp_path / "again/manifest.json"
    of_earlier_release = {k: v for k, v in json.loads(manifest.read_text()).items() if k != "asked"}
    for content in (before["manifest.json"], json.dumps(of_earlier_release).encode()):
        manifest.write_bytes(content)
        done = local_run([stream(tmp_path), replay(tmp_path, select=the_first(3))])
        assert (done.exit_code, done.ready(AGAIN)) == (1, ("False", "DestinationNotEmpty"))
        assert "what replay default.again has sent" in done.stderr
        assert tree(tmp_path / "again") == before | {"manifest.json": content}
    elsewhere = {"files": {"uri": f"file://{tmp_path}/elsewhere"}}
    done = local_run([stream(tmp_path), replay(tmp_path, select=the_first(3), destination=elsewhere)])
    assert done.status(AGAIN)["progress"]["replayed"] == 3
    # A store that is made again is another one, whose messages nobody has sent.
    shutil.rmtree(tmp_path / "orders")
    done = local_run([stream(tmp_path), replay(tmp_path, select=the_first(3), destination=elsewhere)])
    assert done.ready(AGAIN) == ("False", "DestinationNotEmpty")
