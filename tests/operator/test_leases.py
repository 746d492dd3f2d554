"""A table's Lease on a real API server: one holder, and an epoch that only rises, whatever happens to the Lease."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TypeVar

import pytest

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.cluster import Cluster, RunAdmission
from messagestore_operator.cluster.gather import Gatherer
from messagestore_operator.cluster.lease import TableLeases, holder_of, lease_name
from messagestore_operator.cluster.predicates import Predicates
from messagestore_operator.cluster.reconcile import OldLeases
from messagestore_operator.cluster.surroundings import Namespaces
from messagestore_operator.decide.leases import first_epoch
from messagestore_operator.decide.run_queue import RunBounds
from messagestore_operator.decide.snapshot import Defaults, TableKey
from messagestore_operator.kube.client import ConflictError, KubeClient
from messagestore_operator.kube.objects import LEASES, ApiObject, at
from messagestore_operator.tenancy.predicate_process import PredicateProcess
from support.apiserver import ApiServer
from support.kube import connected
from support.launches import stream

T = TypeVar("T")
NAMESPACE = "default"
NOW = datetime(2026, 3, 1, 6, 30, tzinfo=UTC)
_numbers = count()


@pytest.fixture
def table() -> TableKey:
    return TableKey("default", "https://objects.example.org", f"s3a://lake/leases-{next(_numbers)}")


def _with_leases(server: ApiServer, scenario: Callable[[TableLeases, KubeClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with connected(server) as client:
            return await scenario(TableLeases(client, NAMESPACE), client)

    return asyncio.run(run())


def _version(lease: ApiObject) -> str:
    return str(at(lease, "metadata", "resourceVersion"))


def _epoch(lease: ApiObject) -> int:
    return int(at(lease, "spec", "leaseTransitions"))


def test_of_many_runs_that_request_a_new_table_one_gets_it(apiserver: ApiServer, table: TableKey) -> None:
    async def scenario(leases: TableLeases, _: KubeClient) -> list[object]:
        wants = (leases.acquire(table, f"default/run-{n}", 1, None, NOW) for n in range(8))
        return list(await asyncio.gather(*wants, return_exceptions=True))

    answers = _with_leases(apiserver, scenario)
    assert sum(isinstance(answer, ConflictError) for answer in answers) == 7


def test_of_many_runs_that_request_a_free_table_one_gets_it(apiserver: ApiServer, table: TableKey) -> None:
    async def scenario(leases: TableLeases, _: KubeClient) -> list[object]:
        await leases.acquire(table, "default/first", 1, None, NOW)
        free = await leases.release(table, "default/first", NOW)
        assert free is not None
        wants = (leases.acquire(table, f"default/run-{n}", 2, _version(free), NOW) for n in range(8))
        return list(await asyncio.gather(*wants, return_exceptions=True))

    answers = _with_leases(apiserver, scenario)
    assert sum(isinstance(answer, ConflictError) for answer in answers) == 7


def test_a_released_table_keeps_its_epoch_and_has_no_holder(apiserver: ApiServer, table: TableKey) -> None:
    async def scenario(leases: TableLeases, _: KubeClient) -> ApiObject | None:
        await leases.acquire(table, "default/first", 41, None, NOW)
        await leases.release(table, "default/first", NOW + timedelta(minutes=1))
        return await leases.read(table)

    lease = _with_leases(apiserver, scenario)
    assert lease is not None
    assert (holder_of(lease), _epoch(lease)) == (None, 41)
    assert at(lease, "metadata", "annotations", "messagestore.dev/table") == str(table)


@pytest.mark.parametrize("changed", [False, True], ids=["as it is", "from before a change"])
def test_a_table_is_released_even_if_its_lease_has_changed(
    apiserver: ApiServer, table: TableKey, changed: bool
) -> None:
    async def scenario(leases: TableLeases, client: KubeClient) -> ApiObject | None:
        known = await leases.acquire(table, "default/first", 41, None, NOW)
        if changed:
            note = {"metadata": {"labels": {"noted": "since"}}}
            await client.merge_patch(LEASES.path(NAMESPACE, lease_name(table)), note)
        return await leases.release(table, "default/first", NOW, known)

    lease = _with_leases(apiserver, scenario)
    assert lease is not None
    assert (holder_of(lease), _epoch(lease)) == (None, 41)
    assert ("noted" in at(lease, "metadata", "labels")) is changed


def test_nobody_takes_a_table_from_a_run_that_is_not_its_holder(apiserver: ApiServer, table: TableKey) -> None:
    async def scenario(leases: TableLeases, _: KubeClient) -> ApiObject | None:
        await leases.acquire(table, "default/first", 1, None, NOW)
        assert await leases.release(table, "default/second", NOW) is None
        return await leases.read(table)

    lease = _with_leases(apiserver, scenario)
    assert lease is not None
    assert holder_of(lease) == "default/first"


def test_the_epoch_goes_up_though_the_lease_was_deleted(apiserver: ApiServer, table: TableKey) -> None:
    async def scenario(leases: TableLeases, client: KubeClient) -> list[int]:
        epochs, now = [], NOW
        for _ in range(3):
            lease = await leases.acquire(table, "default/first", first_epoch(now) + 1, None, now)
            epochs.append(_epoch(lease))
            for _ in range(20):
                # Grants in a row, at the highest possible rate.
                now += timedelta(seconds=2)
                lease = await leases.acquire(table, "default/first", _epoch(lease) + 1, _version(lease), now)
                epochs.append(_epoch(lease))
            await client.delete(LEASES.path(NAMESPACE, lease_name(table)))
            now += timedelta(seconds=2)
        return epochs

    epochs = _with_leases(apiserver, scenario)
    assert epochs == sorted(set(epochs))


def test_the_leases_of_tables_that_are_gone_are_removed_and_no_others(apiserver: ApiServer) -> None:
    now = NOW + timedelta(days=2)
    names = ("let-go", "held-by-nobody", "of-a-stream", "lately", "of-another-operator")
    tables = {name: TableKey("default", "https://objects.example.org", f"s3a://lake/{name}") for name in names}
    tables["of-another-operator"] = TableKey("elsewhere", "", "s3a://lake/of-another-operator")

    async def scenario(leases: TableLeases, client: KubeClient) -> list[str]:
        cache = Cache()
        cache.put(stream("of-a-stream").to_dict())
        for name, table in tables.items():
            lease = await leases.acquire(table, "default/gone", 1, None, NOW)
            if name != "held-by-nobody":
                lease = await leases.release(table, "default/gone", now if name == "lately" else NOW) or lease
            cache.put(lease)
        await old_leases(cache, leases, client).remove()
        return [name for name, table in tables.items() if await leases.read(table) is not None]

    def old_leases(cache: Cache, leases: TableLeases, client: KubeClient) -> OldLeases:
        admission = RunAdmission(cache, RunBounds())
        cluster = Cluster(client, cache, leases, Namespaces(client), admission, lambda: now)
        gatherer = Gatherer(cluster, Predicates(PredicateProcess(), list), Defaults())
        return OldLeases(cluster, gatherer, ["default"], Defaults())

    assert _with_leases(apiserver, scenario) == ["of-a-stream", "lately", "of-another-operator"]


def test_the_lease_of_a_deleted_stream_names_no_run_that_is_gone(apiserver: ApiServer, table: TableKey) -> None:
    async def scenario(leases: TableLeases, client: KubeClient) -> list[str | None]:
        cache = Cache()
        cache.put(await leases.acquire(table, "default/dead", 41, None, NOW))
        cluster = Cluster(
            client,
            cache,
            leases,
            Namespaces(client),
            RunAdmission(cache, RunBounds()),
            lambda: NOW + timedelta(hours=1),
        )
        gatherer = Gatherer(cluster, Predicates(PredicateProcess(), list), Defaults())
        await OldLeases(cluster, gatherer, ["default"], Defaults()).remove()
        lease = await leases.read(table)
        assert lease is not None
        assert _epoch(lease) == 41
        return [holder_of(lease), *(holder_of(one) for one in cache.leases())]

    assert _with_leases(apiserver, scenario) == [None, None]


def test_a_lease_that_was_taken_meanwhile_is_not_removed(apiserver: ApiServer, table: TableKey) -> None:
    async def scenario(leases: TableLeases, _: KubeClient) -> ApiObject | None:
        known = await leases.acquire(table, "default/first", 1, None, NOW)
        free = await leases.release(table, "default/first", NOW, known)
        assert free is not None
        await leases.acquire(table, "default/second", 2, _version(free), NOW)
        with pytest.raises(ConflictError):
            await leases.remove(free)
        return await leases.read(table)

    lease = _with_leases(apiserver, scenario)
    assert lease is not None
    assert holder_of(lease) == "default/second"


def test_an_epoch_made_from_the_clock_fits_its_field_until_2080() -> None:
    assert first_epoch(datetime(2080, 1, 1, tzinfo=UTC)) < 2**31
