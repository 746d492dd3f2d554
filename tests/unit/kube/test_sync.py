"""Listing everything again: finds and counts changes that a watch has missed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.lease import holder_of, lease_name
from messagestore_operator.cluster.metrics import Metrics
from messagestore_operator.cluster.resources import RESOURCES
from messagestore_operator.decide.run_queue import RunBounds
from messagestore_operator.decide.snapshot import TableKey
from messagestore_operator.kube import sync
from messagestore_operator.kube.client import ApiError, ForbiddenError, NotFoundError
from messagestore_operator.kube.health import Health
from messagestore_operator.kube.objects import LEASES, SPARK_APPLICATIONS
from messagestore_operator.kube.sync import KindMissingError, Listing, Sync
from support.launches import stream

STREAMS = RESOURCES["MessageStream"]


class _Server:
    """Lists its objects; `meanwhile` runs after the first list."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.leases: list[dict[str, Any]] = []
        self.refusals: list[ApiError] = []
        self.knows_applications = True
        self.tells_of = [STREAMS, SPARK_APPLICATIONS]
        self.meanwhile: Callable[[], None] | None = None
        self.readings = 0

    async def items(self, path: str, selector: str = "", accept: str = "") -> AsyncIterator[dict[str, Any]]:
        # A reading of everything begins with the Leases.
        self.readings += path == LEASES.path("op")
        if path == STREAMS.path(None) and self.refusals:
            raise self.refusals.pop(0)
        if path == SPARK_APPLICATIONS.path(None) and not self.knows_applications:
            raise NotFoundError("GET", path, 404, "NotFound", "the server could not find the requested resource")
        for one in {STREAMS.path(None): self.objects, LEASES.path("op"): self.leases}.get(path, ()):
            yield one
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()

    async def get(self, path: str) -> dict[str, Any]:
        if path == "/apis":
            return {"groups": [{"name": kind.group} for kind in self.tells_of] or None}
        return {"resources": [{"name": kind.plural} for kind in self.tells_of if kind.resources == path]}


