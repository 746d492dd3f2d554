"""Two namespaces that name one folder: neither delays the other, learns of it, or gets a table without permission."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messagestore_core.contract.base import RunError
from messagestore_core.contract.stores import FormerOwner
from messagestore_operator.api import MessageStream
from messagestore_operator.decide.leases import grant, next_epoch
from messagestore_operator.decide.snapshot import Defaults, LeaseRequest, TableKey, TableLease
from messagestore_operator.decide.tables import table_key
from messagestore_operator.tenancy.adoption import Adoption
from messagestore_operator.tenancy.settings import Tenancy
from support.launches import stream as stream_with
from support.world import OPEN, START, Key, World, run_once

FOLDER = "s3a://lake/shared"
RELEASED = {"messagestore.dev/release-table-to": "heirs/orders"}
ADOPTS = {"messagestore.dev/adopt-table": FOLDER}


def stream(world: World, name: str, namespace: str, **more: Any) -> Key:
    metadata = {name: more.pop(name) for name in ("annotations",) if name in more}
    table = {"uri": FOLDER, **more.pop("table", {})}
    spec = {"table": table, "source": {"files": {"uri": f"s3a://landing/{namespace}"}}, "trigger": {"interval": "PT5M"}}
    return world.apply("MessageStream", name, {**spec, **more}, namespace, **metadata)


def texts(world: World, namespace: str) -> str:
    """All texts in a namespace's statuses and Events."""
    status = [str(world.status(key).to_dict()) for key in world.resources if key[1] == namespace and world.status(key)]
    return " ".join(status + [event.message for about, event in world.events if about[1] == namespace])


def test_a_run_of_another_namespace_does_not_hold_the_table(world: World) -> None:
    stream(world, "secretive", "stranger")
    world.reconcile()
    world.start(world.only_run())
    stream(world, "orders", "heirs")
    world.reconcile()
    assert len(world.launched) == 2
    first, second = (world.held(FOLDER, namespace) for namespace in ("stranger", "heirs"))
    assert (first.holder or "").startswith("stranger/")
    assert (second.holder or "").startswith("heirs/")


def test_a_stream_of_another_namespace_does_not_keep_data_from_being_deleted(world: World) -> None:
    key = stream(world, "orders", "heirs", table={"deletionPolicy": "Delete"})
    run_once(world)
    stream(world, "secretive", "stranger", suspend=True)
    world.delete(key)
    world.reconcile()
    assert world.only_run("delete").create.document.table.owner.namespace == "heirs"
    assert "stranger" not in texts(world, "heirs")


def test_a_stream_of_the_same_namespace_keeps_data_from_being_deleted(world: World) -> None:
    key = stream(world, "orders", "heirs", table={"deletionPolicy": "Delete"})
    run_once(world)
    stream(world, "second", "heirs", suspend=True)
    world.delete(key)
    world.reconcile()
    assert world.ready(key)[1] == "DeletionBlocked"


# Adoption.


def adopted_from(world: World) -> tuple[FormerOwner, ...]:
    return world.only_run().create.document.table.adopt_from


def test_without_the_owners_word_a_run_may_take_over_only_within_its_namespace(world: World) -> None:
    stream(world, "secretive", "stranger", suspend=True)
    stream(world, "orders", "heirs", annotations=ADOPTS)
    world.reconcile()
    assert adopted_from(world) == (FormerOwner(namespace="heirs"),)


def test_a_table_is_handed_over_once_the_old_owners_run_is_over(world: World) -> None:
    old = stream(world, "secretive", "stranger")
    running = world.run_under_way()
    stream(world, "secretive", "stranger", annotations=RELEASED)
    new = stream(world, "orders", "heirs", annotations=ADOPTS)
    world.reconcile()
    assert len(world.launched) == 1
    assert world.ready(new)[1] == "TableBusy"
    world.finish(running)
    world.reconcile()
    assert adopted_from(world) == (FormerOwner(namespace="heirs"), FormerOwner(namespace="stranger", name="secretive"))
    epoch = world.only_run().create.document.table.epoch
    assert (epoch or 0) > (running.create.document.table.epoch or 0)
    assert world.ready(old)[:2] == ("False", "TableReleased")
    assert world.reasons(old).count("TableReleased") == 1
    world.reconcile_after(hours=1)
    assert [name for name in world.launched if name.startswith("secretive")] == [running.name]


