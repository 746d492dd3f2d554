"""Helm upgrades the release, rolls it back and tests it, in the cluster."""

import json

import pytest

from support.helm import helm
from support.kind import RELEASE, upgraded
from support.laws import Source, check_laws, read_store, totals
from support.records import message, records
from support.site import STREAM, Site


@pytest.mark.long
def test_a_run_under_way_goes_on_through_an_upgrade_and_a_rollback(site: Site) -> None:
    parts = [records(range(first, first + 20)) for first in (0, 20, 40)]
    site.land("orders/0.jsonl", parts[0])
    site.apply(site.stream(trigger={"continuous": {"batchInterval": "PT2S"}}))
    before = site.wait(STREAM, "orders", lambda status: status.get("totals", {}).get("stored") == 20, "all is stored")
    run = before["currentRun"]["name"]
    with upgraded('podAnnotations.release="next"'):
        site.land("orders/1.jsonl", parts[1])
        site.wait(
            STREAM, "orders", lambda status: status["totals"]["stored"] == 40, "the next operator tells what it did"
        )
        assert site.drivers() == [f"{run}-driver"]
    site.land("orders/2.jsonl", parts[2])
    after = site.wait(STREAM, "orders", lambda status: status["totals"]["stored"] == 60, "so does the one before")
    assert site.drivers() == [f"{run}-driver"]
    assert (after["currentRun"]["name"], after["runNumber"]) == (run, before["runNumber"])
    site.kubectl("patch", STREAM, "orders", "--type=merge", "--patch", '{"spec":{"suspend":true}}')
    ended = site.wait(STREAM, "orders", lambda status: not status.get("currentRun"), "it stops when it is asked to")
    assert (ended["lastRun"]["name"], ended["lastRun"]["state"]) == (run, "Succeeded")
    assert totals(site, "orders")["stored"] == 60
    check_laws(read_store(site, "orders"), Source(b"".join(parts).splitlines(), message))


@pytest.mark.long
def test_helm_test_stores_purges_and_replays_on_a_bucket_and_leaves_nothing(site: Site) -> None:
    test = {"uri": site.uri("helm-test"), "namespace": site.namespace, "storage": site.storage()}
    with upgraded(f"test={json.dumps(test)}"):
        said = helm("test", *RELEASE, "--timeout", "20m")
    assert said.count("Phase:          Succeeded") == 4, said
    assert site.objects("helm-test") == []
    assert site.items(STREAM) == []
