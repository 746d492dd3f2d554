"""`messagestore run --dry-run` of a stream that reads a topic of a real broker."""

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from support.kafkabroker import Broker
from support.kafkatopics import Topics
from support.local_runs import LocalRuns, record, stream, tree
from support.stores import stored


def test_a_dry_run_counts_unread_committed_records_and_changes_neither_store_nor_broker(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, topic = tmp_path / "work", topics.make(partitions=2)
    work.mkdir()
    source = {"kafka": {"bootstrapServers": broker.address, "topics": [topic]}}
    local_run = LocalRuns(tmp_path / "manifests", spark, monkeypatch)
    orders, admin = [stream(work, source=source)], AdminClient({"bootstrap.servers": broker.address})

    def send(*numbers: int, commit: bool) -> None:
        topics.send(topic, *(json.dumps(record(number)).encode() for number in numbers), commit=commit)

    def told() -> tuple[dict[str, int], list[str]]:
        before, groups = tree(work), {group.group_id for group in admin.list_consumer_groups().result().valid}
        done = local_run(orders, "--dry-run")
        assert done.exit_code == 0, done.stderr
        assert (tree(work), {group.group_id for group in admin.list_consumer_groups().result().valid}) == (
            before,
            groups,
        )
        (one,) = json.loads(done.stdout)
        return one["counts"], sorted(row["messageId"] for row in one["messages"])

    send(1, 2, commit=True)
    send(3, commit=False)
    topics.send(topic, b"no record", commit=True)
    counts, ids = told()
    assert (counts["received"], counts["stored"], counts["deadLettered"], ids) == (3, 2, 1, ["m-1", "m-2"])
    assert local_run(orders).exit_code == 0
    send(2, 4, commit=True)
    counts, ids = told()
    assert (counts["received"], counts["stored"], counts["duplicates"], ids) == (2, 1, 1, ["m-4"])
    assert {row["message_id"] for row in stored(f"file://{work}/orders")} == {"m-1", "m-2"}
    assert local_run(orders).exit_code == 0
    assert {row["message_id"] for row in stored(f"file://{work}/orders")} == {"m-1", "m-2", "m-4"}
