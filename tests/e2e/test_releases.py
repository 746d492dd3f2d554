"""Helm upgrades the release, rolls it back and tests it, in the cluster."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.helm import helm
from support.kind import RELEASE, REPOSITORY, Cluster, released, upgraded
from support.laws import Source, check_laws, check_replayed, read_store
from support.records import message, records
from support.site import POLICY, REPLAY, STREAM, Site

EARLIER = os.environ.get("MESSAGESTORE_EARLIER", "HEAD")
"""The commit that is the earlier release; its images get another version."""
CONTINUOUS = {"continuous": {"batchInterval": "PT2S"}}
_VERSION = re.compile(r'^((?:appV|v)ersion(?::| =) )"?[0-9.]+"?$', re.MULTILINE)


@pytest.fixture
def earlier(cluster: Cluster, tmp_path: Path) -> Path:
    """The source tree of an earlier release, whose images are in the cluster's node."""
    archive = subprocess.run(["git", "archive", EARLIER], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "--extract"], cwd=tmp_path, input=archive, check=True)
    for name in ("pyproject.toml", "charts/message-store-operator/Chart.yaml"):
        path = tmp_path / name
        path.write_text(_VERSION.sub(r'\1"0.0.1"', path.read_text()))
    subprocess.run([sys.executable, "-m", "hack.cluster", "images"], cwd=tmp_path, check=True)
    return tmp_path


def image_of(site: Site, run: str) -> str:
    """The tag of the image of a run's driver."""
    pod = json.loads(site.kubectl("get", "pod", f"{run}-driver", "--output", "json"))
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]


def freeze(site: Site, name: str, *ids: str) -> str:
    """Apply a policy that removes messages of carts once it is approved; returns its preview's id."""
    rules = [{"name": "chosen", "match": {"messageIds": ids}}]
    archive = {"uri": site.uri("archive"), "format": "Parquet", "storage": site.storage()}
    site.apply(site.policy(name, "carts", rules=rules, approval="Required", archive=archive))
    (stream,) = site.wait(POLICY, name, lambda it: it.get("phase") == "AwaitingApproval", "it waits")["streams"]
    return str(stream["preview"]["id"])


def approve(site: Site, name: str, preview: str) -> None:
    """Approve a preview, and wait until the two messages that it has are gone."""
    annotation = f"messagestore.dev/approved-preview={preview}"
    site.kubectl("annotate", POLICY, name, annotation, "messagestore.dev/approved-by=test")
    site.wait(POLICY, name, lambda it: it.get("purged") == 2, "what was frozen before is purged")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_runs_under_way_go_on_through_an_upgrade_and_a_rollback(site: Site, earlier: Path) -> None:
    parts = [records(range(first, first + 20)) for first in (0, 20, 40)]
    carts = records(range(2000))
    runs: dict[str, str] = {}

    def stores(name: str, count: int) -> None:
        status = site.wait(STREAM, name, lambda it: it.get("totals", {}).get("stored") == count, f"{count} are stored")
        assert runs.setdefault(name, status["currentRun"]["name"]) == status["currentRun"]["name"]

    with released(earlier):
        site.land("orders/0.jsonl", parts[0])
        site.land("carts/0.jsonl", carts)
        site.apply(site.stream(trigger=CONTINUOUS), site.stream("carts"))
        stores("orders", 20)
        site.ran(STREAM, "carts")
        selected = read_store(site, "carts").messages
        # Without another limit it sends for longer than this test may take.
        site.apply(site.replay("slow", "carts", rateLimit={"messagesPerSecond": 1}))
        before = freeze(site, "before", "m-1", "m-2")
        slow = site.wait(REPLAY, "slow", lambda it: it.get("progress", {}).get("replayed", 0) > 0, "it sends")
        with released(REPOSITORY):
            # Spark makes another one, of the earlier image.
            executors = f"spark-role=executor,messagestore.dev/run={runs['orders']}"
            site.kubectl("delete", "pod", "--selector", executors, "--wait=false")
            site.land("orders/1.jsonl", parts[1])
            site.land("later/0.jsonl", parts[0])
            site.apply(site.stream("later", trigger=CONTINUOUS))
            stores("orders", 40)
            stores("later", 20)
            assert (image_of(site, runs["orders"]), image_of(site, runs["later"])) == ("0.0.1", "0.1.0")
            approve(site, "before", before)
            after = freeze(site, "after", "m-3", "m-4")
        site.land("orders/2.jsonl", parts[2])
        site.land("later/1.jsonl", parts[1])
        stores("orders", 60)
        stores("later", 40)
        approve(site, "after", after)
        assert site.status(REPLAY, "slow")["currentRun"]["name"] == slow["currentRun"]["name"]
        site.kubectl(
            "patch", REPLAY, "slow", "--type=merge", "--patch", '{"spec":{"rateLimit":{"messagesPerSecond":10000}}}'
        )
        sent = site.wait(REPLAY, "slow", lambda it: it.get("phase") == "Succeeded", "all is sent")
        assert (sent["progress"]["replayed"], sent["runNumber"]) == (len(selected), slow["runNumber"])
    for name in ("orders", "later"):
        site.kubectl("patch", STREAM, name, "--type=merge", "--patch", '{"spec":{"suspend":true}}')
        ended = site.wait(STREAM, name, lambda it: not it.get("currentRun"), "it stops when it is asked to")
        assert (ended["lastRun"]["name"], ended["lastRun"]["state"], ended["runNumber"]) == (runs[name], "Succeeded", 1)
    launched = [application["metadata"]["name"] for application in site.items("sparkapplication")]
    assert len(launched) == 8, launched  # one of each stream and of the replay, and two of each policy
    for name, landed in (("orders", b"".join(parts)), ("later", b"".join(parts[:2])), ("carts", carts)):
        check_laws(read_store(site, name, "archive" if name == "carts" else None), Source(landed.splitlines(), message))
    check_replayed(site.sent("slow"), selected)


@pytest.mark.long
def test_helm_test_stores_purges_and_replays_on_a_bucket_and_leaves_nothing(site: Site) -> None:
    test = {"uri": site.uri("helm-test"), "namespace": site.namespace, "storage": site.storage()}
    with upgraded(f"test={json.dumps(test)}"):
        said = helm("test", *RELEASE, "--timeout", "20m")
    assert said.count("Phase:          Succeeded") == 4, said
    assert site.objects("helm-test") == []
    assert site.items(STREAM) == []
