"""Times in which nothing new is launched, or only ingests."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from messagestore_operator.api.common import Schedule
from messagestore_operator.decide.schedule import Window, opens_at
from support.world import Key, World, run_once, stream

INTERVAL = {"interval": "PT5M"}
DELETED = {"uri": "s3a://lake/orders", "deletionPolicy": "Delete"}
PAUSED = "the operator launches nothing while its setting runs.paused is true"
NOW = {"messagestore.dev/run-requested": "now"}
NIGHT = Window(Schedule(cron="0 1 * * *", time_zone="Europe/Vienna"), timedelta(hours=2))
OPENS = "waiting for the window that opens at 2026-01-06T00:00:00Z (runs.windows)"


def purge(world: World) -> Key:
    """A policy that wants a run now."""
    policy = {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P1D"}],
        "mode": "Enforce",
    }
    return world.apply("RetentionPolicy", "old", policy, annotations=NOW)


def others(world: World) -> list[Key]:
    """A policy, a replay, and a replay with a trigger, that each want a run now."""
    files = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/orders/"}}}
    again = {**files, "trigger": {"interval": "PT2M"}, "select": {"dueForRetry": True}}
    return [
        purge(world),
        world.apply("ReplayJob", "replay", files),
        world.apply("ReplayJob", "again", again),
    ]


def test_while_paused_nothing_is_launched_and_everything_says_why(world: World) -> None:
    world.paused = PAUSED
    keys = [stream(world, trigger=INTERVAL), *others(world)]
    world.reconcile()
    assert world.runs() == []
    assert world.ready(keys[0]) == ("True", "Paused", PAUSED)
    for key in keys[1:]:
        status, reason, words = world.ready(key)
        assert (status, reason) == ("True", "Paused")
        assert words.endswith(PAUSED)
    assert all(when is not None and when - world.now <= timedelta(seconds=30) for when in world.requeue_at.values())
    world.paused = None
    world.reconcile()
    assert "ingest" in {app.create.run.kind for app in world.runs()}


def test_a_run_continues_through_a_pause_and_a_changed_spec_does_not_stop_it(world: World) -> None:
    key = stream(world, trigger={"continuous": {}})
    app = world.start_due()
    app.report = world.report(app, "Running", world.outcome(app))
    world.reconcile()
    world.paused = PAUSED
    stream(world, trigger={"continuous": {"batchInterval": "PT1M"}})
    world.reconcile()
    assert (app.there, app.control.stop) == (True, False)
    assert world.ready(key) == ("True", "Paused", f"run {app.name} continues; no other run starts: {PAUSED}")
    world.paused = None
    world.reconcile()
    assert app.control.stop


def test_a_run_that_was_reserved_before_a_pause_is_reserved_no_more(world: World) -> None:
    stream(world, trigger=INTERVAL)
    world.reconcile()
    policy = purge(world)
    world.reconcile()
    assert world.ready(policy)[1] == "TableBusy"
    world.paused = PAUSED
    world.reconcile()
    (entry,) = world.status(policy).streams
    assert (entry.current_run, world.ready(policy)[1]) == (None, "Paused")
    world.paused = None
    world.start(world.only_run())
    world.finish(world.only_run())
    world.reconcile()
    assert world.only_run().owner == policy


def test_a_store_is_not_deleted_in_a_pause_and_the_status_says_how_to_keep_its_data(world: World) -> None:
    key = stream(world, trigger=INTERVAL, table=DELETED)
    run_once(world)
    world.paused = PAUSED
    world.delete(key)
    world.reconcile()
    assert world.ready(key)[1] == "Paused"
    assert world.ready(key)[2].startswith(f"{PAUSED}; to keep the data and let the resource go")
    world.paused = None
    run_once(world)
    assert key not in world.resources


def test_outside_of_its_window_only_ingests_and_deletions_start(world: World) -> None:
    world.defaults = replace(world.defaults, windows=(NIGHT,))
    key = stream(world, table=DELETED)
    world.annotate(key, run_requested="now")
    rest = others(world)
    run_once(world)
    world.reconcile()
    assert [world.ready(one)[1] for one in rest] == ["WaitingForWindow"] * 3
    assert all(world.ready(one)[2].endswith(OPENS) for one in rest)
    assert world.requeue_at[rest[0]] == datetime.fromisoformat("2026-01-06T00:00:00Z")
    world.now = datetime.fromisoformat("2026-01-06T00:00:00Z")
    world.reconcile()
    assert {app.create.run.kind for app in world.runs()} >= {"purge", "replay"}
    world.now = datetime.fromisoformat("2026-01-06T12:00:00Z")
    for app in [app for app in world.runs() if not app.state.ended]:
        world.start(app)
        world.finish(app)
    world.delete(key)
    world.reconcile()
    assert world.only_run("delete").owner == key


def test_a_stream_is_maintained_in_the_window(world: World) -> None:
    world.defaults = replace(
        world.defaults, windows=(NIGHT,), maintenance=replace(world.defaults.maintenance, commits=1)
    )
    stream(world)
    world.annotate(("MessageStream", "default", "orders"), run_requested="1")
    run_once(world)
    assert world.runs("maintain") == []
    world.now = datetime.fromisoformat("2026-01-06T00:30:00Z")
    world.reconcile()
    assert len(world.runs("maintain")) == 1


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        ("2026-01-05T23:59:59Z", "2026-01-06T00:00:00Z"),
        ("2026-01-06T00:00:00Z", None),
        ("2026-01-06T01:59:59Z", None),
        ("2026-01-06T02:00:00Z", "2026-01-07T00:00:00Z"),
        ("2026-07-05T23:30:00Z", None),
    ],
)
def test_a_window_is_open_by_the_clock_of_its_time_zone(now: str, opens: str | None) -> None:
    assert opens_at([NIGHT], datetime.fromisoformat(now)) == (datetime.fromisoformat(opens) if opens else None)


@pytest.mark.parametrize("trigger", [{"manual": {}}, {"schedule": {"cron": "0 9 * * *"}}], ids=["asked for", "due"])
def test_what_a_run_was_for_that_was_reserved_before_a_pause_is_made_up_for_after_it(
    world: World, trigger: dict[str, Any]
) -> None:
    key = stream(world, trigger=trigger)
    world.reconcile()
    purge(world)
    app = world.start_due("purge")
    world.wait(hours=1)
    if "manual" in trigger:
        world.annotate(key, run_requested="now")
    world.reconcile()
    assert world.ready(key)[1] == "TableBusy"
    world.paused = PAUSED
    world.reconcile()
    assert (world.status(key).current_run, world.ready(key)[1]) == (None, "Paused")
    world.finish(app)
    world.paused = None
    world.reconcile_after(minutes=1)
    run_once(world)
    world.reconcile_after(hours=12)
    assert [one.owner for one in world.runs("ingest")] == [key]


def test_a_time_of_the_schedule_that_had_its_run_is_not_missed_after_a_later_run_was_reserved_before_a_pause(
    world: World,
) -> None:
    key = stream(world, trigger={"schedule": {"cron": "0 9 * * *", "startingDeadline": "PT10M"}})
    world.reconcile()
    world.wait(hours=1)
    run_once(world)
    world.wait(minutes=30)
    purge(world)
    app = world.start_due("purge")
    world.annotate(key, run_requested="now")
    world.reconcile()
    assert world.status(key).current_run.launched_at is None
    world.paused = PAUSED
    world.reconcile()
    world.finish(app)
    world.paused = None
    run_once(world)
    assert "ScheduleMissed" not in world.reasons(key)
    assert [one.owner for one in world.runs("ingest")] == [key] * 2


def test_a_redelivery_that_was_asked_for_before_a_pause_comes_after_it(world: World) -> None:
    stream(world)
    purge(world)
    app = world.start_due("purge")
    spec = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/orders/"}}}
    again = {**spec, "trigger": {"manual": {}}, "select": {"dueForRetry": True}}
    key = world.apply("ReplayJob", "again", again, annotations=NOW)
    world.reconcile()
    assert world.ready(key)[1] == "TableBusy"
    world.paused = PAUSED
    world.reconcile()
    assert world.status(key).current_run is None
    world.finish(app)
    world.paused = None
    world.reconcile()
    assert world.only_run().owner == key
