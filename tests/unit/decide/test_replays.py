"""The life of a replay, step by step: a world in memory carries out the decisions."""

from typing import Any

import pytest

import support.world
from messagestore_core.contract.base import RunError
from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress
from messagestore_operator.decide.snapshot import DriverPod, Waiting
from support.world import Key, Stored, World, contents, run_once, stream

DENIED = RunError(reason="StorageDenied", message="access denied to bucket replay")


def job(world: World, **spec: Any) -> Key:
    given = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/checks/"}}}
    return world.apply("ReplayJob", "again", {**given, **spec})


def halfway() -> ReplayOutcome:
    selection = FrozenSelection(table_version=1, messages=10, bytes=10)
    progress = ReplayProgress(replayed=4, percent=40, messages_per_second=2.0)
    return ReplayOutcome(selection=selection, progress=progress, complete=False)


def conditions(world: World, key: Key) -> dict[str, str]:
    return {one.type: one.status for one in world.status(key).conditions}


def test_a_replay_previews_runs_and_succeeds(world: World) -> None:
    stream(world)
    key = job(world, rateLimit={"messagesPerSecond": 5})
    world.reconcile()
    app = world.only_run()
    assert world.leases == {}, "a replay to files writes nothing to the store"
    assert app.control.messages_per_second == 5
    world.start(app)
    world.reconcile()
    assert world.status(key).phase == "Previewing"
    app.report = world.report(app, "Running", halfway())
    world.reconcile()
    assert (world.status(key).phase, world.status(key).progress.percent) == ("Running", 40)
    assert world.status(key).selection.messages == 10
    world.finish(app)
    world.reconcile()
    assert world.status(key).phase == "Succeeded"
    assert conditions(world, key) == {"Ready": "True", "Complete": "True"}
    assert world.ready(key)[2] == "5 messages replayed to files/checks"
    assert world.reasons(key)[-1] == "Replayed"
    world.reconcile_after(days=9)
    assert len(world.launched) == 1
    assert world.reconcile_once(key).requeue_at is None


def test_a_dry_run_ends_after_the_preview(world: World) -> None:
    stream(world)
    key = job(world, mode="DryRun")
    run_once(world)
    assert (world.status(key).phase, world.ready(key)[1]) == ("Succeeded", "Previewed")


def test_a_dry_run_takes_no_table_though_the_run_that_it_previews_would(world: World) -> None:
    stream(world)
    key = job(world, mode="DryRun", select={"dueForRetry": True})
    run_once(world)
    assert world.leases == {}
    assert world.ready(key)[1] == "Previewed"


BROKEN = RunError(reason="MessagesBroken", message="1 of 10 selected messages were not sent")


def test_a_replay_with_broken_messages_has_failed_or_is_degraded_by_its_spec(world: World) -> None:
    stream(world)
    reached = ReplayProgress(replayed=9, failed=1, first_failed_positions=(7,), percent=100)
    outcome = halfway().model_copy(update={"progress": reached, "complete": True})
    key = job(world)
    run_once(world, outcome=outcome, error=BROKEN)
    assert conditions(world, key) == {"Ready": "False", "Stalled": "True", "Failed": "True"}
    assert world.reasons(key)[-1] == "MessagesBroken"
    world.delete(key)
    key = job(world, onFailed="Continue")
    run_once(world, outcome=outcome)
    assert conditions(world, key) == {"Ready": "True", "Complete": "True", "Degraded": "True"}
    assert world.status(key).conditions[-1].message.endswith("the first are at global positions 7")
    assert world.reasons(key)[-1] == "MessagesBroken"


def test_a_suspended_replay_stops_after_its_batch_and_continues_with_a_new_run(world: World) -> None:
    stream(world)
    key = job(world, activeDeadline="PT1H")
    first = world.start_due()
    first.report = world.report(first, "Running", halfway())
    world.reconcile()
    job(world, activeDeadline="PT1H", suspend=True)
    world.reconcile()
    assert first.control.stop
    world.finish(first, outcome=halfway())
    world.reconcile()
    assert (world.status(key).phase, world.status(key).failures) == ("Paused", 0)
    world.reconcile_after(hours=5)
    assert len(world.launched) == 1
    job(world, activeDeadline="PT1H")
    world.reconcile()
    assert len(world.launched) == 2
    assert first.create.document.task.job_id == world.only_run().create.document.task.job_id
    run_once(world)
    assert world.status(key).phase == "Succeeded"
    assert world.status(key).paused_seconds == 5 * 3600


