"""Several destinations of a subscription: one that fails holds no other up, and is tried by a backoff of its own."""

from datetime import UTC, datetime
from typing import Any

from messagestore_core.contract.base import RunError
from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.replay import (
    CursorState,
    DestinationState,
    FrozenSelection,
    ReplayOutcome,
    ReplayProgress,
)
from support.world import Key, World, stream

AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
AWAY = RunError(reason="KafkaUnreachable", message="kafka:9092 doesn't answer")
MISSING = RunError(reason="TopicMissing", message="there is no topic eu")
FULL = RunError(reason="DestinationNotEmpty", message="the folder has other files")
DESTINATIONS: list[dict[str, Any]] = [
    {"name": "eu", "where": "headers['region'] = 'eu'", "kafka": {"bootstrapServers": "kafka:9092", "topic": "eu"}},
    {"name": "audit", "files": {"uri": "s3a://audit/orders"}, "start": {"at": "Now"}},
]


def job(world: World, **spec: Any) -> Key:
    given = {
        "streamRef": {"name": "orders"},
        "start": {"at": "Beginning"},
        "trigger": {"interval": "PT5M"},
        "destinations": DESTINATIONS,
    }
    return world.apply("ReplayJob", "router", {**given, **spec})


def outcome(**of: RunError | None) -> ReplayOutcome:
    """What a run reports that tried these destinations, each with its error."""
    lag = Lag(as_of=AT, records=2, oldest_pending_time=AT)
    cursor = CursorState(global_position=7, rounds=1, sent=3, lag=lag)
    states = tuple(DestinationState(name=name, cursor=cursor, error=error) for name, error in of.items())
    return ReplayOutcome(
        selection=FrozenSelection(table_version=1, messages=3, bytes=10),
        progress=ReplayProgress(replayed=3, percent=100),
        complete=not any(of.values()),
        round=1,
        redelivered=3 * len(of),
        destinations=states,
    )


def run(world: World, **of: RunError | None) -> dict[str, bool]:
    """A run that tried these; return whether each destination rested in it."""
    world.reconcile()
    app = world.only_run()
    rests = {route.name: route.rests for route in routes(world)}
    world.start(app)
    failed = bool(of) and all(of.values())
    error = RunError(reason="DestinationsFailed", message="all") if failed else None
    world.finish(app, error, outcome=outcome(**of))
    world.reconcile()
    return rests


def routes(world: World) -> Any:
    task = world.only_run().create.document.task
    return task.destination.routes


def of(world: World, key: Key) -> dict[str, tuple[str, str]]:
    """Status and reason of each destination's Ready, with a mark if it is stalled."""
    found = {}
    for one in world.status(key).destinations:
        ready = next((each for each in one.conditions if each.type == "Ready"), None)
        stalled = any(each.type == "Stalled" for each in one.conditions)
        found[one.name] = (ready.status + "!" * stalled, ready.reason) if ready else ("", "")
    return found


def degraded(world: World, key: Key) -> str:
    return next((each.message for each in world.status(key).conditions if each.type == "Degraded"), "")


def test_each_destination_reaches_the_run_with_its_condition_and_its_start(world: World) -> None:
    stream(world)
    key = job(world)
    world.reconcile()
    eu, audit = routes(world)
    assert (eu.name, eu.where, eu.otherwise, eu.start, eu.destination.kind) == (
        *("eu", "headers['region'] = 'eu'", False, None, "kafka"),
    )
    assert (audit.name, audit.where, audit.start.at, audit.destination.folders) == (
        *("audit", None, "Now", ("s3a://audit/orders",)),
    )
    assert run(world, eu=None, audit=None) == {"eu": False, "audit": False}
    status = world.status(key)
    assert (status.phase, status.destination, status.replayed_total, status.started_at) == (
        *("Idle", "2 destinations", 6, None),
    )
    assert world.ready(key) == ("True", "Replayed", "6 messages sent to 2 destinations in 1 round so far")
    assert of(world, key) == {"eu": ("True", "Replayed"), "audit": ("True", "Replayed")}
    one = status.destinations[0]
    assert (one.cursor.global_position, one.lag.records) == (7, 2)


def test_a_failing_destination_is_retried_by_its_backoff_and_the_others_run_by_the_trigger(world: World) -> None:
    stream(world)
    key = job(world)
    run(world, eu=AWAY, audit=None)
    assert (world.status(key).phase, world.ready(key)[:2]) == ("Idle", ("True", "Replayed"))
    assert degraded(world, key) == "1 of 2 destinations fail: eu: KafkaUnreachable: kafka:9092 doesn't answer"
    assert of(world, key) == {"eu": ("False", "KafkaUnreachable"), "audit": ("True", "Replayed")}
    for _ in range(6):
        # The backoff is shorter than the interval at first.
        world.wait(minutes=5)
        assert run(world, audit=None, eu=AWAY) in ({"audit": False, "eu": False}, {"audit": False, "eu": True})
    failure = world.status(key).destinations[0].failure
    world.wait(minutes=5, seconds=1)
    # By now it is longer.
    assert (failure.attempts >= 5, run(world, audit=None)) == (True, {"audit": False, "eu": True})
    assert world.status(key).destinations[0].failure == failure
    world.annotate(key, run_requested="now")
    assert run(world, audit=None, eu=None) == {"audit": False, "eu": False}
    assert (degraded(world, key), of(world, key)["eu"]) == ("", ("True", "Replayed"))


