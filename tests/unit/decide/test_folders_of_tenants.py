"""Folders that the settings don't allow a namespace: no resource gets a run for them."""

from dataclasses import replace
from typing import Any

import pytest

from messagestore_operator.tenancy.settings import Tenancy
from messagestore_operator.tenancy.storage import StorageBounds
from support.world import Key, World, run_once

SHOP = Tenancy(storage=StorageBounds(prefixes={"default": ("s3a://lake/shop",)}))
OWN = {"credentialsSecretRef": {"name": "lake"}}
ASKED = {"messagestore.dev/run-requested": "1"}


def stream(world: World, name: str = "orders", table: Any = "s3a://elsewhere/orders", **more: Any) -> Key:
    spec = {
        "table": table if isinstance(table, dict) else {"uri": table},
        "storage": OWN,
        "source": {"files": {"uri": "s3a://lake/shop/in"}},
    }
    return world.apply("MessageStream", name, {**spec, "trigger": {"interval": "PT5M"}, **more})


def policy(world: World) -> Key:
    spec = {"streamRefs": [{"name": "orders"}], "rules": [{"name": "old", "maxAge": "P90D"}], "mode": "Enforce"}
    return world.apply("RetentionPolicy", "tidy", {**spec, "trigger": {"manual": {}}}, annotations=ASKED)


def replay(world: World) -> Key:
    destination = {"files": {"uri": "s3a://lake/shop/again"}}
    return world.apply("ReplayJob", "again", {"streamRef": {"name": "orders"}, "destination": destination})


def into_another_store(world: World) -> Key:
    stream(world, "copy")
    stream(world, table="s3a://lake/shop/orders")
    spec = {"streamRef": {"name": "orders"}, "destination": {"stream": {"name": "copy"}}}
    return world.apply("ReplayJob", "again", spec)


def redelivery(world: World) -> Key:
    destination = {"files": {"uri": "s3a://lake/shop/again"}}
    spec = {"streamRef": {"name": "orders"}, "select": {"dueForRetry": True}, "trigger": {"interval": "PT5M"}}
    return world.apply("ReplayJob", "retry", {**spec, "destination": destination})


@pytest.fixture
def bounded(world: World) -> World:
    world.defaults = replace(world.defaults, tenancy=SHOP)
    return world


def is_refused(world: World, key: Key) -> bool:
    status, reason, message = world.ready(key)
    return (status, reason) == ("False", "NotAllowed") and "tenancy.storage.prefixes" in message


@pytest.mark.parametrize("user", [policy, replay, into_another_store, redelivery])
def test_no_run_of_any_resource_works_on_a_store_that_its_stream_may_not_have(bounded: World, user: Any) -> None:
    key = stream(bounded)
    other = user(bounded)
    bounded.reconcile()
    assert bounded.launched == [] or user is into_another_store
    assert not [name for name in bounded.launched if name.startswith(other[2])]
    assert is_refused(bounded, other)
    assert is_refused(bounded, key) or user is into_another_store


def test_a_stream_is_not_allowed_and_says_which_field_and_which_setting(bounded: World) -> None:
    key = stream(bounded)
    bounded.reconcile()
    assert is_refused(bounded, key)
    assert bounded.ready(key)[2].startswith("spec.table.uri: the operator's setting tenancy.storage.prefixes allows")
    assert "NotAllowed" in bounded.reasons(key)


def test_without_credentials_of_its_own_a_stream_gets_no_run(world: World) -> None:
    world.defaults = replace(world.defaults, tenancy=Tenancy())
    key = stream(world, storage={"region": "eu-west-1"})
    world.reconcile()
    assert world.ready(key)[1] == "NotAllowed"
    assert "spec.storage.credentialsSecretRef" in world.ready(key)[2]
    stream(world)
    world.reconcile()
    assert len(world.launched) == 1


def test_a_continuous_run_is_stopped_once_the_settings_forbid_its_folder(world: World) -> None:
    key = stream(world, trigger={"continuous": {}})
    app = world.run_under_way()
    world.defaults = replace(world.defaults, tenancy=SHOP)
    world.reconcile()
    assert app.control.stop
    world.finish(app)
    world.reconcile()
    assert is_refused(world, key)
    assert len(world.launched) == 1


def test_data_in_a_folder_that_is_not_allowed_is_kept_when_its_stream_goes(world: World) -> None:
    key = stream(world, table={"uri": "s3a://elsewhere/orders", "deletionPolicy": "Delete"})
    run_once(world)
    world.defaults = replace(world.defaults, tenancy=SHOP)
    world.delete(key)
    world.reconcile()
    assert is_refused(world, key)
    world.reconcile_after(minutes=6)
    assert key not in world.resources
    assert "DataKept" in world.reasons(key)
    assert len(world.launched) == 1
