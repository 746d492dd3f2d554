"""Local folders: refused in a cluster, where no pod reaches them; allowed in a local run."""

from typing import Any

import pytest

from messagestore_operator.translate.unsupported import refusals
from support.world import Key, World

MANUAL: dict[str, Any] = {"trigger": {"manual": {}}}


def stream(world: World, table: str = "s3a://lake/orders", source: str = "s3a://landing/orders") -> Key:
    spec = {"table": {"uri": table}, "source": {"files": {"uri": source}}, "trigger": {"interval": "PT5M"}}
    return world.apply("MessageStream", "orders", spec)


def policy(world: World, archive: str = "s3a://archive/orders") -> Key:
    rules = [{"name": "old", "maxAge": "P90D"}]
    spec = {"streamRefs": [{"name": "orders"}], "rules": rules, "mode": "Enforce", "archive": {"uri": archive}}
    return world.apply(
        "RetentionPolicy", "tidy", {**spec, **MANUAL}, annotations={"messagestore.dev/run-requested": "1"}
    )


def replay(world: World, to: str = "s3a://replay/orders") -> Key:
    return world.apply("ReplayJob", "again", {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": to}}})


def archived_locally(world: World) -> Key:
    stream(world)
    return policy(world, "file:///archive/orders")


def replayed_locally(world: World) -> Key:
    stream(world)
    return replay(world, "file:///replay/orders")


def purged_where_the_table_is_local(world: World) -> Key:
    stream(world, table="file:///lake/orders")
    return policy(world)


def replayed_where_the_table_is_local(world: World) -> Key:
    stream(world, table="file:///lake/orders")
    return replay(world)


@pytest.mark.parametrize(
    ("apply", "field"),
    [
        (lambda world: stream(world, table="file:///lake/orders"), "spec.table.uri"),
        (lambda world: stream(world, source="file:///landing/orders"), "spec.source.files.uri"),
        (archived_locally, "spec.archive.uri"),
        (replayed_locally, "spec.destination.files.uri"),
        (purged_where_the_table_is_local, "spec.table.uri"),
        (replayed_where_the_table_is_local, "spec.table.uri"),
    ],
)
def test_a_resource_with_a_local_folder_says_where_to_put_it_and_gets_no_run(
    world: World, apply: Any, field: str
) -> None:
    key = apply(world)
    world.reconcile()
    status, reason, message = world.ready(key)
    assert (status, reason) == ("False", "NotSupported")
    assert field in message
    assert "s3a://bucket/folder" in message
    assert [name for name in world.launched if name.startswith(key[2])] == []


def test_a_stream_that_is_put_on_an_object_store_gets_its_run(world: World) -> None:
    key = stream(world, source="file:///landing/orders")
    world.reconcile()
    stream(world)
    world.reconcile()
    assert len(world.launched) == 1
    assert world.ready(key)[1] == "Pending"


def test_a_local_run_refuses_no_local_folder(world: World) -> None:
    key = stream(world, table="file:///lake/orders", source="file:///landing/orders")
    assert refusals(world.resources[key]) == ()