class _Kept:
    """A cache that only lists fill: no watch shows anything."""

    def __init__(self) -> None:
        self.server: Any = _Server()
        cluster, self.metrics = Cluster.of(self.server, "op", RunBounds()), Metrics()
        self.cache = cluster.cache
        self.touched: set[tuple[str, str, str]] = set()
        self.health = Health(60, 60)
        listings = [
            Listing(LEASES, ["op"], watched=False),
            Listing(STREAMS),
            Listing(SPARK_APPLICATIONS, optional=True),
        ]
        missed = self.metrics.missed.inc
        self.sync = Sync(self.server, self.cache, listings, self.touched.update, self.health, missed)

    def fill(self) -> None:
        asyncio.run(self.sync.fill())

    def read_again(self) -> float:
        """List everything again, and return how many changes the watches have missed so far."""

        async def once() -> None:
            begun = self.server.readings
            reading = asyncio.create_task(self.sync.keep_up(0.001))
            while self.server.readings < begun + 2:
                await asyncio.sleep(0.001)
            reading.cancel()

        self.touched.clear()
        asyncio.run(once())
        found = self.metrics.registry.get_sample_value("messagestore_operator_watch_missed_total")
        assert found is not None
        return found

    def names(self) -> list[str]:
        return sorted(name for _, _, name in self.cache.resource_keys())


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> _Kept:
    monkeypatch.setattr(sync, "_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(sync, "_RETRY_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(sync, "_MISSING_SECONDS", 0.01)
    found = _Kept()
    found.server.objects = _streams("orders", "returns")
    found.fill()
    return found


def _streams(*names: str, versions: Sequence[int] = (1, 1)) -> list[dict[str, Any]]:
    found = []
    for name, version in zip(names, versions, strict=True):
        document = stream(name, uid=f"uid-{name}").to_dict()
        document["metadata"]["resourceVersion"] = str(version)
        found.append({**document, "kind": "MessageStream"})
    return found


def test_every_resource_is_enqueued_after_the_first_list(kept: _Kept) -> None:
    assert kept.touched == {("MessageStream", "default", name) for name in ("orders", "returns")}


def test_objects_that_are_cached_already_are_not_counted_as_missed(kept: _Kept) -> None:
    assert kept.read_again() == 0
    assert kept.names() == ["orders", "returns"]


def test_a_change_that_watches_missed_is_cached_and_counted(kept: _Kept) -> None:
    kept.server.objects = _streams("orders", "returns", versions=(1, 2))
    assert kept.read_again() == 1
    assert ("MessageStream", "default", "returns") in kept.touched
    assert kept.read_again() == 1


def test_a_resource_that_a_list_lacks_is_dropped(kept: _Kept) -> None:
    kept.server.objects = _streams("orders", versions=(1,))
    kept.read_again()
    assert kept.names() == ["orders"]


def test_a_resource_that_was_made_again_unseen_takes_the_place_of_the_first(kept: _Kept) -> None:
    again, other = _streams("orders", "returns", versions=(9, 1))
    again["metadata"]["uid"] = "another"
    kept.server.objects = [again, other]
    assert kept.read_again() >= 1
    assert kept.cache.resource(("MessageStream", "default", "orders")).metadata.uid == "another"


def test_a_first_reading_that_fails_is_tried_again_and_says_meanwhile_why(kept: _Kept) -> None:
    kept.health = kept.sync._health = Health(60, 60)
    refusal = ApiError("GET", STREAMS.path(None), 403, "Forbidden", "no role allows it")
    told = list[str]()

    async def read() -> None:
        kept.server.refusals = [refusal] * 3
        reading = asyncio.create_task(kept.sync.fill())
        while not reading.done():
            await asyncio.sleep(0.001)
            told.extend(kept.health.unready())
        await reading

    asyncio.run(read())
    assert f"not everything has been read yet: {refusal}" in told
    assert kept.health.unready() == []


@pytest.mark.parametrize("again", [False, True])
def test_whatever_happens_while_everything_is_read_the_resource_of_each_tables_holder_is_known(
    kept: _Kept, again: bool
) -> None:
    table = TableKey("default", "https://objects.example.org", "s3a://lake/orders")
    holder = "default/orders-ingest-1"

    def another_leader_launches() -> None:
        (orders,) = _streams("orders", versions=(7,))
        current = {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": "2026-03-01T06:00:00Z"}
        kept.server.objects = [{**orders, "status": {"currentRun": current}}]
        metadata = {"namespace": "op", "name": lease_name(table), "uid": "l1", "resourceVersion": "8"}
        kept.server.leases = [{"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": holder}}]
        # Otherwise the next list would find what this one missed.
        kept.server.refusals = [ApiError("GET", "", 500, "", "")] * 100 if again else []

    def unknown_holders() -> set[str | None]:
        return {holder_of(lease) for lease in kept.cache.leases()} - {
            request.holder for request, _ in kept.cache.lease_requests(table)
        }

    kept.server.meanwhile = another_leader_launches
    if again:
        kept.read_again()
    else:
        kept.fill()
    assert unknown_holders() == set()


def test_the_first_read_waits_until_the_api_server_lists_all_watched_kinds(kept: _Kept) -> None:
    async def read() -> None:
        for told in ([], [STREAMS]):
            kept.health = kept.sync._health = Health(60, 60)
            kept.server.tells_of = told
            reading = asyncio.create_task(kept.sync.fill())
            await asyncio.sleep(0.05)
            assert not reading.done()
            assert "does not list" in kept.health.unready()[0]
            kept.server.tells_of = [STREAMS, SPARK_APPLICATIONS]
            await reading

    asyncio.run(read())
    assert kept.health.unready() == []


def test_a_kind_that_the_operator_can_not_do_without_ends_it(kept: _Kept) -> None:
    kept.server.refusals = [NotFoundError("GET", STREAMS.path(None), 404, "NotFound", "no such resource")]
    with pytest.raises(KindMissingError, match=r"messagestreams\.messagestore\.dev is not installed in this cluster"):
        kept.fill()


def test_applications_that_are_not_installed_are_waited_for_and_nothing_else_is(kept: _Kept) -> None:
    kept.server.knows_applications, kept.server.tells_of = False, [STREAMS]
    kept.fill()
    assert kept.cache.missing_kind == "sparkapplications.sparkoperator.k8s.io"
    assert kept.sync.kinds == [STREAMS]
    assert kept.health.unready() == []
    assert kept.read_again() == 0

    async def install() -> None:
        comes = asyncio.create_task(kept.sync.changed([]))
        await asyncio.sleep(0.05)
        assert not comes.done()
        kept.touched.clear()
        kept.server.knows_applications = True
        kept.server.tells_of = [STREAMS]
        await asyncio.sleep(0.05)
        assert not comes.done()
        kept.server.tells_of = [STREAMS, SPARK_APPLICATIONS]
        await comes

    asyncio.run(install())
    assert kept.cache.missing_kind is None
    assert kept.sync.kinds == [STREAMS, SPARK_APPLICATIONS]
    assert len(kept.touched) == 2


class _Chosen(_Server):
    """Serves two namespaces, of which some may not be read."""

    def __init__(self) -> None:
        super().__init__()
        self.forbidden: set[str] = set()
        self.streams = {"lost": ["orders"], "kept": ["returns"]}

    async def items(self, path: str, selector: str = "", accept: str = "") -> AsyncIterator[dict[str, Any]]:
        for namespace, names in self.streams.items():
            if f"/namespaces/{namespace}/" in path and namespace in self.forbidden:
                raise ForbiddenError("GET", path, 403, "Forbidden", "no role allows it")
            if path == STREAMS.path(namespace):
                for one in _streams(*names, versions=[1] * len(names)):
                    yield {**one, "metadata": {**one["metadata"], "namespace": namespace}}


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> _Kept:
    monkeypatch.setattr(sync, "_RETRY_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(sync, "_MISSING_SECONDS", 0.01)
    found = _Kept()
    found.server = server = _Chosen()
    listings = [Listing(LEASES, ["op"], watched=False), Listing(STREAMS, ["lost", "kept"])]
    found.sync = Sync(server, found.cache, listings, found.touched.update, found.health, lambda missed: None)
    server.tells_of = [STREAMS]
    return found


def test_a_namespace_that_may_not_be_read_holds_up_no_other_and_is_read_once_it_may(chosen: _Kept) -> None:
    chosen.server.forbidden = {"lost"}
    chosen.fill()
    assert (chosen.names(), chosen.sync.namespaces) == (["returns"], ["kept"])
    assert chosen.health.unready() == []

    async def allow() -> None:
        changed = asyncio.create_task(chosen.sync.changed(["kept"]))
        await asyncio.sleep(0.05)
        assert not changed.done()
        chosen.touched.clear()
        chosen.server.forbidden = set()
        await changed

    asyncio.run(allow())
    assert (chosen.names(), chosen.sync.namespaces) == (["orders", "returns"], ["lost", "kept"])
    assert {key[1] for key in chosen.touched} == {"lost", "kept"}


def test_what_was_read_of_a_namespace_stays_known_while_it_may_not_be_read(chosen: _Kept) -> None:
    chosen.fill()
    chosen.server.forbidden = {"lost"}
    chosen.server.streams["kept"] = []
    assert asyncio.run(chosen.sync.has_lost_one_of(["lost", "kept"]))
    assert chosen.names() == ["orders"]


def test_watches_that_end_although_everything_may_be_read_have_lost_no_namespace(chosen: _Kept) -> None:
    chosen.fill()
    assert not asyncio.run(chosen.sync.has_lost_one_of(["lost", "kept"]))


def test_an_operator_that_may_read_no_namespace_is_not_ready_and_says_why(chosen: _Kept) -> None:
    chosen.server.forbidden = {"lost", "kept"}

    async def read() -> None:
        reading = asyncio.create_task(chosen.sync.fill())
        await asyncio.sleep(0.05)
        assert "no role allows it" in chosen.health.unready()[0]
        chosen.server.forbidden = set()
        await reading

    asyncio.run(read())
    assert chosen.health.unready() == []
