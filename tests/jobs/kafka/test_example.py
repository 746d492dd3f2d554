"""The examples with a broker do what their pages say: local runs in processes of their own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.documents import RUN_ON_BROKER, check_page
from support.kafkabroker import PASSWORD, USER, Broker
from support.kafkatopics import Record, Topics
from support.local_runs import render
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


@pytest.mark.long
def test_topic_restore(broker: Broker, tmp_path: Path) -> None:
    """A walk through docs/howto, in which each order is billed once."""
    page = "docs/howto/lost-topic.md"
    printed = check_page(page, RUN_ON_BROKER[page], tmp_path, {"localhost:9092": broker.address})
    billed = [int(one) for line in re.findall(r"^billed .*: (.*)$", printed, re.M) for one in line.split()]
    assert sorted(billed) == list(range(12))
