"""An erasure and the replays out of its store: those that read it stop, and go on once it has ended."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.purge import EraseOutcome
from messagestore_core.contract.replay import CursorState, FrozenSelection, ReplayOutcome, ReplayProgress
from messagestore_operator.api.common import Schedule
from messagestore_operator.decide.schedule import Window
from support.world import App, Key, World, run_once, stream

FILES = {"files": {"uri": "s3a://replay/checks/"}}


def replay(world: World, name: str = "again", namespace: str = "default", **spec: Any) -> Key:
    given = {"streamRef": {"name": "orders"}, "destination": FILES}
    return world.apply("ReplayJob", name, {**given, **spec}, namespace)


def policy(world: World, **trigger: Any) -> Key:
    spec = {
        "streamRefs": [{"name": "orders"}],
        "trigger": trigger or {"manual": {}},
        "rules": [{"name": "gone", "match": {"messageIds": ["m1"]}, "erase": True}],
        "mode": "Enforce",
        "erasure": {"within": "PT1S"},
    }
    return world.apply("RetentionPolicy", "gone", spec)


def under_way(world: World, owner: Key) -> App:
    """The run of a resource that has not ended, its driver running."""
    (app,) = [app for app in world.runs() if app.owner == owner and not app.state.ended]
    world.start(app)
    world.reconcile()
    return app


def purged(world: World) -> Key:
    """A policy whose purge has ended, with an erasure due at once."""
    key = policy(world)
    world.annotate(key, run_requested="now")
    app = world.start_due("purge")
    world.finish(app, outcome=world.purged(app, erase_due_by=world.now))
    world.reconcile()
    return key


def erased(world: World) -> None:
    """Run the erasure, which must have been launched, to its end."""
    app = world.only_run("erase")
    world.start(app)
    table = world.purged(app).table
    world.finish(app, outcome=EraseOutcome(erased=1, erased_at=world.now, table=table))
    world.reconcile()


def halfway() -> ReplayOutcome:
    progress = ReplayProgress(replayed=4, percent=40)
    return ReplayOutcome(selection=FrozenSelection(table_version=1, messages=10, bytes=10), progress=progress)


def last_purge(world: World, key: Key) -> Any:
    return world.status(key).streams[0].last_purge


def test_an_erasure_that_is_due_at_once_follows_its_purge_as_a_run_of_its_own(world: World) -> None:
    stream(world)
    key = purged(world)
    assert world.only_run().create.document.task.kind == "erase"
    assert last_purge(world, key).erased_at is None
    erased(world)
    assert last_purge(world, key).erased_at is not None
    world.reconcile_after(days=9)
    assert len(world.launched) == 2


def test_replays_stop_for_an_erasure_and_go_on_after_it(world: World) -> None:
    stream(world)
    key = replay(world, activeDeadline="PT1H")
    other = replay(world, "second")
    world.reconcile()
    first, second = under_way(world, key), under_way(world, other)
    first.report = world.report(first, "Running", halfway())
    tidy = purged(world)
    assert first.control.stop
    assert second.control.stop
    assert world.runs("erase") == []
    assert world.ready(tidy)[1] == "TableBusy"
    assert f"waiting for replay run {first.name} of ReplayJob default/again and replay run" in world.ready(tidy)[2]
    assert world.ready(key)[1] == "Erasing"
    assert "by RetentionPolicy default/gone" in world.ready(key)[2]
    third = replay(world, "third")
    world.reconcile()
    assert (world.ready(third)[1], world.status(third).phase) == ("Erasing", "Pending")

    world.finish(first, outcome=halfway())
    world.reconcile()
    assert world.runs("erase") == [], "the second still reads"
    world.finish(second, outcome=halfway())
    world.reconcile()
    world.start(world.only_run("erase"))
    world.reconcile_after(hours=5)
    assert [app.create.run.kind for app in world.runs() if not app.state.ended] == ["erase"]
    assert (world.ready(key)[1], world.status(key).failures) == ("Erasing", 0)

    erased(world)
    again = [app for app in world.runs("replay") if not app.state.ended]
    assert {app.owner for app in again} == {key, other, third}
    assert not any(app.control.stop for app in again)
    for app in again:
        world.start(app)
        world.finish(app)
    world.reconcile()
    assert {world.status(one).phase for one in (key, other, third)} == {"Succeeded"}
    assert world.status(key).paused_seconds == 5 * 3600


def test_the_erasure_waits_until_the_driver_of_a_replay_is_gone(world: World) -> None:
    stream(world)
    key = replay(world)
    world.reconcile()
    app = under_way(world, key)
    purged(world)
    app.report = world.report(app, "Succeeded", halfway())
    app.state = app.state.SUCCEEDED
    world.reconcile()
    assert world.runs("erase") == [], "the pod may still send"
    world.finish(app, outcome=halfway())
    world.reconcile()
    assert len(world.runs("erase")) == 1


def test_a_replay_that_does_not_stop_is_ended_in_time(world: World) -> None:
    stream(world)
    key = replay(world)
    world.reconcile()
    app = under_way(world, key)
    purged(world)
    world.reconcile_after(minutes=16)
    assert not app.there
    assert len(world.runs("erase")) == 1
    erased(world)
    world.wait(minutes=11)
    run_once(world)
    assert world.status(key).phase == "Succeeded"


def test_no_replay_stops_while_the_erasure_itself_is_held_back(world: World) -> None:
    source = stream(world)
    key = replay(world)
    world.reconcile()
    app = under_way(world, key)
    policy_key = policy(world)
    world.annotate(policy_key, run_requested="now")
    purge = world.start_due("purge")
    world.finish(purge, outcome=world.purged(purge, erase_due_by=world.now + timedelta(hours=1)))
    world.reconcile()
    world.annotate(source, run_requested="now")
    world.reconcile()
    ingest = under_way(world, source)
    world.reconcile_after(hours=1)
    assert "waiting for ingest run" in world.ready(policy_key)[2]
    assert not app.control.stop
    world.finish(ingest)
    world.reconcile()
    assert app.control.stop


def test_where_the_window_closes_meanwhile_the_replay_goes_on_and_the_table_is_free(world: World) -> None:
    stream(world)
    key = replay(world)
    world.reconcile()
    app = under_way(world, key)
    purged(world)
    assert world.held("s3a://lake/orders").holder is not None
    night = Window(Schedule(cron="0 1 * * *", time_zone="UTC"), timedelta(hours=2))
    world.defaults = replace(world.defaults, windows=(night,))
    world.reconcile()
    assert world.held("s3a://lake/orders").holder is None
    world.finish(app, outcome=halfway())
    world.reconcile()
    assert world.ready(key)[1] == "WaitingForWindow"


@pytest.mark.parametrize(
    "spec",
    [
        {"origin": "DeadLetters", "destination": {"stream": {"name": "copy"}}},
        {"origin": "DeadLetters", "destination": {"stream": {"name": "orders"}}},
        {"select": {"dueForRetry": True}, "trigger": {"interval": "PT5M"}},
    ],
    ids=["to another stream", "into its own", "redelivery"],
)
def test_a_replay_that_writes_the_store_too_gives_its_table_to_the_erasure(world: World, spec: dict[str, Any]) -> None:
    stream(world)
    stream(world, "copy")
    policy_key = purged(world)
    erase = world.only_run("erase")
    world.start(erase)
    later = world.now + timedelta(hours=1)
    outcome = EraseOutcome(erased=1, erased_at=world.now, erase_due_by=later, table=world.purged(erase).table)
    world.finish(erase, outcome=outcome)
    world.reconcile()
    key = replay(world, **spec)
    world.reconcile()
    app = under_way(world, key)
    world.reconcile_after(hours=1)
    assert app.control.stop
    assert world.ready(policy_key)[1] == "TableBusy"
    world.finish(app, outcome=halfway())
    world.reconcile()
    assert [one.create.run.kind for one in world.runs() if not one.state.ended] == ["erase"]
    erased(world)
    assert world.only_run("replay").owner == key


def test_a_replay_of_another_namespace_with_the_same_folder_stops_too(world: World) -> None:
    stream(world)
    stream(world, namespace="former")
    key = replay(world, namespace="former")
    world.reconcile()
    app = under_way(world, key)
    other = stream(world, "copy")
    elsewhere = replay(world, "other", streamRef={"name": "copy"})
    world.reconcile()
    away = under_way(world, elsewhere)
    purged(world)
    assert app.control.stop
    assert not away.control.stop
    assert other in world.resources
    world.finish(app, outcome=halfway())
    world.reconcile()
    assert len(world.runs("erase")) == 1


def test_an_erasure_that_was_not_due_by_its_own_clock_has_erased_nothing(world: World) -> None:
    stream(world)
    key = purged(world)
    app = world.only_run("erase")
    world.start(app)
    due = world.now + timedelta(seconds=30)
    world.finish(app, outcome=EraseOutcome(erase_due_by=due, table=world.purged(app).table))
    world.reconcile()
    assert last_purge(world, key).erased_at is None
    world.reconcile_after(seconds=31)
    assert world.only_run().create.document.task.kind == "erase"


def continuous(world: World) -> tuple[Key, App]:
    """A continuous replay, and its run."""
    topic = {"kafka": {"bootstrapServers": "kafka:9092", "topic": "out"}}
    key = replay(world, "on", destination=topic, start={"at": "Beginning"}, trigger={"continuous": {}})
    world.reconcile()
    return key, under_way(world, key)


def knows(world: World, app: App, tombstones: int | None) -> None:
    """The run reports which tombstones it knows."""
    selection = FrozenSelection(table_version=1, messages=0, bytes=0)
    cursor = CursorState(global_position=3, lag=Lag(as_of=world.now, records=0))
    outcome = ReplayOutcome(
        selection=selection, progress=ReplayProgress(), complete=True, cursor=cursor, tombstones=tombstones
    )
    app.report = world.report(app, "Running", outcome)


def purged_with(world: World, tombstones: int | None) -> Key:
    """A policy whose purge has ended with a version of the tombstones, and with an erasure due at once."""
    key = policy(world)
    world.annotate(key, run_requested="now")
    app = world.start_due("purge")
    outcome = world.purged(app, erase_due_by=world.now, tombstones_version=tombstones)
    world.finish(app, outcome=outcome)
    world.reconcile()
    return key


def test_an_erasure_runs_beside_a_continuous_replay_that_knows_its_tombstones(world: World) -> None:
    stream(world)
    _, app = continuous(world)
    knows(world, app, 4)
    purged_with(world, 5)
    assert (world.runs("erase"), app.control.stop) == ([], False)
    knows(world, app, 5)
    world.reconcile_after(seconds=6)
    erased(world)
    world.reconcile_after(hours=1)
    assert (app.control.stop, app.state.ended) == (False, False)


def test_a_continuous_replay_that_keeps_silent_is_stopped_for_an_erasure_and_starts_again(world: World) -> None:
    stream(world)
    key, app = continuous(world)
    knows(world, app, 4)
    purged_with(world, 5)
    world.reconcile_after(seconds=50)
    assert not app.control.stop
    world.reconcile_after(seconds=15)
    assert (app.control.stop, world.runs("erase")) == (True, [])
    world.finish(app)
    world.reconcile()
    assert [one for one in world.runs("replay") if not one.state.ended] == []
    erased(world)
    world.reconcile_after(seconds=20)
    (again,) = [one for one in world.runs("replay") if not one.state.ended]
    assert again.owner == key


def test_a_continuous_replay_stops_at_once_where_nobody_knows_the_tombstones(world: World) -> None:
    stream(world)
    _, app = continuous(world)
    knows(world, app, 4)
    purged_with(world, None)
    assert app.control.stop


@pytest.mark.parametrize("reason", ["ArchiveIncomplete", "ArchiveTaken"], ids=["again and again", "for good"])
def test_a_purge_that_fails_delays_no_erasure_that_an_earlier_one_owes_and_is_due_again_after_it(
    world: World, reason: str
) -> None:
    stream(world)
    key = policy(world)
    world.annotate(key, run_requested="now")
    first = world.start_due("purge")
    world.finish(first, outcome=world.purged(first, erase_due_by=world.now + timedelta(hours=1)))
    world.reconcile()
    world.annotate(key, run_requested="again")
    run_once(world, error=RunError(reason=reason, message="no"))
    world.reconcile_after(minutes=30)
    assert world.runs("erase") == []
    for app in [app for app in world.runs("purge") if not app.state.ended]:
        world.start(app)
        world.finish(app, RunError(reason=reason, message="no"))
    world.reconcile()
    world.reconcile_after(hours=1)
    erased(world)
    assert last_purge(world, key).erased_at is not None
    world.finish(world.start_due("purge"))
    world.reconcile()
    assert (world.status(key).phase, world.ready(key)[0]) == ("Idle", "True")
    world.reconcile_after(days=9)
    assert [app for app in world.runs() if not app.state.ended] == []


def test_rounds_that_are_due_whenever_a_purge_ends_delay_no_erasure(world: World) -> None:
    stream(world)
    key = policy(world, schedule={"cron": "* * * * *"})
    world.reconcile_after(minutes=1)
    due = world.now + timedelta(minutes=10)
    for _ in range(7):
        app = world.only_run("purge")
        world.start(app)
        world.reconcile_after(seconds=90)
        world.finish(app, outcome=world.purged(app, erase_due_by=due))
        world.reconcile()
    erased(world)
    assert last_purge(world, key).erased_at is not None
    assert world.only_run("purge").create.document.task.kind == "purge"


def test_an_erasure_is_awaited_also_after_a_purge_that_failed_for_good(world: World) -> None:
    stream(world)
    key = policy(world)
    world.annotate(key, run_requested="now")
    first, due = world.start_due("purge"), world.now + timedelta(hours=1)
    world.finish(first, outcome=world.purged(first, erase_due_by=due))
    world.reconcile()
    world.annotate(key, run_requested="again")
    run_once(world, error=RunError(reason="ArchiveTaken", message="no"))
    assert world.reconcile_once(key).requeue_at == due - timedelta(milliseconds=50)
    assert (world.ready(key)[2], world.status(key).phase) == ("stream orders: no", "Stalled")