def test_a_new_rate_limit_reaches_the_run_under_way(world: World) -> None:
    stream(world)
    job(world, rateLimit={"messagesPerSecond": 5})
    app = world.start_due()
    job(world, rateLimit={"messagesPerSecond": 50})
    world.reconcile()
    assert (app.control.messages_per_second, app.control.stop, app.there) == (50, False, True)


def test_a_replay_with_more_failures_than_its_backoff_limit_has_failed_finally(world: World) -> None:
    stream(world)
    key = job(world, backoffLimit=2)
    for failures in range(1, 4):
        run_once(world, error=DENIED)
        assert world.status(key).failures == failures
        if failures < 3:
            assert world.status(key).phase == "Pending"
            assert f"try {failures + 1} is at" in world.ready(key)[2]
        world.wait(minutes=1)
    assert world.status(key).phase == "Failed"
    assert conditions(world, key) == {"Ready": "False", "Stalled": "True", "Failed": "True"}
    assert world.ready(key)[2] == "3 tries failed, the last: access denied to bucket replay"
    world.reconcile_after(days=1)
    assert len(world.launched) == 3


def test_a_replay_that_ended_in_an_unknown_phase_is_not_sent_again(world: World) -> None:
    stream(world)
    key = job(world)
    run_once(world)
    ended = world.resources[key]
    unknown = world.status(key).model_copy(update={"phase": None})
    world.resources[key] = ended.model_copy(update={"status": unknown})
    world.reconcile()
    assert len(world.launched) == 1


def test_without_the_spark_operator_a_replay_waits_and_has_not_failed(world: World) -> None:
    world.missing_kind = "sparkapplications.sparkoperator.k8s.io"
    stream(world)
    key = job(world)
    world.reconcile()
    assert world.ready(key)[:2] == ("False", "SparkOperatorMissing")
    world.missing_kind = None
    run_once(world)
    assert world.status(key).phase == "Succeeded"


def test_an_error_that_no_retry_helps_fails_a_replay_at_once(world: World) -> None:
    stream(world)
    key = job(world)
    run_once(world, error=RunError(reason="DestinationNotEmpty", message="s3a://replay/checks is not empty"))
    assert (world.status(key).phase, world.ready(key)[1]) == ("Failed", "DestinationNotEmpty")


def test_an_invalid_predicate_fails_without_a_run(world: World) -> None:
    stream(world)
    key = job(world, select={"where": "no_such = 1"})
    world.reconcile()
    assert (world.status(key).phase, world.ready(key)[1], world.launched) == ("Failed", "PredicateRefused", [])


