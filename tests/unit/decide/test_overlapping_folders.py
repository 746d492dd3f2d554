"""Folders that overlap with those of another resource: the later resource gets no run, what runs already goes on."""

from typing import Any

from support.world import Key, World, run_once

ASKED = {"messagestore.dev/run-requested": "1"}


def stream(world: World, name: str, landing: str, namespace: str = "default", **files: Any) -> Key:
    source = {"files": {"uri": landing, **files}}
    spec = {"table": {"uri": f"s3a://lake/{namespace}/{name}"}, "source": source, "trigger": {"interval": "PT5M"}}
    return world.apply("MessageStream", name, spec, namespace)


def policy(world: World, archive: str) -> Key:
    rules = [{"name": "old", "maxAge": "P90D"}]
    spec = {"streamRefs": [{"name": "orders"}], "rules": rules, "mode": "Enforce", "trigger": {"manual": {}}}
    return world.apply("RetentionPolicy", "tidy", {**spec, "archive": {"uri": archive}}, annotations=ASKED)


def replay(world: World, to: str) -> Key:
    return world.apply("ReplayJob", "again", {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": to}}})


def runs_of(world: World, key: Key) -> list[str]:
    return [name for name in world.launched if name.startswith(f"{key[2]}-")]


def is_refused(world: World, key: Key, *words: str) -> bool:
    status, reason, message = world.ready(key)
    return (status, reason) == ("False", "FoldersOverlap") and all(one in message for one in words)


def test_an_archive_in_the_landing_folder_gets_no_purge_and_says_what_to_change(world: World) -> None:
    stream(world, "orders", "s3a://in/orders")
    run_once(world)
    world.wait(seconds=1)
    key = policy(world, "s3://in/orders/old/")
    world.reconcile()
    assert is_refused(world, key, "spec.archive.uri: ", "spec.source.files.uri of MessageStream orders", "beside it")
    assert runs_of(world, key) == []
    assert world.reasons(key) == ["FoldersOverlap"]
    policy(world, "s3a://archive/orders")
    world.reconcile()
    assert len(runs_of(world, key)) == 1


def test_a_replay_into_a_streams_source_folder_waits_until_the_stream_reads_elsewhere(world: World) -> None:
    orders = stream(world, "orders", "s3a://in/orders")
    run_once(world)
    key = replay(world, "s3a://in/orders/again")
    world.reconcile()
    assert is_refused(world, key, "spec.destination.files.uri")
    stream(world, "orders", "s3a://in/other")
    world.reconcile(orders, key)
    assert not is_refused(world, key)


def test_of_two_streams_that_delete_files_of_one_folder_only_the_first_runs(world: World) -> None:
    first = stream(world, "orders", "s3a://in/all", afterIngest="Delete")
    run_once(world)
    world.wait(seconds=1)
    second = stream(world, "bills", "s3a://in/all")
    world.reconcile()
    assert is_refused(world, second, "MessageStream orders", "each loses the files")
    assert world.ready(first)[0] == "True"
    world.reconcile_after(minutes=5)
    assert len(runs_of(world, first)) == 2
    world.delete(first)
    world.reconcile()
    assert len(runs_of(world, second)) == 1


def test_an_older_stream_that_is_changed_takes_no_folder_from_a_later_one(world: World) -> None:
    older = stream(world, "bills", "s3a://in/bills", afterIngest="Delete")
    world.wait(seconds=1)
    younger = stream(world, "orders", "s3a://in/orders")
    world.reconcile()
    stream(world, "bills", "s3a://in", afterIngest="Delete")
    world.reconcile()
    assert is_refused(world, older)
    # A change of the younger one doesn't give it away either.
    world.apply("MessageStream", "orders", world.resources[younger].to_dict()["spec"] | {"suspend": True})
    world.reconcile(older, younger)
    assert is_refused(world, older)
    assert not is_refused(world, younger)


def test_a_continuous_run_goes_on_while_its_new_folder_is_refused(world: World) -> None:
    key = stream(world, "orders", "s3a://in/orders")
    spec = world.resources[key].to_dict()["spec"]
    world.apply("MessageStream", "orders", {**spec, "trigger": {"continuous": {}}})
    app = world.start_due()
    stream(world, "bills", "s3a://in/bills", afterIngest="Delete")
    world.reconcile()
    source = {"files": {"uri": "s3a://in/bills"}}
    world.apply("MessageStream", "orders", {**spec, "trigger": {"continuous": {}}, "source": source})
    world.reconcile()
    assert is_refused(world, key)
    assert not app.control.stop


def test_a_folder_of_another_namespace_blocks_no_stream(world: World) -> None:
    stream(world, "greedy", "s3a://in", "others", afterIngest="Delete")
    world.reconcile()
    world.wait(seconds=1)
    key = stream(world, "orders", "s3a://in/orders")
    world.reconcile()
    assert len(runs_of(world, key)) == 1


def test_a_stream_that_is_refused_for_something_else_takes_no_folder_from_one_that_runs(world: World) -> None:
    older = stream(world, "bills", "s3a://in/bills", afterIngest="Delete")
    world.wait(seconds=1)
    younger = stream(world, "orders", "s3a://in/orders")
    world.reconcile()
    stream(world, "bills", "s3a://in", afterIngest="Delete")
    world.invalid[older] = "spec.trigger.schedule.cron: never fires"
    world.reconcile()
    assert world.ready(older)[1] == "InvalidSpec"
    assert not is_refused(world, younger)
    del world.invalid[older]
    world.reconcile(older, younger)
    assert is_refused(world, older)
    assert not is_refused(world, younger)