def test_a_failed_destination_is_retried_without_a_trigger(world: World) -> None:
    stream(world)
    key = job(world, trigger={"manual": {}})
    world.annotate(key, run_requested="now")
    run(world, eu=AWAY, audit=None)
    world.reconcile()
    assert len(world.launched) == 1
    world.wait(seconds=13)
    # All are sent what has come, as there is a run.
    assert run(world, audit=None, eu=None) == {"audit": False, "eu": False}
    world.reconcile_after(hours=1)
    assert (len(world.launched), degraded(world, key)) == (2, "")


def test_a_destination_that_no_retry_helps_is_left_out_until_the_spec_changes(world: World) -> None:
    stream(world)
    key = job(world)
    run(world, eu=None, audit=FULL)
    assert of(world, key)["audit"] == ("False!", "DestinationNotEmpty")
    world.wait(hours=1)
    assert run(world, eu=None) == {"eu": False, "audit": True}
    job(world, destinations=[DESTINATIONS[0], {**DESTINATIONS[1], "where": "type = 'a'"}])
    assert run(world, eu=None, audit=None) == {"eu": False, "audit": False}


def test_the_resource_is_stalled_once_all_destinations_are(world: World) -> None:
    stream(world)
    key = job(world)
    run(world, eu=AWAY, audit=FULL)
    status = world.status(key)
    assert (status.phase, world.ready(key)[:2]) == ("Failing", ("False", "DestinationsFailed"))
    assert [each.type for each in status.conditions] == ["Ready", "Reconciling"]
    for _ in range(4):
        world.wait(minutes=11)
        assert run(world, eu=MISSING) == {"eu": False, "audit": True}
    assert (world.status(key).phase, of(world, key)["eu"]) == ("Stalled", ("False!", "TopicMissing"))
    assert [each.type for each in world.status(key).conditions] == ["Ready", "Stalled"]
    world.wait(minutes=11)
    assert run(world, eu=None) == {"eu": False, "audit": True}
    assert (world.status(key).phase, world.ready(key)[0], of(world, key)["eu"]) == (
        *("Idle", "True", ("True", "Replayed")),
    )


def test_a_reset_makes_the_run_try_all_destinations(world: World) -> None:
    stream(world)
    key = job(world)
    run(world, eu=RunError(reason="CursorAhead", message="ahead"), audit=None)
    world.annotate(key, reset_to="6")
    assert run(world, audit=None, eu=None) == {"audit": False, "eu": False}
    world.reconcile()
    assert len(world.launched) == 2


def test_a_reset_of_named_destinations_moves_only_their_cursors(world: World) -> None:
    stream(world)
    key = job(world)
    for value, moved in (('{"eu": 6}', {"eu": "6"}), ('{"eu": 6, "audit": "Now"}', {"eu": "6", "audit": "Now"})):
        world.annotate(key, reset_to=value)
        world.reconcile()
        assert {one.name: one.reset.value for one in routes(world) if one.reset} == moved
        run(world, eu=None, audit=None)
        assert world.status(key).last_handled_reset == value
    for value in ('{"us": 6}', '{"eu": "yesterday"}', '{"eu": [6]}', "{", '{"eu":' * 2000):
        world.annotate(key, reset_to=value)
        world.reconcile()
        assert world.ready(key)[1] == "NotSupported", value
        assert "by names of spec.destinations" in world.ready(key)[2]


def test_a_run_that_breaks_off_says_nothing_about_its_destinations(world: World) -> None:
    stream(world)
    key = job(world)
    run(world, eu=AWAY, audit=None)
    world.reconcile_after(minutes=6)
    world.start(world.only_run())
    world.finish(world.only_run(), RunError(reason="OutOfMemory", message="too little"))
    world.reconcile()
    assert (world.status(key).phase, world.ready(key)[1]) == ("Failing", "OutOfMemory")
    assert of(world, key)["eu"] == ("False", "KafkaUnreachable")
    world.wait(minutes=1)
    run(world, eu=None, audit=None)
    assert (world.status(key).phase, degraded(world, key)) == ("Idle", "")


def test_a_destination_that_was_removed_leaves_the_status(world: World) -> None:
    stream(world)
    key = job(world)
    run(world, eu=AWAY, audit=None)
    job(world, destinations=DESTINATIONS[1:])
    run(world, audit=None)
    assert (of(world, key), degraded(world, key)) == ({"audit": ("True", "Replayed")}, "")


def test_a_destination_that_was_reset_by_its_name_may_be_removed(world: World) -> None:
    stream(world)
    key, by_name = job(world), '{"eu": 1}'
    world.annotate(key, reset_to=by_name)
    run(world, eu=None, audit=None)
    assert world.status(key).last_handled_reset == by_name
    job(world, destinations=DESTINATIONS[1:])
    world.reconcile()
    assert world.ready(key)[1] == "Replayed"
    world.annotate(key, reset_to='{"eu": 2}')
    world.reconcile()
    assert world.ready(key)[1] == "NotSupported"
    assert "reset-to: names no destination: eu; must be" in world.ready(key)[2]


def test_a_run_with_a_stream_among_its_destinations_has_the_lease_of_that_stream(world: World) -> None:
    stream(world)
    stream(world, "others", table={"uri": "s3a://lake/others"})
    job(world, destinations=[DESTINATIONS[0], {"name": "rest", "otherwise": True, "stream": {"name": "others"}}])
    world.reconcile()
    task = world.only_run().create.document.task
    assert isinstance(task.destinations[1], StreamDestination)
    assert task.target.table.epoch is not None


def test_a_refused_condition_of_a_destination_is_reported_at_once(world: World) -> None:
    stream(world)
    bad = {**DESTINATIONS[0], "where": "status = 'FAILED'"}
    key = job(world, destinations=[bad, DESTINATIONS[1]])
    world.reconcile()
    assert world.ready(key)[1] == "PredicateRefused"
    assert "destinations" in world.ready(key)[2]
