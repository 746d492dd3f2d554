"""The examples with a broker do what their pages say: local runs in processes of their own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.documents import RUN_ON_BROKER, check_page
from support.kafkabroker import PASSWORD, USER, Broker
from support.kafkatopics import Record, Topics
from support.local_runs import Done, LocalRuns, render
from support.waiting import scaled

COMMAND = Path(sys.executable).parent / "messagestore"


def event(number: int, kind: str) -> Record:
    headers = {"ce_specversion": "1.0", "ce_id": f"e{number}", "ce_source": "shop", "ce_subject": "7", "ce_type": kind}
    return Record(b'{"n":%d}' % number, headers={name: value.encode() for name, value in headers.items()})


@pytest.mark.long
def test_kafka(topics: Topics, broker: Broker, tmp_path: Path) -> None:
    for name in ("orders", "orders-again"):
        topics.make(name, partitions=2)
    placed, paid = "com.example.order.placed", "com.example.order.paid"
    topics.send("orders", event(1, placed), event(2, paid), event(3, placed), Record(b"no event"))
    text = render("kafka", tmp_path).replace("kafka.messaging.svc:9093", broker.secured(tls=True).bootstrap_servers)
    text = text.replace("alice", USER).replace('"change me"', json.dumps(PASSWORD))
    text = text.replace('"the authority\'s certificate in PEM"', json.dumps(Path(broker.ca_file).read_text()))
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(text)
    line = [str(COMMAND), "run", "-f", str(manifests), "--driver-memory", "1g", "--cores", "1", "-o", "json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=scaled(300), check=False)
    assert done.returncode == 0, done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    stream, job = (item["status"] for item in json.loads(done.stdout)["items"])
    assert (stream["totals"]["stored"], stream["totals"]["deadLettered"], stream["lag"]["records"]) == (3, 1, 0)
    assert job["progress"]["replayed"] == 2
    again = topics.read("orders-again")
    assert sorted(json.loads(record.value or b"")["messageId"] for record in again) == ["shop#e1", "shop#e3"]
    assert {record.key for record in again} == {b"shop-7"}
    assert all(record.headers["x-replay-job"] == b"placed-again" for record in again)


def test_bridge(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two topics of one broker; what comes later is sent by the next run, and nothing twice."""
    here, there = (topics.make(partitions=2) for _ in range(2))
    text = render("bridge", tmp_path).replace("topics: [orders]", f"topics: [{here}]").replace("orders-of-shop", there)
    manifests = re.sub(r"kafka\.\w+\.svc:9092", broker.address, text)
    local_run = LocalRuns(tmp_path / "manifests", spark, monkeypatch)
    key, headers = b"o-1", {"trace": b"\xff\x00"}
    topics.send(here, Record(b"not \xfe text", key, headers, partition=1, timestamp=1_700_000_000_123))
    topics.send(here, Record(None, key, partition=1), Record(b"{}", partition=0))
    assert _bridged(local_run.run_text(manifests)) == 3
    assert _records(topics, there) == _records(topics, here)
    topics.send(here, Record(b"later", key, partition=1))
    assert _bridged(local_run.run_text(manifests)) == 4
    assert _bridged(local_run.run_text(manifests)) == 4
    assert _records(topics, there) == _records(topics, here)
    assert len(_records(topics, here)) == 4


def _bridged(done: Done) -> int:
    """How many records were sent in all rounds."""
    assert done.exit_code == 0, done.stderr
    return int(done.status("ReplayJob/orders-bridge")["replayedTotal"])


def _records(topics: Topics, topic: str) -> list[tuple[object, ...]]:
    """All of a topic's records, partition by partition in their order."""
    found = sorted(topics.read(topic), key=lambda one: (one.partition or 0, one.offset or 0))
    return [record.as_it_is() for record in found]


@pytest.mark.long
def test_topic_restore(broker: Broker, tmp_path: Path) -> None:
    """A walk through docs/howto, in which each order is billed once."""
    page = "docs/howto/lost-topic.md"
    printed = check_page(page, RUN_ON_BROKER[page], tmp_path, {"localhost:9092": broker.address})
    billed = [int(one) for line in re.findall(r"^billed .*: (.*)$", printed, re.M) for one in line.split()]
    assert sorted(billed) == list(range(12))
