"""The life of a replay with a trigger: run after run, each with its own selection."""

from typing import Any

from messagestore_core.contract.base import RunError
from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress
from support.world import Key, World, run_once, stream

DENIED = RunError(reason="StorageDenied", message="access denied to bucket replay")
TABLE = "s3a://lake/orders"


def job(world: World, **spec: Any) -> Key:
    given = {
        "streamRef": {"name": "orders"},
        "select": {"dueForRetry": True},
        "trigger": {"interval": "PT5M"},
        "destination": {"files": {"uri": "s3a://replay/again/"}},
    }
    return world.apply("ReplayJob", "again", {**given, **spec})


def sent(messages: int, number: int, *, complete: bool = True) -> ReplayOutcome:
    selection = FrozenSelection(table_version=1, messages=messages, bytes=10)
    progress = ReplayProgress(replayed=messages, percent=100 if complete else 40)
    return ReplayOutcome(selection=selection, progress=progress, complete=complete, round=number)


def test_a_redelivery_runs_again_and_again_with_the_lease_of_the_table(world: World) -> None:
    stream(world)
    key = job(world)
    world.reconcile()
    app = world.only_run()
    assert world.held(TABLE).holder == app.create.run.holder
    assert app.create.document.table.epoch is not None
    assert app.create.document.task.rounds
    world.start(app)
    world.finish(app, outcome=sent(3, 1))
    world.reconcile()
    status = world.status(key)
    assert (status.phase, status.round, status.replayed_total, status.started_at) == ("Idle", 1, 3, None)
    assert world.ready(key) == ("True", "Replayed", "3 messages sent again to files/again; 1 selection so far")
    assert not world.held(TABLE).holder
    world.reconcile_after(minutes=4)
    assert len(world.launched) == 1
    world.wait(minutes=1, seconds=1)
    run_once(world, outcome=sent(2, 2))
    status = world.status(key)
    assert (status.round, status.replayed_total, len(status.recent_runs)) == (2, 5, 2)


def test_a_clock_that_is_behind_the_last_leaders_delays_no_redelivery(world: World) -> None:
    stream(world)
    job(world)
    first = run_once(world, outcome=sent(3, 1))
    world.wait(minutes=-4)
    assert world.launched == [first, run_once(world, outcome=sent(2, 2))]


def test_a_run_with_nothing_due_counts_no_selection(world: World) -> None:
    stream(world)
    key = job(world)
    run_once(world, outcome=sent(0, 0))
    assert (world.status(key).phase, world.status(key).round, world.status(key).replayed_total) == ("Idle", None, None)
    assert world.ready(key)[:2] == ("True", "Replayed")


def test_a_failed_run_is_tried_again_without_end(world: World) -> None:
    stream(world)
    key = job(world, backoffLimit=0)
    for attempt in (1, 2, 3):
        run_once(world, error=DENIED)
        assert (world.status(key).phase, world.status(key).last_run.attempt) == ("Failing", attempt)
        assert "the next try is at" in world.ready(key)[2]
        world.wait(minutes=6)
    run_once(world, outcome=sent(1, 1))
    assert world.status(key).phase == "Idle"


def test_a_suspended_redelivery_stops_after_its_batch_and_continues_when_it_is_resumed(world: World) -> None:
    stream(world)
    key = job(world)
    app = world.start_due()
    job(world, suspend=True)
    world.reconcile()
    assert app.control.stop
    world.finish(app, outcome=sent(1, 1, complete=False))
    world.reconcile()
    assert (world.status(key).phase, world.status(key).round) == ("Paused", None)
    assert world.status(key).started_at is not None, "maintenance keeps what the selection reads"
    world.reconcile_after(hours=1)
    assert len(world.launched) == 1
    job(world)
    world.reconcile()
    assert len(world.launched) == 2
    run_once(world, outcome=sent(4, 1))
    assert (world.status(key).phase, world.status(key).replayed_total) == ("Idle", 4)


def test_a_schedule_and_an_annotation_ask_for_runs_too(world: World) -> None:
    stream(world)
    key = job(world, trigger={"schedule": {"cron": "0 * * * *"}})
    world.reconcile()
    assert world.launched == []
    assert world.status(key).next_run_time is not None
    world.wait(hours=1)
    run_once(world, outcome=sent(1, 1))
    world.annotate(key, run_requested="now")
    run_once(world, outcome=sent(1, 2))
    assert (world.status(key).round, world.status(key).last_handled_request) == (2, "now")
    world.reconcile()
    assert len(world.launched) == 2


def test_a_missing_stream_is_waited_for(world: World) -> None:
    key = job(world)
    world.reconcile()
    assert (world.status(key).phase, world.ready(key)[1]) == ("Failing", "StreamMissing")
    stream(world)
    world.reconcile()
    assert len(world.launched) == 1


def test_deleting_a_redelivery_ends_its_run(world: World) -> None:
    stream(world)
    key = job(world)
    app = world.start_due()
    world.delete(key)
    world.reconcile()
    assert not app.there