def test_a_replay_that_froze_its_selection_goes_on_though_its_predicate_is_refused_by_now(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream(world)
    where = {"select": {"where": "type RLIKE 'Order.*'"}}
    with monkeypatch.context() as earlier:
        earlier.setattr(support.world, "predicate_problems", lambda document: ())
        key = job(world, **where)
        first = world.start_due()
        first.report = world.report(first, "Running", halfway())
        job(world, **where, suspend=True)
        world.reconcile()
        world.finish(first, outcome=halfway())
        world.reconcile()
    assert world.status(key).phase == "Paused"
    job(world, **where)
    run_once(world)
    assert (world.status(key).phase, len(world.launched)) == ("Succeeded", 2)


def test_the_active_deadline_ends_the_run(world: World) -> None:
    stream(world)
    key = job(world, activeDeadline="PT1H")
    app = world.run_under_way()
    world.reconcile_after(minutes=61)
    assert not app.there
    assert (world.status(key).phase, world.ready(key)[1]) == ("Failed", "DeadlineExceeded")


def test_a_finished_replay_is_removed_after_its_time_to_live(world: World) -> None:
    stream(world)
    key = job(world, ttlAfterFinished="P1D")
    run_once(world)
    world.reconcile_after(hours=23)
    assert key in world.resources
    world.reconcile_after(hours=1)
    assert key not in world.resources


def test_a_missing_stream_is_waited_for(world: World) -> None:
    key = job(world, destination={"stream": {"name": "copy"}})
    world.reconcile()
    assert world.ready(key)[:2] == ("False", "StreamMissing")
    assert world.ready(key)[2] == "there is no MessageStream orders and no MessageStream copy"
    stream(world)
    stream(world, "copy")
    run_once(world)
    assert world.status(key).phase == "Succeeded"


def test_a_store_that_only_replays_wrote_is_deleted_with_its_stream(world: World) -> None:
    stream(world)
    copy = stream(world, "copy", trigger={"manual": {}}, table={"uri": "s3a://lake/copy", "deletionPolicy": "Delete"})
    key = job(world, destination={"stream": {"name": "copy"}})
    run_once(world)
    assert (world.status(key).phase, world.status(copy).run_number) == ("Succeeded", None)
    world.delete(copy)
    world.reconcile()
    assert world.only_run().create.run.kind == "delete"
    assert world.ready(copy)[:2] == ("False", "Deleting")


def test_a_stream_without_data_is_deleted_without_a_run(world: World) -> None:
    copy = stream(world, "copy", trigger={"manual": {}}, table={"uri": "s3a://lake/copy", "deletionPolicy": "Delete"})
    world.reconcile()
    world.delete(copy)
    world.reconcile()
    assert (world.runs(), copy in world.resources) == ([], False)


def test_the_first_run_of_a_stream_that_is_applied_together_with_its_replay_is_waited_for(world: World) -> None:
    key = job(world)
    orders = stream(world, trigger={"schedule": {"cron": "* * * * *"}})
    world.reconcile_once(key)
    assert world.ready(key) == ("False", "Pending", "waiting for the first run of MessageStream orders")
    world.wait(minutes=1)
    world.reconcile_once(orders)
    world.reconcile()
    ingest = world.only_run()
    run = ingest.name
    waits = f"waiting for the first run of MessageStream orders: run {run}"
    assert world.ready(key) == ("False", "Pending", f"{waits} is being started")
    world.start(ingest)
    ingest.report = world.report(ingest, "Running", world.outcome(ingest))
    world.reconcile()
    assert (world.status(orders).totals.stored, world.status(key).phase) == (10, "Pending")
    world.finish(ingest)
    world.reconcile()
    assert world.only_run().create.run.kind == "replay"


def test_a_continuous_stream_is_replayed_once_it_has_taken_something_in(world: World) -> None:
    key = job(world)
    stream(world, trigger={"continuous": {"batchInterval": "PT2S"}})
    ingest = world.run_under_way()
    assert world.status(key).phase == "Pending"
    ingest.report = world.report(ingest, "Running", world.outcome(ingest))
    world.reconcile()
    world.reconcile_after(seconds=5)
    assert [app.create.run.kind for app in world.runs()] == ["ingest", "replay"]


@pytest.mark.parametrize(
    "idle",
    [
        {"trigger": {"manual": {}}},
        {"trigger": {"schedule": {"cron": "0 3 * * *"}}},
        {"trigger": {"continuous": {}}, "suspend": True},
    ],
)
def test_a_stream_without_runs_of_its_own_can_be_replayed(world: World, idle: dict[str, Any]) -> None:
    stream(world, **idle)
    key = job(world)
    run_once(world)
    assert world.status(key).phase == "Succeeded"


def test_a_redrive_holds_every_table_that_it_writes(world: World) -> None:
    stream(world)
    stream(world, "copy")
    key = job(world, origin="DeadLetters", destination={"stream": {"name": "copy"}})
    world.reconcile()
    app = world.only_run()
    document: Any = app.create.document
    assert {document.table.epoch, document.task.destination.table.epoch} == {
        lease.epoch for lease in world.leases.values()
    }
    assert sorted(table.uri for table in world.leases) == ["s3a://lake/copy", "s3a://lake/orders"]
    world.start(app)
    world.finish(app)
    world.reconcile()
    assert all(lease.holder is None for lease in world.leases.values())
    assert world.status(key).phase == "Succeeded"


def test_a_replay_into_a_stream_waits_for_its_ingest(world: World) -> None:
    stream(world)
    target = stream(world, "copy", trigger={"interval": "PT5M"})
    world.reconcile(target)
    ingest = world.only_run()
    world.start(ingest)
    key = job(world, destination={"stream": {"name": "copy"}})
    world.reconcile()
    assert world.ready(key)[1] == "TableBusy"
    world.finish(ingest)
    world.reconcile()
    assert world.only_run().owner == key
    assert world.only_run().create.document.table.epoch is None


def test_a_lost_driver_is_tried_again(world: World) -> None:
    stream(world)
    key = job(world)
    app = world.run_under_way()
    world.die(app, exit_code=137)
    world.reconcile()
    assert world.status(key).error.reason == "OutOfMemory"
    world.reconcile_after(minutes=1)
    assert world.only_run().create.always_executors
    run_once(world)
    assert world.status(key).phase == "Succeeded"
    assert world.status(key).attempts == 2


def test_a_replay_that_can_not_start_says_why_and_pauses_at_once(world: World) -> None:
    stream(world)
    key = job(world)
    world.reconcile()
    app = world.only_run()
    app.driver = DriverPod("Pending", waiting=Waiting("Unschedulable", "0/1 nodes"))
    world.reconcile()
    assert world.ready(key)[1] == "Unschedulable"
    job(world, suspend=True)
    world.reconcile()
    assert (world.status(key).phase, app.there, world.status(key).failures) == ("Paused", False, 0)


@pytest.mark.parametrize("cut", range(1, 3))
def test_an_operator_killed_between_two_actions_launches_once(world: World, cut: int) -> None:
    stream(world)
    key = job(world)
    world.reconcile_once(key, cut_after=cut)
    world.reconcile()
    assert len(world.launched) == 1


INTO_ANOTHER = {"destination": {"stream": {"name": "copy"}}}


def ingested(world: World, name: str) -> Key:
    """A stream with ten messages and seven dead letters."""
    key = stream(world, name)
    world.tables[f"s3a://lake/{name}"] = Stored(dead=7)
    world.annotate(key, run_requested="now")
    run_once(world)
    return key


def dead_letters(world: World, key: Key) -> int:
    return int(world.status(key).table.dead_letters)


def test_after_a_replay_into_a_stream_its_status_says_what_it_has(world: World) -> None:
    orders, copy = ingested(world, "orders"), ingested(world, "copy")
    job(world, **INTO_ANOTHER)
    run_once(world)
    assert (contents(world, copy), contents(world, orders)) == ((15, 15), (10, 10))
    assert world.ready(copy)[2].startswith("15 messages stored")
    world.annotate(copy, run_requested="again")
    run_once(world)
    assert contents(world, copy) == (25, 25)
    world.reconcile()
    assert contents(world, copy) == (25, 25), "the replay was before"


def test_after_a_redrive_both_streams_say_what_they_have(world: World) -> None:
    orders, copy = ingested(world, "orders"), ingested(world, "copy")
    job(world, **INTO_ANOTHER, origin="DeadLetters")
    run_once(world)
    assert (contents(world, copy), dead_letters(world, copy)) == ((15, 15), 7)
    assert (contents(world, orders), dead_letters(world, orders)) == ((10, 10), 2)


def test_after_a_redrive_into_its_own_stream_the_status_has_both(world: World) -> None:
    orders = ingested(world, "orders")
    job(world, origin="DeadLetters", destination={"stream": {"name": "orders"}})
    run_once(world)
    assert (contents(world, orders), dead_letters(world, orders)) == ((15, 15), 2)


def test_a_replay_that_stops_midway_or_fails_at_its_end_updates_the_figures_of_its_target(world: World) -> None:
    ingested(world, "orders")
    copy = ingested(world, "copy")
    key = job(world, **INTO_ANOTHER)
    app = world.start_due()
    job(world, **INTO_ANOTHER, suspend=True)
    world.reconcile()
    world.finish(app, outcome=world.replayed(app).model_copy(update={"complete": False}))
    world.reconcile()
    assert (world.status(key).phase, contents(world, copy)) == ("Paused", (15, 15))
    job(world, **INTO_ANOTHER)
    app = world.start_due()
    world.finish(app, outcome=world.replayed(app), error=BROKEN)
    world.reconcile()
    assert (world.status(key).phase, contents(world, copy)) == ("Failed", (20, 20))


def test_a_stream_that_never_ran_says_what_a_replay_into_it_has_left(world: World) -> None:
    ingested(world, "orders")
    copy = stream(world, "copy")
    job(world, **INTO_ANOTHER)
    run_once(world)
    assert contents(world, copy) == (5, 5)


def test_a_stream_that_was_made_again_does_not_say_what_a_replay_left_before_other_runs(world: World) -> None:
    ingested(world, "orders")
    copy = stream(world, "copy")
    job(world, **INTO_ANOTHER)
    run_once(world)
    world.annotate(copy, run_requested="now")
    run_once(world)
    assert contents(world, copy) == (15, 15)
    world.delete(copy)
    copy = stream(world, "copy")
    world.reconcile()
    assert world.status(copy).table is None


def test_a_report_of_an_epoch_that_was_not_granted_changes_no_figure(world: World) -> None:
    ingested(world, "orders")
    copy = ingested(world, "copy")
    job(world, **INTO_ANOTHER)
    app = world.start_due()
    reported = world.replayed(app)
    forged = reported.target_table.model_copy(update={"epoch": 1 << 40})
    world.finish(app, outcome=reported.model_copy(update={"target_table": forged}))
    world.reconcile()
    assert contents(world, copy) == (10, 10)


def test_a_run_past_its_deadline_whose_pod_lingers_is_looked_at_as_seldom_as_others(world: World) -> None:
    stream(world)
    key = job(world, activeDeadline="PT1H")
    world.run_under_way()
    world.lingers = True
    world.reconcile_after(hours=2)
    assert world.ready(key)[1] == "DeadlineExceeded"
    assert world.requeue_at[key] == world.now + world.defaults.poll_interval
