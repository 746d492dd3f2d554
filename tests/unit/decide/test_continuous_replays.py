"""The life of a continuous replay: one run that goes on, as that of a continuous stream does."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.replay import DestinationState, GoingOn, ReplayOutcome
from messagestore_operator.api.common import Schedule
from messagestore_operator.decide.schedule import Window
from messagestore_operator.tenancy.settings import HttpBounds
from support.outcomes import subscription_outcome
from support.world import App, Key, World, stream

AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
KAFKA = {"kafka": {"bootstrapServers": "kafka:9092", "topic": "orders-out"}}


def continuous(world: World, **spec: Any) -> Key:
    given = {
        "streamRef": {"name": "orders"},
        "start": {"at": "Beginning"},
        "trigger": {"continuous": {}},
        "destination": KAFKA,
    }
    return world.apply("ReplayJob", "orders-out", {**given, **spec})


def running(world: World, **spec: Any) -> tuple[Key, App]:
    """A continuous replay whose run goes on."""
    stream(world)
    key = continuous(world, **spec)
    app = world.run_under_way()
    assert not app.control.stop
    return key, app


sent = partial(subscription_outcome, Lag(as_of=AT, records=0))


def test_a_continuous_replay_has_one_run_without_lease_or_executors_and_its_status_shows_progress(world: World) -> None:
    key, app = running(world)
    task = app.create.document.task
    assert (task.subscription.continuous, app.create.run.continuous, app.create.always_executors) == (True, True, False)
    assert app.create.document.table.epoch is None
    app.report = world.report(app, "Running", sent(3, 7, 2))
    world.reconcile_after(minutes=2)
    status = world.status(key)
    assert (status.phase, status.started_at, app.control.stop) == ("Running", None, False)
    assert (status.round, status.replayed_total, status.destinations[0].cursor.global_position) == (2, 3, 7)
    assert world.ready(key) == ("True", "Replayed", "3 messages sent to kafka/orders-out in 2 rounds so far")
    world.finish(app, outcome=sent(5, 9, 3))
    world.reconcile()
    assert (world.status(key).round, world.status(key).replayed_total) == (3, 5)


def test_a_continuous_replay_has_the_executors_of_its_spec(world: World) -> None:
    _, app = running(world, spark={"executor": {"instances": 2}})
    assert app.create.always_executors


@pytest.mark.parametrize(
    "change",
    [
        lambda world, key: continuous(world, select={"categories": ["order"]}),
        lambda world, key: world.annotate(key, reset_to="4"),
        lambda world, key: setattr(world, "secrets_version", "after"),
    ],
    ids=["spec", "reset", "secret"],
)
def test_a_continuous_replay_starts_again_when_its_spec_reset_or_secret_changes(
    world: World, change: Callable[[World, Key], None]
) -> None:
    world.secrets_version = "before"
    key, app = running(world)
    world.paused = "the operator is paused"
    change(world, key)
    world.reconcile()
    assert not app.control.stop
    world.paused = None
    world.reconcile()
    assert app.control.stop
    world.finish(app, outcome=sent(3, 7))
    world.wait(seconds=20)
    again = world.start_due()
    again.report = world.report(again, "Running", sent(3, 7, reset=world.status(key).last_handled_reset))
    world.reconcile_after(minutes=2)
    assert (again is app, again.control.stop) == (False, False)


def test_a_suspended_continuous_replay_stops_and_starts_again_when_it_is_resumed(world: World) -> None:
    key, app = running(world)
    continuous(world, suspend=True)
    world.reconcile()
    assert app.control.stop
    world.finish(app, outcome=sent(3, 7))
    world.reconcile()
    assert world.status(key).phase == "Paused"
    continuous(world)
    world.reconcile_after(seconds=20)
    assert world.only_run() is not app


def test_a_failed_continuous_replay_retries_with_backoff_and_is_ready_once_it_reaches_its_destination(
    world: World,
) -> None:
    key, app = running(world)
    world.finish(app, error=RunError(reason="KafkaUnreachable", message="no broker answers"))
    world.reconcile()
    assert world.ready(key)[:2] == ("False", "KafkaUnreachable")
    world.wait(seconds=15)
    again = world.run_under_way()
    assert world.ready(key)[1] == "KafkaUnreachable"
    again.report = world.report(again, "Running", sent(0, 7, 0))
    world.reconcile_after(minutes=2)
    assert world.ready(key)[:2] == ("True", "Replayed")


def test_a_continuous_replay_ignores_windows_and_keeps_no_old_files_from_maintenance(world: World) -> None:
    night = Window(Schedule(cron="0 1 * * *", time_zone="UTC"), timedelta(hours=2))
    world.defaults = replace(world.defaults, windows=(night,))
    key, app = running(world)
    world.finish(app, error=RunError(reason="RunFailed", message="it broke off"))
    world.reconcile()
    assert world.status(key).started_at is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"destination": {"files": {"uri": "s3a://replay/orders/"}}}, "goes with kafka and http"),
        ({"start": None, "select": {"dueForRetry": True}}, "needs start"),
    ],
)
def test_a_spec_that_cannot_be_continuous_is_refused(world: World, spec: dict[str, Any], words: str) -> None:
    stream(world)
    with pytest.raises(ValueError, match=words):
        continuous(world, **spec)


def of_destination(world: World, key: Key) -> dict[str, tuple[str, str]]:
    (one,) = world.status(key).destinations
    return {condition.type: (condition.status, condition.reason) for condition in one.conditions}


def test_a_failing_destination_has_conditions_of_its_own_until_it_recovers(world: World) -> None:
    key, app = running(world)
    app.report = world.report(app, "Running", sent(3, 7))
    world.reconcile_after(minutes=2)
    assert of_destination(world, key) == {"Ready": ("True", "Replayed")}
    gone = RunError(reason="TopicMissing", message="there is no topic orders-out")
    for _ in range(4):
        world.finish(app, error=gone)
        world.reconcile()
        assert of_destination(world, key)["Ready"] == ("False", "TopicMissing")
        world.wait(minutes=11)
        app = world.run_under_way()
    assert of_destination(world, key)["Stalled"] == ("True", "TopicMissing")
    assert world.status(key).phase == "Stalled"
    app.report = world.report(app, "Running", sent(4, 8, 2))
    world.reconcile_after(minutes=2)
    assert of_destination(world, key) == {"Ready": ("True", "Replayed")}
    assert (world.status(key).phase, world.status(key).destinations[0].cursor.global_position) == ("Running", 8)


SEVERAL: list[dict[str, Any]] = [
    {"name": "eu", "where": "headers['region'] = 'eu'", **KAFKA},
    {"name": "hook", "http": {"url": "https://events.example.org/orders"}},
]


def going_on(of: dict[str, RunError | None], since: datetime = AT, tries: int = 1) -> ReplayOutcome:
    """What a run reports of several destinations that it has tried so often since then."""
    cursor = sent(3, 7).cursor
    states = tuple(
        DestinationState(
            name=name,
            cursor=cursor,
            error=error,
            going_on=GoingOn(tries=tries, since=since, last_try=since) if error else GoingOn(),
        )
        for name, error in of.items()
    )
    return sent(6, 7).model_copy(update={"cursor": None, "destinations": states})


def test_the_run_itself_reports_and_retries_one_failing_destination_of_several(world: World) -> None:
    tenancy = world.defaults.tenancy.model_copy(update={"http": HttpBounds(hosts=("events.example.org",))})
    world.defaults = replace(world.defaults, tenancy=tenancy)
    key, app = running(world, destination=None, destinations=SEVERAL)
    missing = RunError(reason="TopicMissing", message="there is no topic eu")

    def report(tries: int = 1, **of: RunError | None) -> dict[str, tuple[str, str]]:
        """Ready of each destination after a report."""
        app.report = world.report(app, "Running", going_on(of, world.now - timedelta(minutes=tries), tries))
        world.reconcile_after(minutes=2)
        ones = world.status(key).destinations
        return {one.name: (one.conditions[0].status, one.conditions[-1].type) for one in ones}

    assert report(eu=None, hook=None) == {"eu": ("True", "Ready"), "hook": ("True", "Ready")}
    assert (world.status(key).phase, world.status(key).replayed_total) == ("Running", 6)
    assert report(eu=missing, hook=None) == {"eu": ("False", "Reconciling"), "hook": ("True", "Ready")}
    assert [each.type for each in world.status(key).conditions] == ["Ready", "Degraded"]
    assert report(tries=90, eu=missing, hook=None)["eu"] == ("False", "Stalled")
    assert (world.status(key).phase, world.ready(key)[0]) == ("Running", "True")
    assert report(tries=90, eu=missing, hook=missing)["hook"] == ("False", "Stalled")
    assert (world.status(key).phase, world.ready(key)[:2]) == ("Stalled", ("False", "DestinationsFailed"))
    assert "Stalled" in [each.type for each in world.status(key).conditions]
    # One run is asked for: those that no try helps are tried again, too.
    world.annotate(key, run_requested="now")
    world.reconcile()
    assert app.control.stop
    world.finish(app, outcome=going_on({"eu": missing, "hook": None}, tries=90))
    world.reconcile()
    task = world.only_run().create.document.task
    assert {one.name: one.rests for one in task.destination.routes} == {"eu": False, "hook": False}
    assert task.subscription.continuous
