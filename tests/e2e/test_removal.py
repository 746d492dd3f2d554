"""What is taken away: the release, resources while no operator runs, a namespace. All ends, and data to keep stays."""

from collections.abc import Iterator

import pytest
from tools.cluster import install, kind, programs
from tools.machine import run

from support.kind import Cluster, install_operator
from support.laws import Source, check_laws, read_store
from support.records import message, records
from support.site import STREAM, Site, site

LANDED = records(range(25))


@pytest.fixture(scope="module")
def stores(cluster: Cluster) -> Iterator[Site]:
    """Three streams that have run: one that goes on with its data to be kept, two with theirs to be deleted."""
    with site(cluster, "removal") as made:
        delete = {"deletionPolicy": "Delete"}
        streams = [
            made.stream("kept", trigger={"continuous": {"batchInterval": "PT2S"}}),
            made.stream("goes", table={"uri": made.uri("goes"), **delete}),
            made.stream("last", table={"uri": made.uri("last"), **delete}),
        ]
        for stream in streams:
            made.land(f"{stream['metadata']['name']}/1.jsonl", LANDED)
        made.apply(*streams)
        made.wait(STREAM, "kept", lambda status: status.get("totals", {}).get("stored") == 25, "all is stored")
        for name in ("goes", "last"):
            # A run that is under way counts what it has stored too.
            made.wait(STREAM, name, lambda status: status.get("lastRun", {}).get("stored") == 25, "its run has ended")
        yield made


def test_without_an_operator_what_is_kept_goes_at_once_and_what_is_to_be_deleted_waits_for_one(stores: Site) -> None:
    _uninstall(stores)
    assert {one["metadata"]["name"] for one in stores.items(STREAM)} == {"kept", "goes", "last"}

    stores.delete(STREAM, "kept")
    stores.delete(STREAM, "goes")
    stores.until(lambda: stores.find(STREAM, "kept") is None, "it is gone", 30)
    stores.until(lambda: not stores.drivers(), "its run goes with it", 60)
    _check_kept(stores, "kept")
    assert stores.find(STREAM, "goes") is not None
    _check_kept(stores, "goes")


def test_an_operator_that_is_installed_again_goes_on_where_the_last_one_was(stores: Site) -> None:
    before = stores.status(STREAM, "last")
    install_operator()
    stores.until(lambda: stores.find(STREAM, "goes") is None, "it is deleted with its data")
    assert stores.objects("goes") == []
    after = stores.status(STREAM, "last")
    assert (after["runNumber"], after["lastRun"]) == (before["runNumber"], before["lastRun"])
    _check_kept(stores, "last")


def test_a_namespace_that_is_deleted_takes_no_data_with_it_and_ends(stores: Site) -> None:
    stores.cluster.kubectl("delete", "namespace", stores.namespace, "--wait=false")
    stores.until(lambda: _gone(stores), "the namespace is gone", 120)
    _check_kept(stores, "last")


def _uninstall(stores: Site) -> None:
    helm = [programs.program("helm"), "--kubeconfig", kind.kubeconfig(), "--namespace", install.OPERATOR_NAMESPACE]
    run([*helm, "uninstall", install.OPERATOR_RELEASE, "--wait"])


def _gone(stores: Site) -> bool:
    return not stores.cluster.kubectl("get", "namespace", stores.namespace, "--ignore-not-found")


def _check_kept(stores: Site, name: str) -> None:
    check_laws(read_store(stores, name), Source(LANDED.splitlines(), message))