def test_a_stream_that_asks_for_a_folder_is_tried_again_until_it_is_given(world: World) -> None:
    refused = RunError(reason="TableRefused", message="it belongs to another namespace's MessageStream")
    stream(world, "secretive", "stranger", suspend=True)
    new = stream(world, "orders", "heirs")
    run_once(world, error=refused)
    world.reconcile_after(days=1)
    assert (len(world.launched), world.status(new).phase) == (1, "Stalled")
    stream(world, "orders", "heirs", annotations=ADOPTS)
    run_once(world, error=refused)
    assert (world.status(new).phase, world.ready(new)[:2]) == ("Failing", ("False", "TableRefused"))
    assert "the next try is at" in world.ready(new)[2]
    stream(world, "secretive", "stranger", suspend=True, annotations=RELEASED)
    world.wait(minutes=10)
    run_once(world)
    assert world.ready(new)[0] == "True"


def test_a_continuous_run_on_a_table_that_was_given_away_is_stopped(world: World) -> None:
    stream(world, "secretive", "stranger", trigger={"continuous": {}})
    app = world.run_under_way()
    stream(world, "secretive", "stranger", trigger={"continuous": {}}, annotations=RELEASED)
    world.reconcile()
    assert app.control.stop


def test_no_policy_or_replay_of_the_former_owner_runs_on_a_table_that_was_handed_over(world: World) -> None:
    stream(world, "secretive", "stranger", annotations=RELEASED)
    spec = {"streamRefs": [{"name": "secretive"}], "rules": [{"name": "old", "maxAge": "P1D"}], "mode": "Enforce"}
    asked = {"messagestore.dev/run-requested": "1"}
    policy = world.apply("RetentionPolicy", "p", {**spec, "trigger": {"manual": {}}}, "stranger", annotations=asked)
    destination = {"files": {"uri": "s3a://replay/x"}}
    again = {"streamRef": {"name": "secretive"}, "destination": destination}
    replay = world.apply("ReplayJob", "r", again, "stranger")
    world.reconcile()
    assert {world.ready(policy)[1], world.ready(replay)[1]} == {"TableReleased"}
    assert world.launched == []


def test_the_settings_may_hand_over_the_table_of_an_owner_that_is_gone(world: World) -> None:
    word = Adoption.model_validate({"uri": FOLDER, "from": "stranger", "to": "heirs/orders"})
    world.defaults = replace(world.defaults, tenancy=Tenancy(storage=OPEN.storage, adoptions=(word,)))
    stream(world, "orders", "heirs", annotations=ADOPTS)
    world.reconcile()
    assert adopted_from(world)[1:] == (FormerOwner(namespace="stranger"),)


def test_data_that_was_given_away_is_not_deleted_with_the_resource_that_had_it(world: World) -> None:
    key = stream(world, "secretive", "stranger", table={"deletionPolicy": "Delete"})
    run_once(world)
    stream(world, "secretive", "stranger", table={"deletionPolicy": "Delete"}, annotations=RELEASED)
    world.delete(key)
    world.reconcile()
    world.reconcile_after(minutes=6)
    assert key not in world.resources
    assert not world.runs("delete")


# Epochs and keys.


@given(
    gaps=st.lists(st.floats(1, 10_000), max_size=30),
    handed_over=st.floats(2, 100_000),
    kept=st.booleans(),
)
def test_an_epoch_of_a_new_lease_is_newer_than_those_of_the_lease_before_it(
    gaps: list[float], handed_over: float, kept: bool
) -> None:
    now = START
    old = next_epoch(int((now - timedelta(days=1)).timestamp()) % 1000, now)
    for gap in gaps:
        now += timedelta(seconds=gap)
        old = next_epoch(old, now)
    now += timedelta(seconds=handed_over)
    table = TableKey("heirs", "", FOLDER)
    request = LeaseRequest("heirs/run", "ingest", "MessageStream heirs/orders", now)
    own = TableLease(table, epoch=next_epoch(0, START), resource_version="1" if kept else None)
    answer = grant(own, request, now, Defaults())
    assert answer.epoch > old


