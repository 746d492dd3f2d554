"""Removal of the release, of resources without an operator, of a namespace: all of it ends, and data to keep stays."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hack import install, kind, programs
from hack.machine import run

from support.kind import Resource, install_operator
from support.laws import Source, check_laws, read_store
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
    with _without_operator():
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


def _apply(site: Site, *streams: Resource) -> None:
    for stream in streams:
        site.land(f"{stream['metadata']['name']}/1.jsonl", LANDED)
    site.apply(*streams)


def _deleted_with_its_data(site: Site, name: str) -> Resource:
    return site.stream(name, table={"uri": site.uri(name), "deletionPolicy": "Delete"})


@contextmanager
def _without_operator() -> Iterator[None]:
    """Uninstall the release, and install it again afterwards."""
    helm = [programs.program("helm"), "--kubeconfig", kind.kubeconfig(), "--namespace", install.OPERATOR_NAMESPACE]
    run([*helm, "uninstall", install.OPERATOR_RELEASE, "--wait"])
    try:
        yield
    finally:
        install_operator()


def _gone(site: Site) -> bool:
    return not site.cluster.kubectl("get", "namespace", site.namespace, "--ignore-not-found")


def _check_kept(site: Site, name: str) -> None:
    check_laws(read_store(site, name), Source(LANDED.splitlines(), message))
