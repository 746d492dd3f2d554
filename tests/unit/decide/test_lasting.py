"""A failure that only somebody can end, such as wrong keys: after a while it is no longer work in progress."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_operator.decide.snapshot import MaintenanceBounds
from messagestore_operator.status.conditions import LASTING
from support.world import Key, World, run_once, stream

DENIED = RunError(reason="StorageDenied", message="the keys are refused")
UNREACHABLE = RunError(reason="StorageUnreachable", message="no answer")
LOST = RunError(reason="DriverLost", message="the driver's pod is gone")
RETRIED = sorted(LASTING - {"SecretMissing"})
SECRET = {"storage": {"credentialsSecretRef": {"name": "lake"}}}
INTERVAL = {"interval": "PT5M"}
CONTINUOUS = {"continuous": {"batchInterval": "PT10S"}}


def ingesting(world: World) -> Key:
    return stream(world, trigger=INTERVAL)


def policy(world: World, *names: str) -> Key:
    spec = {
        "streamRefs": [{"name": name} for name in names],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P90D"}],
        "mode": "Enforce",
    }
    key = world.apply("RetentionPolicy", "tidy", spec)
    world.annotate(key, run_requested="now")
    return key


def tidying(world: World) -> Key:
    stream(world)
    return policy(world, "orders")


def replaying(world: World, **more: Any) -> Key:
    stream(world)
    spec = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/checks/"}}}
    return world.apply("ReplayJob", "again", {**spec, "backoffLimit": 50, **more})


def redelivering(world: World) -> Key:
    return replaying(world, select={"dueForRetry": True}, trigger=INTERVAL)


EACH = [ingesting, tidying, replaying, redelivering]


def fail(world: World, error: RunError = DENIED, **passed: float) -> None:
    """Let the next try fail, after a time."""
    world.wait(**passed)
    run_once(world, error=error)


def told(world: World, key: Key) -> tuple[str, dict[str, tuple[str, str]]]:
    status = world.status(key)
    return status.phase, {one.type: (one.status, one.reason) for one in status.conditions}


def stalled(reason: str = "StorageDenied") -> tuple[str, dict[str, tuple[str, str]]]:
    return "Stalled", {"Ready": ("False", reason), "Stalled": ("True", reason)}


def goes_on(world: World, key: Key) -> bool:
    return "Reconciling" in told(world, key)[1]


@pytest.mark.parametrize("resource", EACH)
@pytest.mark.parametrize("reason", RETRIED)
def test_a_lasting_failure_stalls_the_resource_and_retries_go_on(
    world: World, resource: Callable[[World], Key], reason: str
) -> None:
    key, error = resource(world), RunError(reason=reason, message="no")
    fail(world, error)
    fail(world, error, minutes=14)
    assert goes_on(world, key)
    world.reconcile_after(minutes=1)
    assert told(world, key) == stalled(reason)
    third = world.only_run()
    world.start(third)
    world.reconcile()
    assert told(world, key) == stalled(reason)
    world.finish(third)
    world.reconcile()
    assert world.ready(key)[0] == "True"
    assert told(world, key)[0] != "Stalled"
    assert world.status(key).to_dict().get("lastingFailure") is None


@pytest.mark.parametrize("resource", EACH)
def test_a_resource_is_requeued_for_the_time_when_it_stalls(world: World, resource: Callable[[World], Key]) -> None:
    key = resource(world)
    fail(world)
    first = world.now
    fail(world, minutes=13)
    again = world.requeue_at[key]
    assert again is not None
    assert (again - first).total_seconds() <= 15 * 60


@pytest.mark.parametrize("resource", EACH)
def test_one_failed_run_does_not_stall_a_resource(world: World, resource: Callable[[World], Key]) -> None:
    key = resource(world)
    fail(world)
    world.paused = "everything is paused"
    world.reconcile_after(hours=2)
    assert told(world, key)[0] != "Stalled"


@pytest.mark.parametrize("error", [UNREACHABLE, LOST, RunError(reason="SubmissionFailed", message="quota")])
@pytest.mark.parametrize("resource", EACH)
def test_outages_lost_nodes_and_quotas_never_stall_a_resource(
    world: World, resource: Callable[[World], Key], error: RunError
) -> None:
    key = resource(world)
    for _ in range(4):
        fail(world, error, minutes=30)
    assert goes_on(world, key)


def test_a_missing_secret_blocks_every_try_and_is_stalled_all_the_same(world: World) -> None:
    world.secrets = {}
    key = stream(world, trigger=INTERVAL, **SECRET)
    world.reconcile()
    world.reconcile_after(minutes=14)
    assert goes_on(world, key), "Flux must not give up an installation whose Secret comes later"
    world.reconcile_after(minutes=1)
    assert told(world, key) == stalled("SecretMissing")
    assert world.ready(key)[2] == "Secret lake doesn't exist in this namespace"
    world.secrets = {"lake": frozenset({"storage"})}
    world.reconcile()
    assert goes_on(world, key)
    run_once(world)
    assert world.ready(key)[:2] == ("True", "Ingesting")


def test_a_missing_secret_stalls_policies_and_replays_too(world: World) -> None:
    world.secrets = {}
    stream(world, **SECRET)
    spec = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/checks/"}}}
    keys = policy(world, "orders"), world.apply("ReplayJob", "again", spec)
    world.reconcile()
    assert all(goes_on(world, key) for key in keys)
    world.reconcile_after(minutes=15)
    assert [told(world, key) for key in keys] == [stalled("SecretMissing")] * 2


def test_a_failure_with_another_reason_is_counted_anew(world: World) -> None:
    key = ingesting(world)
    fail(world)
    fail(world, RunError(reason="StorageMissing", message="no bucket"), minutes=14)
    fail(world, RunError(reason="StorageMissing", message="no bucket"), minutes=10)
    assert goes_on(world, key)
    fail(world, RunError(reason="StorageMissing", message="no bucket"), minutes=10)
    assert told(world, key) == stalled("StorageMissing")


def test_a_lost_driver_leaves_a_resource_stalled_and_an_outage_does_not(world: World) -> None:
    key = ingesting(world)
    for _ in range(3):
        fail(world, minutes=12)
    assert told(world, key) == stalled()
    fail(world, LOST, minutes=12)
    assert told(world, key) == stalled()
    assert "the driver's pod is gone" in world.ready(key)[2]
    fail(world, UNREACHABLE, minutes=12)
    assert told(world, key)[1]["Reconciling"] == ("True", "StorageUnreachable")


def test_failures_are_counted_anew_for_a_new_spec(world: World) -> None:
    key = ingesting(world)
    for _ in range(3):
        fail(world, minutes=12)
    stream(world, trigger=INTERVAL, table={"uri": "s3a://lake/elsewhere"})
    world.reconcile()
    assert goes_on(world, key)
    fail(world)
    assert goes_on(world, key)


def test_the_first_committed_batch_ends_a_lasting_failure(world: World) -> None:
    key = stream(world, trigger=CONTINUOUS)
    for _ in range(3):
        fail(world, minutes=12)
    world.wait(minutes=12)
    app = world.run_under_way()
    assert told(world, key) == stalled()
    app.report = world.report(app, "Running", world.outcome(app))
    world.reconcile()
    assert told(world, key) == ("Running", {"Ready": ("True", "Ingesting")})


def test_a_policy_is_stalled_once_all_its_streams_keep_failing(world: World) -> None:
    stream(world, "a")
    stream(world, "b")
    key = policy(world, "a", "b")
    for minutes in (0, 16):
        world.reconcile_after(minutes=minutes)
        for app in [one for one in world.runs() if not one.state.ended]:
            world.start(app)
            error = DENIED if app.create.run.stream == "a" or minutes == 0 else None
            world.finish(app, error=error)
        world.reconcile()
    assert goes_on(world, key)
    assert [one.lasting_failure is not None for one in world.status(key).streams] == [True, False]


STOPPED = RunError(reason="RunStopped", message="told to stop")


def deleting(world: World) -> Key:
    key = stream(world, trigger=INTERVAL, table={"uri": "s3a://lake/orders", "deletionPolicy": "Delete"})
    run_once(world)
    world.delete(key)
    return key


def erasing(world: World) -> Key:
    key = tidying(world)
    app = world.start_due()
    world.finish(app, outcome=world.purged(app, erase_due_by=world.now))
    return key


@pytest.mark.parametrize("resource", [*EACH, deleting, erasing])
def test_a_run_that_is_stopped_repeatedly_starts_ever_later_and_counts_as_no_failure(
    world: World, resource: Callable[[World], Key]
) -> None:
    key = resource(world)
    waits = []
    for _ in range(5):
        run_once(world, error=STOPPED)
        tried, since = len(world.launched), world.now
        while len(world.launched) == tried:
            world.reconcile_after(seconds=5)
        waits.append((world.now - since).total_seconds())
    assert waits[0] <= 15
    assert all(1.5 * before - 5 <= wait <= 2.5 * before + 5 for before, wait in pairwise(waits))
    status = world.status(key)
    assert not [one.type for one in status.conditions if one.type == "Stalled"]
    assert not getattr(status, "lasting_failure", None)
    assert not getattr(status, "failures", 0)
    assert {event.type for about, event in world.events if about == key} == {"Normal"}


def test_a_replay_says_when_it_goes_on_after_a_stop(world: World) -> None:
    key = replaying(world)
    run_once(world, error=STOPPED)
    said = world.ready(key)
    assert said[:2] == ("False", "RunStopped")
    assert said[2].startswith("the last run was stopped; the next is at 2026-01-05T08:00:1")


def test_after_a_stop_a_change_of_the_spec_or_a_request_starts_a_run_at_once(world: World) -> None:
    key = ingesting(world)
    run_once(world, error=STOPPED)
    assert len(world.launched) == 1
    world.annotate(key, run_requested="now")
    run_once(world, error=STOPPED)
    assert len(world.launched) == 2
    stream(world, trigger=CONTINUOUS)
    world.reconcile()
    assert len(world.launched) == 3


def test_maintenance_that_is_stopped_leaves_ingest_an_hour(world: World) -> None:
    world.defaults = replace(world.defaults, maintenance=MaintenanceBounds(commits=1))
    ingesting(world)
    run_once(world)
    run_once(world, error=STOPPED)
    kinds = [app.create.run.kind for app in world.runs()]
    assert kinds == ["ingest", "maintain"]
    world.wait(minutes=6)
    run_once(world)
    assert [app.create.run.kind for app in world.runs()][-1] == "ingest"
    world.reconcile_after(minutes=55)
    assert "maintain" in [app.create.run.kind for app in world.runs() if not app.state.ended]
