"""The life of a policy, step by step: a world in memory carries out the decisions."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.purge import ConsumedBy, EraseOutcome, Unsent
from messagestore_operator.decide.snapshot import DriverPod, Waiting
from messagestore_operator.status.conditions import condition_of
from support.world import App, Key, World, contents, run_once, stream

DAILY = {"schedule": {"cron": "0 9 * * *"}}
DENIED = RunError(reason="StorageDenied", message="access denied to bucket lake")


def policy(world: World, **spec: Any) -> Key:
    given = {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P90D"}],
        "mode": "Enforce",
    }
    return world.apply("RetentionPolicy", "tidy", {**given, **spec})


def request(world: World, key: Key, value: str = "now") -> None:
    world.annotate(key, run_requested=value)
    world.reconcile()


def going(world: World) -> list[App]:
    return [app for app in world.runs() if not app.state.ended]


def entry(world: World, key: Key, name: str = "orders") -> Any:
    return next(one for one in world.status(key).streams if one.name == name)


def test_a_policy_waits_for_its_schedule_and_purges(world: World) -> None:
    stream(world)
    key = policy(world, trigger=DAILY)
    world.reconcile()
    assert (world.status(key).phase, world.ready(key)[:2]) == ("Idle", ("True", "Waiting"))
    assert world.status(key).next_run_time == "2026-01-05T09:00:00Z"
    world.reconcile_after(hours=1)
    app = world.only_run()
    assert (app.create.run.kind, app.create.run.stream) == ("purge", "orders")
    assert app.create.document.table.epoch is not None
    world.start(app)
    world.reconcile()
    assert world.status(key).phase == "Running"
    world.finish(app)
    world.reconcile()
    assert (world.status(key).phase, world.ready(key)) == ("Idle", ("True", "Purged", "4 messages removed"))
    assert (world.status(key).purged, world.status(key).next_run_time) == (4, "2026-01-06T09:00:00Z")
    assert "Purged" in world.reasons(key)
    world.reconcile_after(hours=20)
    assert len(world.launched) == 1


@pytest.mark.parametrize(("deadline", "runs"), [({}, 1), ({"startingDeadline": "PT1H"}, 0)])
def test_a_schedule_that_replaces_a_manual_trigger_makes_up_for_its_last_time_as_a_cron_jobs_does(
    world: World, deadline: dict[str, str], runs: int
) -> None:
    stream(world)
    policy(world)
    world.reconcile_after(hours=27)
    key = policy(world, trigger={"schedule": {**DAILY["schedule"], **deadline}})
    world.reconcile()
    assert len(going(world)) == runs
    assert ("ScheduleMissed" in world.reasons(key)) == (runs == 0)
    assert world.status(key).next_run_time == "2026-01-07T09:00:00Z"


def test_messages_that_wait_too_long_for_a_subscription_raise_one_event_until_they_have_gone(world: World) -> None:
    stream(world)
    key = policy(world, rules=[{"name": "sent", "consumedBy": {"replayJobs": ["relay"]}}])
    world.defaults = replace(world.defaults, retention_blocked_after=timedelta(days=2))
    world.reconcile()
    for number, (days, blocked, told) in enumerate([(1, False, 0), (2, True, 1), (3, True, 1), (0, False, 1)]):
        request(world, key, f"round-{number}")
        app = world.only_run()
        assert app.create.document.task.rules[0].consumed_by == ConsumedBy(replay_jobs=("relay",))
        world.start(app)
        outcome = world.outcome(app)
        waits = (Unsent(name="relay", waiting=3, waiting_since=world.now - timedelta(days=days)),) if days else ()
        preview = outcome.preview.model_copy(update={"as_of": world.now, "subscriptions": waits})
        world.finish(app, outcome=outcome.model_copy(update={"preview": preview}))
        world.reconcile()
        assert (condition_of(world.status(key), "RetentionBlocked") is not None) == blocked
        assert world.reasons(key).count("RetentionBlocked") == told
        assert world.ready(key)[:2] == ("True", "Purged")


def test_a_purge_that_was_asked_for_without_the_spark_operator_is_made_when_that_comes(world: World) -> None:
    world.missing_kind = "sparkapplications.sparkoperator.k8s.io"
    stream(world)
    key = policy(world)
    request(world, key)
    assert world.ready(key)[:2] == ("False", "SparkOperatorMissing")
    world.missing_kind = None
    world.reconcile()
    assert world.only_run().create.run.kind == "purge"


def test_a_preview_takes_no_table(world: World) -> None:
    stream(world)
    key = policy(world, mode="DryRun")
    request(world, key)
    app = world.only_run()
    assert app.create.document.table.epoch is None
    assert world.leases == {}
    world.start(app)
    world.reconcile()
    assert world.status(key).phase == "Previewing"
    world.finish(app)
    world.reconcile()
    assert world.ready(key)[1] == "Previewed"


def test_an_approval_lets_the_very_preview_be_carried_out(world: World) -> None:
    stream(world)
    key = policy(world, approval="Required")
    request(world, key)
    app = world.only_run()
    world.start(app)
    world.finish(app, outcome=world.purged(app, waiting=True))
    world.reconcile()
    assert world.status(key).phase == "AwaitingApproval"
    assert "approve with annotation messagestore.dev/approved-preview: preview-1" in world.ready(key)[2]
    assert world.reasons(key).count("AwaitingApproval") == 1
    world.wait(days=3)
    world.annotate(key, approved_preview="preview-0")
    world.reconcile()
    assert world.ready(key)[1] == "WrongApproval"
    assert "the preview that awaits approval is preview-1" in world.ready(key)[2]
    world.annotate(key, approved_preview="x" * 40000)
    world.reconcile()
    assert world.ready(key)[2].startswith("annotation messagestore.dev/approved-preview approves preview xxx")
    world.annotate(key, approved_preview="preview-1")
    world.reconcile()
    approved = world.only_run()
    assert approved.create.document.task.approved_preview == "preview-1"
    world.start(approved)
    world.finish(approved)
    world.reconcile()
    assert (world.status(key).phase, world.ready(key)[1]) == ("Idle", "Purged")
    assert len(world.launched) == 2


def test_what_was_approved_in_an_earlier_round_approves_nothing_and_is_not_wrong(world: World) -> None:
    stream(world)
    key = policy(world, approval="Required")
    request(world, key)
    for waiting in (True, False):
        app = world.only_run()
        world.start(app)
        world.finish(app, outcome=world.purged(app, waiting=waiting, preview="first"))
        world.annotate(key, approved_preview="first")
        world.reconcile()
    assert entry(world, key).last_purge.preview == "first"
    request(world, key, "again")
    again = world.only_run()
    world.start(again)
    world.reconcile()
    assert world.status(key).phase == "Previewing"
    world.finish(again, outcome=world.purged(again, waiting=True, preview="second"))
    world.reconcile()
    assert (world.status(key).phase, world.ready(key)[1]) == ("AwaitingApproval", "AwaitingApproval")
    assert "WrongApproval" not in world.reasons(key)


def test_approvals_of_several_streams_are_each_carried_out_at_any_time(world: World) -> None:
    """Of one only its own, so that a run image from before knows it."""
    names = ["a", "b", "c"]
    for name in names:
        stream(world, name)
    key = policy(world, approval="Required", streamRefs=[{"name": name} for name in names])
    request(world, key)
    while apps := going(world):
        world.start(apps[0])
        waits = world.purged(apps[0], waiting=True, preview=f"preview-{apps[0].create.run.stream}")
        world.finish(apps[0], outcome=waits)
        world.reconcile()
    world.annotate(key, approved_preview="preview-a, preview-c,outdated")
    world.reconcile()
    approved = [app.create.document.task.approved_preview for app in going(world)]
    assert approved == ["preview-a", "preview-c"]
    for app in going(world):
        world.start(app)
        world.finish(app, outcome=world.purged(app, preview=f"preview-{app.create.run.stream}"))
    world.reconcile()
    assert world.status(key).phase == "AwaitingApproval"
    assert [one.last_purge is not None for one in world.status(key).streams] == [True, False, True]
    assert going(world) == []


def test_a_policy_purges_a_few_streams_at_a_time_until_all_are_done(world: World) -> None:
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        stream(world, name)
    key = policy(world, streamRefs=[{"name": name} for name in names])
    request(world, key)
    done: list[str | None] = []
    while apps := going(world):
        assert len(apps) <= 2
        world.start(apps[0])
        world.finish(apps[0])
        done.append(apps[0].create.run.stream)
        world.reconcile()
    assert done == names
    assert world.ready(key)[2] == "20 messages removed"
    assert world.status(key).stream_summary == "5 streams"
    numbers = [app.create.run.number for app in world.apps.values()]
    assert numbers == [1, 2, 3, 4, 5]


def test_a_reserved_run_that_waits_for_its_table_takes_its_place(world: World) -> None:
    names = ["a", "b", "c", "d"]
    ingests = {name: stream(world, name) for name in names}
    key = policy(world, streamRefs=[{"name": name} for name in names])
    world.annotate(ingests["b"], run_requested="now")
    world.reconcile()
    ingest = world.only_run("ingest")
    world.start(ingest)
    request(world, key)
    first = world.only_run("purge")
    world.start(first)
    world.finish(first, RunError(reason="RunFailed", message="no"))
    world.reconcile()
    world.start(world.only_run("purge"))
    world.reconcile_after(seconds=60)
    world.finish(ingest)
    world.reconcile_after(seconds=31)
    assert [app.create.run.stream for app in going(world)] == ["c", "b"]


def test_a_missing_stream_is_named_while_others_go_on(world: World) -> None:
    stream(world)
    key = policy(world, streamRefs=[{"name": "nowhere"}, {"name": "orders"}])
    request(world, key)
    run_once(world)
    assert world.ready(key) == ("False", "StreamMissing", "stream nowhere: there is no MessageStream nowhere")
    assert entry(world, key).last_purge.purged == 4
    assert entry(world, key, "nowhere").error.reason == "StreamMissing"
    stream(world, "nowhere")
    world.reconcile()
    assert world.only_run().create.run.stream == "nowhere"
    run_once(world)
    assert world.ready(key)[0] == "True"


def test_a_stream_whose_spec_is_refused_gets_no_run_and_keeps_the_one_under_way(world: World) -> None:
    key, refused = policy(world), stream(world)
    request(world, key)
    run = world.only_run()
    world.start(run)
    world.invalid[refused] = "spec.trigger.schedule.cron: this one never fires"
    world.reconcile()
    assert run.there
    world.finish(run)
    request(world, key, "again")
    words = "stream orders: spec.trigger.schedule.cron: this one never fires (MessageStream orders)"
    assert world.ready(key) == ("False", "InvalidSpec", words)
    assert len(world.launched) == 1
    del world.invalid[refused]
    world.reconcile()
    assert len(world.launched) == 2


def test_a_selector_takes_streams_by_their_labels(world: World) -> None:
    key = policy(world, streamRefs=[], streamSelector={"matchLabels": {"team": "a"}})
    world.reconcile()
    assert world.ready(key)[2] == "no MessageStream has the labels of spec.streamSelector"
    stream(world)
    request(world, key)
    run_once(world)
    assert world.status(key).stream_summary == "orders"
    stream(world, "later")
    world.reconcile()
    assert len(world.launched) == 1, "a stream that joins between two rounds waits for the next"


def test_more_than_a_hundred_streams_are_refused(world: World) -> None:
    for number in range(101):
        stream(world, f"s{number}")
    key = policy(world, streamRefs=[], streamSelector={"matchLabels": {"team": "a"}})
    request(world, key)
    assert world.ready(key)[1] == "TooManyStreams"
    assert world.launched == []


def test_a_failed_purge_is_tried_again_and_a_new_spec_at_once(world: World) -> None:
    stream(world)
    key = policy(world)
    request(world, key)
    run_once(world, error=DENIED)
    assert (world.status(key).phase, world.ready(key)[1]) == ("Failing", "StorageDenied")
    assert "the next try is at" in world.ready(key)[2]
    world.reconcile()
    assert len(world.launched) == 1
    world.reconcile_after(seconds=15)
    assert world.only_run().create.run.attempt == 2
    run_once(world, error=RunError(reason="PredicateRefused", message="no such column"))
    assert world.status(key).phase == "Stalled"
    world.reconcile_after(days=2)
    assert len(world.launched) == 2
    policy(world, rules=[{"name": "old", "maxAge": "P80D"}])
    run_once(world)
    assert world.ready(key)[0] == "True"


def test_of_many_streams_that_failed_the_first_three_are_told_and_how_many_more(world: World) -> None:
    names = [f"orders-{number:02}" for number in range(12)]
    for name in names:
        stream(world, name)
    key = policy(world, streamRefs=[{"name": name} for name in names])
    world.defaults = replace(world.defaults, streams_at_once=len(names))
    request(world, key)
    for app in world.runs():
        world.finish(app, error=RunError(reason="StorageDenied", message="denied " * 1000))
    world.reconcile(key)
    status, reason, words = world.ready(key)
    assert (status, reason) == ("False", "StorageDenied")
    assert [name for name in names if name in words] == names[:3]
    assert words.endswith("; and 9 more")


def test_a_missing_scrub_key_is_named(world: World) -> None:
    world.secrets = {}
    stream(world)
    scrub = {"headers": ["X-Customer"], "method": "Hash", "keySecretRef": {"name": "scrub-key"}}
    key = policy(world, action="Scrub", scrub=scrub)
    request(world, key)
    assert world.ready(key)[:2] == ("False", "SecretMissing")
    assert "Secret scrub-key doesn't exist" in world.ready(key)[2]
    world.secrets = {"scrub-key": frozenset({"seal"})}
    world.reconcile()
    (variable,) = world.only_run().create.variables
    task = world.only_run().create.document.task
    assert (variable.variable, variable.secret, variable.key) == (task.scrub.key_environment, "scrub-key", "key")


def test_an_erasure_starts_in_time_to_be_done_when_it_is_due(world: World) -> None:
    stream(world)
    key = policy(world)
    request(world, key)
    app = world.only_run()
    world.start(app)
    due = world.now.replace(day=12)
    world.finish(app, outcome=world.purged(app, erase_due_by=due))
    world.reconcile()
    world.reconcile_after(days=6, hours=20)
    assert len(world.launched) == 1
    world.reconcile_after(hours=1)
    erase = world.only_run()
    assert world.now == due - timedelta(hours=3)
    assert (erase.create.run.kind, erase.create.document.task.kind) == ("erase", "erase")
    world.start(erase)
    outcome: Any = world.purged(erase)
    world.finish(
        erase, outcome=EraseOutcome(erased=4, erased_at=world.now, not_erased=("archives",), table=outcome.table)
    )
    world.reconcile()
    assert entry(world, key).last_purge.erased_at is not None
    assert entry(world, key).last_purge.erase_due_by is None
    assert entry(world, key).last_purge.possible_copies == ("archives",)
    assert entry(world, key).last_purge.purged == 4
    world.reconcile_after(days=9)
    assert len(world.launched) == 2


def test_a_suspended_policy_starts_no_run_and_makes_up_for_one_when_it_is_resumed(world: World) -> None:
    stream(world)
    key = policy(world, trigger=DAILY, suspend=True)
    world.reconcile_after(hours=30)
    assert (world.status(key).phase, world.launched) == ("Suspended", [])
    policy(world, trigger=DAILY)
    run_once(world)
    assert len(world.launched) == 1


def test_a_run_that_was_requested_before_a_suspension_starts_when_the_policy_is_resumed(world: World) -> None:
    stream(world)
    key = policy(world)
    world.annotate(key, run_requested="now")
    world.reconcile_once(key, cut_after=1)
    policy(world, suspend=True)
    world.reconcile()
    assert world.launched == []
    policy(world)
    world.reconcile()
    assert len(world.launched) == 1


def test_a_purge_makes_a_continuous_stream_give_way_and_go_on(world: World) -> None:
    source = stream(world, trigger={"continuous": {}})
    key = policy(world)
    ingest = world.run_under_way()
    request(world, key)
    assert world.ready(key)[1] == "TableBusy"
    assert f"waiting for ingest run {ingest.name} of MessageStream default/orders" in world.ready(key)[2]
    world.reconcile_after(minutes=1)
    assert ingest.control.stop
    world.finish(ingest)
    world.reconcile_after(seconds=20)
    assert world.only_run().create.run.kind == "purge"
    assert world.status(source).phase == "Pending"
    run_once(world)
    assert world.only_run().owner == source


@pytest.mark.parametrize("cut", range(1, 6))
def test_an_operator_killed_between_two_actions_purges_once(world: World, cut: int) -> None:
    stream(world)
    stream(world, "b")
    key = policy(world, streamRefs=[{"name": "orders"}, {"name": "b"}])
    world.annotate(key, run_requested="now")
    world.reconcile_once(key, cut_after=cut)
    world.reconcile()
    assert len(world.launched) == 2
    assert {app.create.run.stream for app in world.runs()} == {"orders", "b"}


def test_a_policy_says_why_the_pod_of_its_run_waits(world: World) -> None:
    stream(world)
    key = policy(world)
    request(world, key)
    app: App = world.only_run()
    app.driver = DriverPod("Pending", waiting=Waiting("ErrImagePull", "not found"))
    world.reconcile()
    assert world.ready(key)[1] == "ImagePullFailed"
    policy(world, spark={"driver": {"cores": 2}})
    run_once(world)
    assert world.ready(key)[0] == "True"


def test_the_purge_of_a_stream_ends_when_its_policy_drops_the_stream(world: World) -> None:
    stream(world)
    stream(world, "b")
    key = policy(world)
    request(world, key)
    app = world.only_run()
    world.start(app)
    world.reconcile()
    policy(world, streamRefs=[{"name": "b"}])
    world.reconcile()
    assert [one.name for one in world.status(key).streams] == ["b"]
    assert not app.there


def test_after_a_purge_the_stream_says_what_is_left_and_the_last_position_stays(world: World) -> None:
    orders = stream(world)
    key = policy(world)
    world.annotate(orders, run_requested="now")
    run_once(world)
    assert contents(world, orders) == (10, 10)
    world.annotate(key, run_requested="now")
    run_once(world)
    assert contents(world, orders) == (6, 10)
    assert world.ready(orders)[2].startswith("6 messages stored")
    world.annotate(orders, run_requested="again")
    run_once(world)
    assert contents(world, orders) == (16, 16)
    world.reconcile()
    assert contents(world, orders) == (16, 16), "the policy's last run was before"


def test_after_an_erasure_the_stream_says_what_is_left(world: World) -> None:
    orders = stream(world)
    key = policy(world)
    world.annotate(orders, run_requested="now")
    run_once(world)
    request(world, key)
    purge = world.only_run()
    world.start(purge)
    world.finish(purge, outcome=world.purged(purge, erase_due_by=world.now))
    world.reconcile()
    erase = world.only_run()
    assert erase.create.run.kind == "erase"
    world.start(erase)
    world.tables["s3a://lake/orders"].dead = 3
    done = EraseOutcome(erased=4, erased_at=world.now, erase_due_by=world.now, table=world.table(erase))
    world.finish(erase, outcome=done)
    world.reconcile()
    assert (world.status(orders).table.dead_letters, world.status(orders).table.messages) == (3, 6)


def test_a_purge_while_the_stream_is_suspended_counts_for_it_too(world: World) -> None:
    orders = stream(world)
    key = policy(world)
    world.annotate(orders, run_requested="now")
    run_once(world)
    stream(world, suspend=True)
    world.annotate(key, run_requested="now")
    run_once(world)
    assert (contents(world, orders), world.status(orders).phase) == ((6, 10), "Suspended")


def test_a_preview_or_a_report_of_an_epoch_that_was_not_granted_changes_no_figure_of_the_stream(world: World) -> None:
    orders = stream(world)
    key = policy(world, mode="DryRun")
    world.annotate(orders, run_requested="now")
    run_once(world)
    request(world, key)
    app = world.only_run()
    world.start(app)
    told = world.purged(app)
    invented = told.table.model_copy(update={"messages": 1, "epoch": 1 << 40})
    world.finish(app, outcome=told.model_copy(update={"table": invented}))
    world.reconcile()
    assert contents(world, orders) == (10, 10)


def test_a_stream_that_was_made_again_elsewhere_shows_no_figures_of_its_former_store(
    world: World,
) -> None:
    orders = stream(world)
    key = policy(world)
    world.annotate(orders, run_requested="now")
    run_once(world)
    world.annotate(key, run_requested="now")
    run_once(world)
    world.delete(orders)
    world.reconcile()
    world.wait(days=1)
    orders = stream(world, table={"uri": "s3a://lake/orders-2"})
    world.reconcile()
    assert world.status(orders).table is None
    world.annotate(orders, run_requested="now")
    run_once(world)
    assert contents(world, orders) == (10, 10)