def test_where_the_clock_was_ahead_the_old_lease_still_counts() -> None:
    request = LeaseRequest("heirs/run", "ingest", "MessageStream heirs/orders", START)
    answer = grant(TableLease(TableKey("heirs", "", FOLDER)), request, START, Defaults(), after=2**30)
    assert answer.epoch == 2**30 + 1


@pytest.mark.parametrize(
    "endpoint", ["https://s3.example.org", "https://S3.example.org:443/", "HTTPS://s3.example.org/".lower()]
)
def test_all_spellings_of_an_endpoint_are_one_table_key(endpoint: str) -> None:
    found = stream_with(storage={"endpoint": endpoint})
    assert table_key(found) == TableKey("default", "https://s3.example.org", "s3a://lake/orders")


def keys(*streams: MessageStream) -> int:
    return len({table_key(one) for one in streams})


def test_other_servers_buckets_paths_and_namespaces_are_other_tables() -> None:
    storage = {"endpoint": "https://s3.example.org:9000"}
    folder = {"uri": "s3://lake/orders/"}
    assert keys(stream_with(), stream_with(table=folder)) == 1
    assert keys(stream_with(), stream_with(storage=storage), stream_with("b"), stream_with(namespace="shop")) == 4
    assert TableKey.parse(str(table_key(stream_with()))) == table_key(stream_with())
    assert TableKey.parse("s3a://lake/orders") is None


# A launched run has its table, whatever its Lease says.


def test_a_table_whose_lease_is_not_there_is_not_given_to_a_second_run(world: World) -> None:
    stream(world, "orders", "default")
    running = world.run_under_way()
    # An earlier release named the Lease differently, or somebody deleted it.
    world.leases.clear()
    spec = {"streamRefs": [{"name": "orders"}], "rules": [{"name": "old", "maxAge": "P1D"}], "mode": "Enforce"}
    asked = {"messagestore.dev/run-requested": "1"}
    world.apply("RetentionPolicy", "p", {**spec, "trigger": {"manual": {}}}, annotations=asked)
    world.reconcile()
    assert len(world.launched) == 1
    world.finish(running)
    world.reconcile()
    assert len(world.launched) == 2


# Statuses and Events.

ANNOTATIONS = st.sampled_from([{}, ADOPTS, RELEASED])
STEPS = st.lists(st.sampled_from(["start", "finish", "fail", "wait", "delete", "policy"]), max_size=12)


def happen(world: World, step: str, number: int, keys: list[Key]) -> None:
    apps = [app for app in world.runs() if not app.state.ended]
    match step:
        case "start":
            for app in apps:
                world.start(app)
        case "finish" | "fail" if apps:
            world.finish(apps[0], RunError(reason="RunFailed", message="no luck") if step == "fail" else None)
        case "delete":
            for key in [key for key in keys if key in world.resources][: number % 2 + 1]:
                world.delete(key)
        case "policy":
            spec = {"streamRefs": [{"name": "secretive"}], "rules": [{"name": "old", "maxAge": "P1D"}]}
            asked = {"messagestore.dev/run-requested": str(number)}
            trigger: dict[str, Any] = {"trigger": {"manual": {}}, "mode": "Enforce"}
            world.apply("RetentionPolicy", "hidden", {**spec, **trigger}, "stranger", annotations=asked)
        case "wait":
            world.wait(minutes=6)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, old=ANNOTATIONS, new=ANNOTATIONS, deletes=st.booleans())
def test_no_status_of_a_namespace_names_resources_of_another_namespace(
    steps: list[str], old: dict[str, str], new: dict[str, str], deletes: bool
) -> None:
    world = World()
    table = {"deletionPolicy": "Delete"} if deletes else {}
    keys = [
        stream(world, "secretive", "stranger", annotations=old, table=table),
        stream(world, "orders", "heirs", annotations=new, table=table),
    ]
    for number, step in enumerate(steps):
        happen(world, step, number, keys)
        world.reconcile(most=20)
        for foreign in ("stranger", "secretive", "hidden"):
            assert foreign not in texts(world, "heirs")
        for foreign in ("heirs", "orders"):
            assert foreign not in texts(world, "stranger")
