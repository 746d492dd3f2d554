"""The life of a subscription: a replay with a trigger and a start, which goes on behind its cursor."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.replay import ReplayTask, Reset, StartPoint
from messagestore_operator.tenancy.settings import HttpBounds
from support.outcomes import subscription_outcome
from support.world import Key, World, run_once, stream

AHEAD = RunError(reason="CursorAhead", message="the cursor is at 9, and the store's last global position is 5")
AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
TABLE = "s3a://lake/orders"


def job(world: World, **spec: Any) -> Key:
    given = {
        "streamRef": {"name": "orders"},
        "start": {"at": "Beginning"},
        "trigger": {"interval": "PT5M"},
        "destination": {"files": {"uri": "s3a://replay/orders/"}},
    }
    return world.apply("ReplayJob", "orders-out", {**given, **spec})


sent = partial(subscription_outcome, Lag(as_of=AT, records=2, oldest_pending_time=AT))


def task_of(world: World) -> ReplayTask:
    """The task of the run in progress."""
    task = world.only_run().create.document.task
    assert isinstance(task, ReplayTask)
    return task


def test_a_subscription_takes_no_lease_and_its_status_shows_progress(world: World) -> None:
    stream(world)
    key = job(world)
    world.reconcile()
    app, task = world.only_run(), task_of(world)
    assert (task.rounds, app.create.document.table.epoch) == (False, None)
    assert (task.subscription.start, task.subscription.reset) == (StartPoint(at="Beginning"), None)
    world.start(app)
    world.finish(app, outcome=sent(3, 7, missed=1, erased=2))
    world.reconcile()
    status = world.status(key)
    (one,) = status.destinations
    assert (status.phase, status.round, status.replayed_total, status.started_at) == ("Idle", 1, 3, None)
    assert (one.name, one.cursor.global_position, one.cursor.missed, one.cursor.erased) == ("", 7, 1, 2)
    assert (one.lag.records, one.lag.oldest_pending_time, one.lag.as_of) == (2, *["2026-01-05T08:00:00Z"] * 2)
    assert world.ready(key) == ("True", "Replayed", "3 messages sent to files/orders in 1 round so far")
    world.wait(minutes=5, seconds=1)
    run_once(world, outcome=sent(5, 9, 2))
    assert world.status(key).round == 2


def test_a_reset_starts_a_run_once_for_each_value(world: World) -> None:
    stream(world)
    key = job(world, trigger={"manual": {}})
    world.annotate(key, run_requested="now")
    run_once(world, outcome=sent(3, 7))
    world.annotate(key, run_requested="now", reset_to="4")
    world.reconcile()
    subscription = task_of(world).subscription
    run_once(world, outcome=sent(7, 7, 2, resets=1, reset="4"))
    assert subscription.reset == Reset(value="4", to=StartPoint(global_position=4))
    assert world.status(key).last_handled_reset == "4"
    world.reconcile()
    assert len(world.launched) == 2
    world.annotate(key, run_requested="now", reset_to="2026-01-05T08:00:00Z")
    world.reconcile()
    assert len(world.launched) == 3
    subscription = task_of(world).subscription
    assert subscription.reset == Reset(value="2026-01-05T08:00:00Z", to=StartPoint(inserted_at=AT))


def test_a_time_of_a_reset_without_a_zone_is_in_utc(world: World) -> None:
    stream(world)
    key = job(world)
    world.annotate(key, reset_to="2026-01-05T08:00:00")
    world.reconcile()
    assert task_of(world).subscription.reset.to == StartPoint(inserted_at=AT)


def test_a_reset_to_no_position_or_time_is_refused(world: World) -> None:
    stream(world)
    key = job(world)
    world.annotate(key, reset_to="yesterday")
    world.reconcile()
    assert world.launched == []
    phase, reason, words = world.status(key).phase, world.ready(key)[1], world.ready(key)[2]
    assert (phase, reason) == ("Stalled", "NotSupported")
    assert "reset-to" in words
    world.annotate(key, reset_to="Now")
    world.reconcile()
    assert len(world.launched) == 1


def test_a_cursor_ahead_of_its_store_stalls_until_it_is_reset(world: World) -> None:
    stream(world)
    key = job(world)
    run_once(world, error=AHEAD)
    assert (world.status(key).phase, world.ready(key)[1]) == ("Stalled", "CursorAhead")
    world.reconcile_after(hours=5)
    assert len(world.launched) == 1
    world.annotate(key, reset_to="6")
    run_once(world, outcome=sent(1, 6, resets=1, reset="6"))
    assert world.status(key).phase == "Idle"


def test_a_changed_spec_is_sent_with_the_next_run(world: World) -> None:
    stream(world)
    key = job(world)
    run_once(world, outcome=sent(3, 7))
    job(world, select={"categories": ["order"]})
    world.reconcile_after(minutes=6)
    assert task_of(world).select.categories == ("order",)
    run_once(world, outcome=sent(4, 9, 2))
    assert world.status(key).phase == "Idle"


def test_a_cursor_that_an_earlier_resource_left_raises_an_event(world: World) -> None:
    stream(world)
    key = job(world)
    run_once(world, outcome=sent(3, 7, taken_up=True))
    assert world.reasons(key).count("CursorFound") == 1


def allow(world: World, **http: Any) -> None:
    tenancy = world.defaults.tenancy.model_copy(update={"http": HttpBounds(**http)})
    world.defaults = replace(world.defaults, tenancy=tenancy)


def test_an_endpoint_waits_until_the_settings_allow_its_host(world: World) -> None:
    stream(world)
    key = job(world, destination={"http": {"url": "https://events.example.org/orders"}})
    world.reconcile()
    assert world.ready(key)[:2] == ("False", "NotAllowed")
    assert "events.example.org is none of the hosts that the operator's settings allow" in world.ready(key)[2]
    allow(world, hosts=("*.example.org",))
    world.reconcile()
    to = task_of(world).destination
    assert (to.envelope, to.addresses, to.header) == ("CloudEvents", "Public", None)
    assert world.status(key).destination == "http/events.example.org"


def test_an_endpoint_of_a_private_network_needs_a_setting_of_its_own(world: World) -> None:
    stream(world)
    job(world, destination={"http": {"url": "http://events.shop.svc"}, "envelope": "CloudEventsBinary"})
    allow(world, hosts=("events.shop.svc",), allow_private=True)
    world.reconcile()
    to = task_of(world).destination
    assert (to.envelope, to.addresses) == ("CloudEventsBinary", "Private")


def test_an_endpoint_that_refuses_all_stalls_the_job_until_it_takes_some(world: World) -> None:
    stream(world)
    key = job(world, destination={"http": {"url": "https://events.example.org"}})
    allow(world, hosts=("events.example.org",))
    denied = RunError(reason="HttpDenied", message="https://events.example.org answers 403")
    for _ in range(4):
        world.reconcile()
        world.start(world.only_run())
        world.finish(world.only_run(), denied)
        world.reconcile()
        world.wait(minutes=11)
    world.reconcile()
    assert (world.status(key).phase, world.ready(key)[1]) == ("Stalled", "HttpDenied")
    world.start(world.only_run())
    outcome = sent(7, position=9, set_aside=2)
    progress = outcome.progress.model_copy(update={"set_aside": 2})
    world.finish(world.only_run(), outcome=outcome.model_copy(update={"progress": progress}))
    world.reconcile()
    status = world.status(key)
    assert (status.phase, world.ready(key)[:2]) == ("Idle", ("True", "Replayed"))
    assert (status.progress.set_aside, status.destinations[0].cursor.set_aside) == (2, 2)
    assert world.ready(key)[2].endswith(" in 1 round so far, 2 refused and set aside")
