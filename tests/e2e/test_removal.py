"""Removal of the release, of resources without an operator, of a namespace: all of it ends, and data to keep stays."""

import json

import pytest
from hack import install

from support.kind import Resource, without_operator
from support.laws import Source, check_laws, read_store, totals
from support.records import message, records
from support.site import STREAM, Site

LANDED = records(range(25))


@pytest.mark.long
def test_streams_deleted_without_an_operator_are_cleaned_up_by_the_next_one(
    site: Site,
) -> None:
    _apply(
        site,
        site.stream("kept", trigger={"continuous": {"batchInterval": "PT2S"}}),
        _deleted_with_its_data(site, "goes"),
        _deleted_with_its_data(site, "stays"),
    )
    site.wait(STREAM, "kept", lambda status: status.get("totals", {}).get("stored") == 25, "all is stored")
    site.ran(STREAM, "goes")
    before = site.ran(STREAM, "stays")
    with without_operator():
        assert {one["metadata"]["name"] for one in site.items(STREAM)} == {"kept", "goes", "stays"}
        site.delete(STREAM, "kept")
        site.delete(STREAM, "goes")
        site.until(lambda: site.find(STREAM, "kept") is None, "it is gone", 30)
        site.until(lambda: not site.drivers(), "its run goes with it", 60)
        _check_kept(site, "kept")
        assert site.find(STREAM, "goes") is not None
        _check_kept(site, "goes")

    site.until(lambda: site.find(STREAM, "goes") is None, "it is deleted with its data")
    assert site.objects("goes") == []
    after = site.status(STREAM, "stays")
    assert (after["runNumber"], after["lastRun"]) == (before["runNumber"], before["lastRun"])
    _check_kept(site, "stays")


def test_a_namespace_that_is_deleted_takes_no_data_with_it_and_ends(site: Site) -> None:
    _apply(site, _deleted_with_its_data(site, "orders"))
    site.ran(STREAM, "orders")
    site.cluster.kubectl("delete", "namespace", site.namespace, "--wait=false")
    site.until(lambda: _gone(site), "the namespace is gone", 120)
    _check_kept(site, "orders")


@pytest.mark.long
def test_a_run_in_progress_goes_on_without_the_operator_and_is_followed_by_the_next_one(site: Site) -> None:
    _apply(site, site.stream("kept", trigger={"continuous": {"batchInterval": "PT2S"}}))
    before = site.wait(STREAM, "kept", lambda status: status.get("totals", {}).get("stored") == 25, "all is stored")
    run, (lease,) = before["currentRun"]["name"], _leases(site)
    more = records(range(25, 40))
    with without_operator():
        assert site.status(STREAM, "kept") == before
        assert _leases(site) == [lease]
        assert "message-store-operator" not in _of_the_cluster(site)
        assert site.items("rolebinding")
        site.land("kept/2.jsonl", more)
        site.until(lambda: totals(site, "kept")["stored"] == 40, "the run stores what arrives", 120)
        assert [f"{run}-driver"] == site.drivers()
    after = site.wait(STREAM, "kept", lambda status: status["totals"]["stored"] == 40, "the status follows")
    assert (after["currentRun"]["name"], after["runNumber"]) == (run, before["runNumber"])
    assert _leases(site) == [lease]
    check_laws(read_store(site, "kept"), Source((LANDED + more).splitlines(), message))
    site.kubectl("patch", STREAM, "kept", "--type=merge", "--patch", '{"spec":{"suspend":true}}')
    ended = site.wait(STREAM, "kept", lambda status: not status.get("currentRun"), "it stops when it is asked to")
    assert ended["lastRun"]["state"] == "Succeeded"


def _leases(site: Site) -> list[Resource]:
    """Who holds the tables of the namespace, and under which epoch."""
    found = site.cluster.kubectl("--namespace", install.OPERATOR_NAMESPACE, "get", "leases", "--output", "json")
    specs = [one["spec"] for one in json.loads(found)["items"]]
    return [
        {name: spec[name] for name in ("holderIdentity", "leaseTransitions")}
        for spec in specs
        if spec.get("holderIdentity", "").startswith(f"{site.namespace}/")
    ]


def _of_the_cluster(site: Site) -> str:
    """The names of roles and admission policies of the whole cluster."""
    kinds = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
    return site.cluster.kubectl("get", kinds, "--output", "name")


def _apply(site: Site, *streams: Resource) -> None:
    for stream in streams:
        site.land(f"{stream['metadata']['name']}/1.jsonl", LANDED)
    site.apply(*streams)


def _deleted_with_its_data(site: Site, name: str) -> Resource:
    return site.stream(name, table={"uri": site.uri(name), "deletionPolicy": "Delete"})


def _gone(site: Site) -> bool:
    return not site.cluster.kubectl("get", "namespace", site.namespace, "--ignore-not-found")


def _check_kept(site: Site, name: str) -> None:
    check_laws(read_store(site, name), Source(LANDED.splitlines(), message))
