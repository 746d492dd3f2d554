"""The life of a stream, step by step: a world in memory carries out the decisions."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import Upkeep, UpkeepDone
from messagestore_core.contract.run_report import RunProgress
from messagestore_operator.api import MessageStream, MessageStreamStatus
from messagestore_operator.decide import actions as act
from messagestore_operator.decide.decision import decide
from messagestore_operator.decide.snapshot import (
    CREATING,
    REFUSED,
    AppState,
    DriverControl,
    DriverPod,
    StreamSnapshot,
    Waiting,
)
from messagestore_operator.status.words import clock_time
from messagestore_operator.tenancy.settings import KafkaBounds
from support.world import FINALIZER, App, Conflict, Key, Stored, World, run_once

INTERVAL = {"interval": "PT5M"}
CONTINUOUS = {"continuous": {"batchInterval": "PT10S"}}
DENIED = RunError(reason="StorageDenied", message="access denied to bucket lake")


def spec(trigger: dict[str, Any] = INTERVAL, **more: Any) -> dict[str, Any]:
    return {
        "table": {"uri": "s3a://lake/orders"},
        "source": {"files": {"uri": "s3a://landing/orders/"}},
        "trigger": trigger,
        **more,
    }


def orders(world: World, trigger: dict[str, Any] = INTERVAL, **more: Any) -> Key:
    return world.apply("MessageStream", "orders", spec(trigger, **more))


def test_a_new_stream_is_launched_in_one_reconciliation(world: World) -> None:
    stream = orders(world)
    kinds = [type(action) for action in world.reconcile_once(stream).actions]
    assert kinds == [act.WriteStatus, act.AcquireLease, act.CreateRun]
    status = world.status(stream)
    assert (status.run_number, status.current_run.number, status.current_run.state) == (1, 1, "Pending")
    assert world.ready(stream)[:2] == ("False", "Pending")
    assert world.only_run().create.document.table.epoch == world.held("s3a://lake/orders").epoch


def test_a_stream_in_a_namespace_that_cannot_take_runs_is_requeued_soon(world: World) -> None:
    world.can_run = False
    stream = orders(world)
    world.reconcile()
    again = world.requeue_at[stream]
    assert again is not None
    assert again - world.now <= timedelta(seconds=5)
    world.can_run = True
    world.reconcile()
    assert world.only_run().create.run.number == 1


def test_a_missing_spark_operator_is_reported_and_runs_start_once_it_is_installed(world: World) -> None:
    world.missing_kind = "sparkapplications.sparkoperator.k8s.io"
    stream = orders(world)
    world.reconcile()
    status, reason, words = world.ready(stream)
    assert (status, reason) == ("False", "SparkOperatorMissing")
    assert words.startswith("sparkapplications.sparkoperator.k8s.io is not installed in this cluster")
    assert world.reasons(stream) == ["SparkOperatorMissing"]
    world.missing_kind = None
    run_once(world)
    assert world.ready(stream)[0] == "True"


def test_a_status_says_what_the_last_run_used(world: World) -> None:
    stream = orders(world)
    run_once(world)
    last = world.status(stream).last_run
    assert (last.cpu_seconds, last.bytes_written) == (2.5, 50)


def test_an_interval_counts_from_start_to_start(world: World) -> None:
    stream = orders(world)
    first = run_once(world)
    status = world.status(stream)
    assert (status.phase, status.last_run.name, status.recent_runs[0].stored) == ("Idle", first, 10)
    assert world.ready(stream) == ("True", "Ingesting", "10 messages stored; last batch at 2026-01-05T08:00:00Z")
    assert status.next_run_time == "2026-01-05T08:05:00Z"
    assert world.held("s3a://lake/orders").holder is None
    world.reconcile_after(minutes=4)
    assert world.launched == [first]
    world.wait(minutes=1)
    second = run_once(world)
    assert world.launched == [first, second]
    assert world.reasons(stream) == ["RunStarted", "RunStarted"]
    assert {(event.message, event.routine) for _, event in world.events} == {("ingest run started", True)}


def test_a_successful_run_raises_an_event_only_after_a_failed_one(world: World) -> None:
    stream = orders(world)
    run_once(world)
    world.wait(minutes=5)
    run_once(world, error=DENIED)
    world.wait(minutes=5)
    run_once(world)
    world.wait(minutes=5)
    run_once(world)
    told = [reason for reason in world.reasons(stream) if reason != "RunStarted"]
    assert told == ["StorageDenied", "RunFinished"]


def test_the_time_of_the_last_success_stays_while_runs_fail(world: World) -> None:
    stream = orders(world)
    run_once(world)
    succeeded = world.status(stream).last_success_time
    assert succeeded == world.status(stream).last_run.finished_at
    for _ in range(12):
        world.wait(minutes=20)
        run_once(world, error=DENIED)
    assert {one.state for one in world.status(stream).recent_runs} == {"Failed"}
    assert world.status(stream).last_success_time == succeeded


@pytest.mark.parametrize("trigger", [INTERVAL, CONTINUOUS], ids=["interval", "continuous"])
@pytest.mark.parametrize("error", [None, DENIED], ids=["well", "failed"])
def test_a_clock_that_is_behind_the_last_leaders_keeps_no_stream_waiting(
    world: World, trigger: dict[str, Any], error: RunError | None
) -> None:
    orders(world, trigger)
    first = run_once(world, error=error)
    world.wait(minutes=-4)
    second = run_once(world)
    assert world.launched == [first, second]
    # By its own clock it is not due again.
    world.reconcile()
    assert world.launched == [first, second]


def test_an_operator_that_has_not_heard_of_a_run_yet_does_not_end_it(world: World) -> None:
    """A second leader, as there may be for a moment: its clock and its watch of streams are behind."""
    stream = orders(world)
    run_once(world)
    known, clock = world.resources[stream], world.now
    world.wait(minutes=10)
    run = world.start_due()
    picture = world.snapshot(stream)
    assert isinstance(picture, StreamSnapshot)
    assert isinstance(known, MessageStream)
    with pytest.raises(Conflict):
        world.execute(stream, decide(replace(picture, stream=known, now=clock)))
    assert world.only_run() is run


def test_a_run_begins_no_later_than_it_ends_whatever_clock_told_its_start(world: World) -> None:
    stream = orders(world)
    world.reconcile_once(stream)
    app = world.only_run()
    # It was never observed running, so its start is the API server's time, whose clock is ahead.
    app.made_at += timedelta(minutes=4)
    world.reconcile()
    world.finish(app)
    world.reconcile()
    world.reconcile_after(minutes=4)
    assert len(world.launched) == 1
    world.reconcile_after(minutes=1)
    assert len(world.launched) == 2


def test_a_failed_run_is_tried_again_ever_later(world: World) -> None:
    stream = orders(world)
    waits = []
    for attempt in range(1, 5):
        run_once(world, error=DENIED)
        status = world.status(stream)
        assert (status.last_run.attempt, status.last_run.state, status.phase) == (attempt, "Failed", "Failing")
        assert world.ready(stream)[:2] == ("False", "StorageDenied")
        waits.append(status.next_run_time.datetime - world.now)
        world.now = status.next_run_time.datetime + timedelta(seconds=1)
    assert all(a < b for a, b in pairwise(waits))
    assert waits[0] >= timedelta(seconds=10)
    run_once(world)
    assert world.ready(stream)[0] == "True"
    assert world.status(stream).last_run.attempt == 5


def test_after_a_failure_that_no_retry_helps_the_next_run_waits_for_a_new_spec(world: World) -> None:
    stream = orders(world)
    run_once(world, error=RunError(reason="TableRefused", message="belongs to default/other"))
    types = {one.type: one.status for one in world.status(stream).conditions}
    assert (world.status(stream).phase, types) == ("Stalled", {"Ready": "False", "Stalled": "True"})
    world.reconcile_after(days=1)
    assert len(world.launched) == 1
    orders(world, filter={"types": ["a"]})
    run_once(world)
    assert world.ready(stream)[0] == "True"


TROUBLES: list[tuple[Waiting, str, str]] = [
    (Waiting("ImagePullBackOff", "no such image"), "ImagePullFailed", "image of the driver: ImagePullBackOff: no such"),
    (Waiting("Unschedulable", "0/1 nodes: 1 Insufficient cpu"), "Unschedulable", "no node for the driver: 0/1 nodes"),
    (
        Waiting("CreateContainerConfigError", 'secret "lake" not found'),
        "ConfigMissing",
        'the driver can\'t be started: CreateContainerConfigError: secret "lake" not found',
    ),
]


def test_a_run_whose_pod_was_told_to_end_is_no_failure_and_the_next_goes_on_soon(world: World) -> None:
    stream = orders(world)
    told = run_once(world, error=RunError(reason="RunStopped", message="told to stop"))
    world.reconcile_after(seconds=15)
    assert world.only_run().name != told
    (ended,) = world.status(stream).recent_runs
    assert (ended.name, ended.state) == (told, "Cancelled")
    assert {event.type for about, event in world.events if about == stream} == {"Normal"}


@pytest.mark.parametrize(("waiting", "reason", "words"), TROUBLES)
def test_a_waiting_driver_shows_its_reason_and_a_changed_spec_replaces_the_run(
    world: World, waiting: Waiting, reason: str, words: str
) -> None:
    stream = orders(world)
    world.reconcile()
    app = world.only_run()
    app.driver = DriverPod("Pending", waiting=waiting)
    world.reconcile()
    assert world.ready(stream)[:2] == ("False", reason)
    assert world.ready(stream)[2].startswith(words)
    assert reason in world.reasons(stream)
    orders(world, spark={"driver": {"cores": 1}})
    world.reconcile()
    assert not app.there
    run_once(world)
    assert [run.state for run in world.status(stream).recent_runs] == ["Succeeded", "Cancelled"]
    assert world.ready(stream)[0] == "True"


def test_executors_that_never_run_fail_the_run_with_their_cause(world: World) -> None:
    stream = orders(world)
    app = world.run_under_way()
    world.wait(minutes=30)
    app.executors_waiting = Waiting("Unschedulable", "no memory", since=world.now)
    world.reconcile()
    world.reconcile_after(minutes=14)
    assert app.there
    world.reconcile_after(minutes=1)
    error = world.status(stream).last_run.error
    assert (error.reason, error.message) == (
        "Unschedulable",
        "not running after 15 min: no node for the executors: no memory",
    )


def test_refused_executors_are_told_at_once_and_fail_the_run_at_its_deadline(world: World) -> None:
    stream = orders(world)
    app = world.run_under_way()
    app.executors_waiting = Waiting(REFUSED, "exceeded quota: pods", since=world.now)
    world.reconcile()
    assert world.ready(stream) == (
        "False",
        "ExecutorsRefused",
        "the API server refuses executors: exceeded quota: pods",
    )
    world.reconcile_after(minutes=15)
    error = world.status(stream).last_run.error
    assert (error.reason, error.message) == (
        "ExecutorsRefused",
        "not running after 15 min: the API server refuses executors: exceeded quota: pods",
    )


def test_executors_that_never_start_fail_the_run_at_its_deadline_and_not_before(world: World) -> None:
    stream = orders(world)
    app = world.start_due()
    app.executors_waiting = Waiting(CREATING, since=world.now)
    world.reconcile_after(minutes=14)
    assert world.ready(stream)[1] == "Running"
    world.reconcile_after(minutes=1)
    error = world.status(stream).last_run.error
    assert error.reason == "StartDeadlineExceeded"
    assert error.message.startswith("no executor runs after 15 min")


def test_a_deadline_of_no_whole_minutes_is_told_in_seconds(world: World) -> None:
    stream = orders(world)
    world.defaults = replace(world.defaults, start_deadline=timedelta(seconds=90))
    app = world.start_due()
    app.executors_waiting = Waiting(CREATING, since=world.now)
    world.reconcile_after(seconds=90)
    assert world.status(stream).last_run.error.message.startswith("no executor runs after 90 s: ")


def test_a_driver_that_never_runs_fails_with_its_cause(world: World) -> None:
    stream = orders(world)
    world.reconcile()
    app = world.only_run()
    app.driver = DriverPod("Pending", waiting=Waiting("Unschedulable", "no memory"))
    world.reconcile()
    world.reconcile_after(minutes=15)
    error = world.status(stream).last_run.error
    assert (error.reason, error.message) == (
        "Unschedulable",
        "not running after 15 min: no node for the driver: no memory",
    )
    assert not app.there


def test_an_executor_that_ran_out_of_memory_is_told_from_the_driver(world: World) -> None:
    stream = orders(world)
    app = world.run_under_way()
    world.die(app, exit_code=1)
    app.message = "driver container failed; executors were lost: OOMKilled"
    world.reconcile()
    assert "spec.spark.executor.memory" in world.status(stream).last_run.error.message


@pytest.mark.parametrize("lasted", [{"minutes": 1}, {"days": 1}])
def test_a_run_that_ran_out_of_memory_has_executors_when_it_is_tried_again(
    world: World, lasted: dict[str, float]
) -> None:
    orders(world)
    first = world.run_under_way()
    world.wait(**lasted)
    world.die(first, exit_code=137)
    world.reconcile()
    world.reconcile_after(hours=1)
    again = world.only_run()
    assert [run.create.always_executors for run in (first, again)] == [False, True]
    world.start(again)
    world.finish(again)
    world.reconcile()
    world.reconcile_after(hours=1)
    assert not world.only_run().create.always_executors


ENDS: list[tuple[dict[str, Any], str, str]] = [
    ({"termination_reason": "OOMKilled", "exit_code": 137}, "OutOfMemory", "ran out of memory"),
    ({"exit_code": 137}, "OutOfMemory", "ran out of memory"),
    ({"reason": "Evicted", "message": "low on disk"}, "Evicted", "the driver was evicted: low on disk"),
    (
        {
            "exit_code": 1,
            "termination_message": "boom\n  at x.y(Z.java:1)\nCaused by: java.io.IOException: gone\n",
        },
        "RunFailed",
        "java.io.IOException: gone",
    ),
    ({"exit_code": 3}, "RunFailed", "exit code 3"),
]


@pytest.mark.parametrize(("driver", "reason", "words"), ENDS)
def test_why_a_driver_died_is_said_in_words(world: World, driver: dict[str, Any], reason: str, words: str) -> None:
    stream = orders(world)
    app = world.run_under_way()
    world.die(app, **driver)
    world.reconcile()
    error = world.status(stream).last_run.error
    assert error.reason == reason
    assert words in error.message


@pytest.mark.parametrize(
    "said",
    [
        "failed to run spark-submit:\nforbidden: quota exceeded\n",
        "Exception in thread main io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: "
        "https://10.96.0.1/api/v1/pods. Message: forbidden: quota exceeded. Received status: Status(code=403).",
    ],
)
def test_a_submission_that_failed_says_what_it_said(world: World, said: str) -> None:
    stream = orders(world)
    world.reconcile()
    app = world.only_run()
    app.state, app.message = AppState.SUBMISSION_FAILED, said
    world.reconcile()
    error = world.status(stream).last_run.error
    assert (error.reason, error.message) == ("SubmissionFailed", "forbidden: quota exceeded")


def test_a_run_that_was_never_submitted_lets_its_table_go_and_is_tried_again_ever_later(world: World) -> None:
    stream = orders(world)
    waits = []
    for number in (1, 2, 3):
        world.reconcile_once(stream)
        assert world.held("s3a://lake/orders").holder is not None
        world.only_run().state = AppState.SUBMISSION_FAILED
        world.reconcile()
        assert (world.status(stream).run_number, world.held("s3a://lake/orders").holder) == (number, None)
        again = world.requeue_at[stream]
        assert again is not None
        waits.append(round((again - world.now).total_seconds()))
        world.now = again
    assert waits[0] < waits[1] < waits[2]
    assert set(world.reasons(stream)) == {"SubmissionFailed"}


def test_an_application_that_somebody_deleted_is_run_again_under_another_number(world: World) -> None:
    stream = orders(world)
    app = world.run_under_way()
    world.lose(app)
    world.reconcile()
    assert world.status(stream).last_run.error.reason == "RunLost"
    world.reconcile_after(seconds=15)
    assert world.status(stream).run_number == 2


def test_a_run_that_says_nothing_of_its_end_is_no_success(world: World) -> None:
    stream = orders(world)
    app = world.start_due()
    app.state, app.driver = AppState.SUCCEEDED, DriverPod("Succeeded")
    world.reconcile()
    assert world.status(stream).last_run.error.reason == "ReportMissing"


def test_nothing_follows_until_the_driver_is_gone(world: World) -> None:
    stream = orders(world)
    app = world.run_under_way()
    app.state = AppState.FAILED
    app.driver = DriverPod("Unknown")
    world.reconcile()
    assert world.ready(stream)[1] == "WaitingForDriver"
    world.reconcile_after(hours=1)
    assert world.held("s3a://lake/orders").holder == f"default/{app.name}"
    app.driver = None
    world.reconcile()
    assert world.status(stream).last_run.error.reason == "DriverLost"
    assert world.held("s3a://lake/orders").holder is None


def test_a_new_run_does_not_show_the_failure_of_the_last_one_as_its_own(world: World) -> None:
    stream = orders(world)
    run_once(world)
    world.wait(minutes=5)
    lost = world.run_under_way()
    lost.state, lost.driver, lost.message = AppState.FAILED, None, "driver pod not found"
    world.reconcile()
    _, reason, words = world.ready(stream)
    assert reason == "DriverLost"
    assert words.startswith("the driver's pod is gone: driver pod not found; the next try is at ")
    world.reconcile_after(minutes=1)
    again = world.only_run()
    assert world.ready(stream)[1] == "Pending"
    world.start(again)
    world.reconcile()
    status, reason, words = world.ready(stream)
    assert (status, reason, world.status(stream).phase) == ("False", "Running", "Running")
    assert words.startswith(f"run {again.name} ingests what has arrived; run {lost.name} failed: the driver's pod is")
    world.finish(again)
    world.reconcile()
    assert world.ready(stream)[:2] == ("True", "Ingesting")


def test_a_run_with_a_new_spec_is_not_shown_as_pending_once_it_runs(world: World) -> None:
    stream = orders(world)
    run_once(world, error=DENIED)
    orders(world, source={"files": {"uri": "s3a://elsewhere/orders/"}})
    world.reconcile()
    app = world.only_run()
    assert world.ready(stream)[1] == "Pending"
    world.start(app)
    world.reconcile()
    status, reason, words = world.ready(stream)
    assert (status, reason) == ("False", "Running")
    assert words.startswith(f"run {app.name} ingests what has arrived; run ")


def refused(world: World, stream: Key, **reasons: int) -> None:
    """Let the next run of a stream set aside records; these are the open dead letters by reason after it."""
    world.wait(minutes=5)
    app = world.start_due()
    told = world.outcome(app)
    before = world.status(stream).totals.dead_lettered if world.status(stream).totals else 0
    table = told.table.model_copy(update={"dead_letters": sum(reasons.values()), "dead_letters_by_reason": reasons})
    totals = told.totals.model_copy(update={"dead_lettered": before + 1})
    world.finish(app, outcome=told.model_copy(update={"table": table, "totals": totals}))
    world.reconcile()


def told_letters(world: World, stream: Key) -> list[str]:
    return [event.message for about, event in world.events if about == stream and event.reason == "DeadLetters"]


def test_dead_letters_are_told_by_reason_and_an_event_names_those_that_grew(world: World) -> None:
    stream = orders(world)
    refused(world, stream, MissingField=2, Unparseable=7)
    by_reason = [(one.reason, one.count) for one in world.status(stream).table.dead_letters_by_reason]
    assert by_reason == [("Unparseable", 7), ("MissingField", 2)]
    refused(world, stream, MissingField=3, Unparseable=7)
    refused(world, stream, MissingField=5, Unparseable=7)
    words = "records were set aside as dead letters: {}; status.table.deadLettersByReason counts them"
    assert told_letters(world, stream) == [
        words.format("MissingField, Unparseable"),
        words.format("MissingField"),
        words.format("MissingField"),
    ]


def test_at_most_ten_reasons_are_told_those_with_the_most_letters_first(world: World) -> None:
    stream = orders(world)
    refused(world, stream, **{f"Reason{number}": number for number in range(1, 13)})
    counts = [one.count for one in world.status(stream).table.dead_letters_by_reason]
    assert counts == list(range(12, 2, -1))


def test_reasons_stay_until_the_number_of_dead_letters_changes_without_a_count(world: World) -> None:
    stream = orders(world)
    refused(world, stream, Unparseable=2)
    world.tables["s3a://lake/orders"].dead = 2
    world.wait(minutes=5)
    run_once(world)
    assert [one.count for one in world.status(stream).table.dead_letters_by_reason] == [2]
    world.tables["s3a://lake/orders"].dead = 1
    world.wait(minutes=5)
    run_once(world)
    assert world.status(stream).table.dead_letters_by_reason == ()


def test_an_event_names_no_reasons_where_it_is_not_known_which_grew(world: World) -> None:
    stream = orders(world)
    world.tables["s3a://lake/orders"] = Stored(dead=4)
    run_once(world)
    refused(world, stream, Unparseable=5)
    assert told_letters(world, stream) == [
        "records were set aside as dead letters; status.totals.deadLettered counts them"
    ]


def test_a_schedule_makes_one_run_for_all_that_was_missed(world: World) -> None:
    stream = orders(world, {"schedule": {"cron": "0 * * * *"}})
    world.reconcile()
    assert world.launched == []
    assert world.status(stream).next_run_time == "2026-01-05T09:00:00Z"
    assert world.ready(stream)[:2] == ("True", "Waiting")
    world.wait(hours=5, minutes=20)
    run_once(world)
    assert len(world.launched) == 1
    assert world.status(stream).last_schedule_time == "2026-01-05T13:00:00Z"
    assert world.status(stream).next_run_time == "2026-01-05T14:00:00Z"


def test_a_run_that_is_too_late_is_skipped_and_told(world: World) -> None:
    stream = orders(world, {"schedule": {"cron": "0 * * * *", "startingDeadline": "PT10M"}})
    world.reconcile()
    world.reconcile_after(hours=1, minutes=20)
    assert world.launched == []
    assert world.reasons(stream) == ["ScheduleMissed"]
    world.reconcile_after(minutes=45)
    assert len(world.launched) == 1


def test_a_manual_stream_runs_once_for_each_new_request(world: World) -> None:
    stream = orders(world, {"manual": {}})
    world.reconcile()
    assert (world.launched, world.ready(stream)[1]) == ([], "Waiting")
    world.annotate(stream, run_requested="one")
    run_once(world)
    world.reconcile_after(hours=9)
    assert len(world.launched) == 1
    world.annotate(stream, run_requested="two")
    run_once(world)
    assert len(world.launched) == 2
    assert world.status(stream).last_handled_request == "two"


def test_a_continuous_stream_restarts_cleanly_on_a_new_spec(world: World) -> None:
    stream = orders(world, CONTINUOUS)
    world.reconcile()
    app = world.only_run()
    assert app.create.document.task.batch_interval == timedelta(seconds=10)
    world.start(app)
    world.reconcile()
    assert not app.control.stop
    orders(world, CONTINUOUS, filter={"types": ["a"]})
    world.reconcile()
    assert app.control.stop
    assert "RunStopped" in world.reasons(stream)
    world.finish(app)
    world.reconcile_after(seconds=20)
    assert world.only_run().create.run.generation == 2


def test_a_continuous_stream_restarts_cleanly_once_a_secret_has_changed(world: World) -> None:
    orders(world, CONTINUOUS)
    world.secrets_version = "before"
    app = world.start_due()
    for same in ("before", None, "before"):
        world.secrets_version = same
        world.reconcile()
        assert not app.control.stop
    world.secrets_version = "after"
    world.paused = "the operator is paused"
    world.reconcile()
    assert not app.control.stop
    world.paused = None
    world.reconcile()
    assert app.control.stop
    world.finish(app)
    world.reconcile_after(seconds=20)
    assert world.only_run().create.run.secrets_version == "after"
    world.start(world.only_run())
    world.reconcile()
    assert not world.only_run().control.stop


def test_a_finite_run_ends_with_the_secrets_that_it_began_with(world: World) -> None:
    orders(world, INTERVAL)
    world.secrets_version = "before"
    app = world.start_due()
    world.secrets_version = "after"
    world.reconcile()
    assert (app.create.run.secrets_version, app.control.stop) == (None, False)


def written_each_minute(world: World) -> tuple[Key, Any]:
    """A stream with an active continuous run, and that run."""
    world.defaults = replace(world.defaults, status_interval=timedelta(minutes=1))
    stream = orders(world, CONTINUOUS)
    app = world.run_under_way()
    return stream, app


def test_the_figures_of_a_continuous_stream_are_written_once_a_minute_at_most(world: World) -> None:
    stream, app = written_each_minute(world)
    writes = 0
    for _ in range(180):
        world.wait(seconds=10)
        app.report = world.report(app, "Running", world.outcome(app))
        decision = world.reconcile_once(stream)
        writes += any(isinstance(action, act.WriteStatus) for action in decision.actions)
        assert decision.requeue_at is not None
        assert decision.requeue_at - world.written[stream] <= timedelta(minutes=1)
    assert 29 <= writes <= 32
    world.wait(minutes=1)
    world.reconcile_once(stream)
    assert world.status(stream).totals.stored == 1800


def test_a_clock_that_goes_back_delays_no_figures(world: World) -> None:
    stream, app = written_each_minute(world)
    for minutes in (1, -30):
        world.wait(minutes=minutes)
        app.report = world.report(app, "Running", world.outcome(app))
        world.reconcile_once(stream)
    assert world.status(stream).totals.stored == 20


def begun(world: World, **trigger: Any) -> tuple[Key, App]:
    """A stream whose second run was just launched, in an operator that writes each minute."""
    world.defaults = replace(world.defaults, status_interval=timedelta(minutes=1))
    stream = orders(world, **trigger)
    run_once(world)
    world.reconcile_after(minutes=5)
    return stream, world.only_run()


def test_a_short_run_is_written_to_the_status_once_with_the_start_of_its_pod(world: World) -> None:
    stream, app = begun(world)
    reserved = world.status(stream).current_run
    assert (reserved.name, reserved.launched_at) == (app.name, None)
    world.wait(seconds=4)
    world.start(app)
    world.reconcile()
    assert world.status(stream).current_run == reserved
    app.driver = replace(app.driver, started_at=world.now)
    world.wait(seconds=6)
    world.finish(app)
    app.driver = replace(app.driver, started_at=world.now - timedelta(seconds=6))
    world.reconcile()
    last = world.status(stream).last_run
    assert (last.name, last.finished_at.datetime - last.started_at.datetime) == (app.name, timedelta(seconds=6))
    assert world.reasons(stream) == []


def test_a_long_run_is_written_to_the_status_after_a_delay_and_its_trouble_at_once(world: World) -> None:
    stream, app = begun(world)
    world.start(app)
    world.reconcile()
    assert world.requeue_at[stream] == world.now + timedelta(seconds=5)
    world.reconcile_after(seconds=15)
    assert (world.status(stream).phase, world.status(stream).current_run.state) == ("Running", "Running")
    assert world.reasons(stream) == ["RunStarted"]
    world.finish(app)
    world.reconcile_after(minutes=5)
    after = world.only_run()
    after.driver = DriverPod("Pending", Waiting("ImagePullBackOff", "no such image"))
    world.reconcile()
    assert world.ready(stream)[1] == "ImagePullFailed"


def test_a_status_is_written_at_once_if_more_than_figures_changed(world: World) -> None:
    stream, app = written_each_minute(world)
    for reported in range(2):
        app.report = world.report(app, "Running", world.outcome(app))
        world.reconcile()
        assert world.status(stream).totals.stored == 10, f"report {reported}"
    world.finish(app, error=DENIED)
    world.reconcile()
    assert world.status(stream).last_run.error.reason == "StorageDenied"
    assert world.status(stream).totals.stored == 10


def test_an_event_about_figures_is_sent_once_when_the_figures_are_written(world: World) -> None:
    stream, app = written_each_minute(world)
    for number in range(1, 13):
        outcome = world.outcome(app)
        totals = outcome.totals.model_copy(update={"dead_lettered": number})
        app.report = world.report(app, "Running", outcome.model_copy(update={"totals": totals}))
        world.reconcile_once(stream)
        world.wait(seconds=10)
    assert world.reasons(stream).count("DeadLetters") == 2


def test_a_continuous_stream_shows_how_far_it_is(world: World) -> None:
    stream = orders(world, CONTINUOUS)
    app = world.start_due()
    app.report = world.report(app, "Running", world.outcome(app))
    world.reconcile()
    app.report = app.report.model_copy(update={"progress": RunProgress(step="ingest", done=3, total=40, unit="bytes")})
    world.reconcile()
    assert world.status(stream).current_run.progress == "ingest: 3 of 40 bytes"
    assert world.status(stream).totals.received == 10
    assert (world.status(stream).phase, world.ready(stream)[:2]) == ("Running", ("True", "Ingesting"))


def test_a_finite_run_ends_on_the_spec_that_it_was_made_from(world: World) -> None:
    stream = orders(world)
    app = world.run_under_way()
    orders(world, filter={"types": ["a"]})
    world.reconcile()
    assert app.there
    assert not app.control.stop
    world.finish(app)
    world.reconcile()
    assert world.status(stream).last_run.generation == 1
    assert world.status(stream).observed_generation == 2


@pytest.mark.parametrize("trigger", [INTERVAL, CONTINUOUS])
def test_suspend_lets_a_finite_run_end_and_stops_a_continuous_one(world: World, trigger: dict[str, Any]) -> None:
    stream = orders(world, trigger)
    app = world.run_under_way()
    orders(world, trigger, suspend=True)
    world.reconcile()
    assert app.there
    assert app.control.stop == (trigger is CONTINUOUS)
    world.finish(app)
    world.reconcile_after(hours=1)
    assert (world.status(stream).phase, len(world.launched)) == ("Suspended", 1)
    orders(world, trigger)
    world.reconcile()
    assert len(world.launched) == 2


def test_suspend_before_the_launch_withdraws_the_reserved_run(world: World) -> None:
    stream = orders(world)
    world.reconcile_once(stream, cut_after=1)
    orders(world, suspend=True)
    world.reconcile()
    assert world.launched == []
    assert world.status(stream).current_run is None


def test_a_refused_predicate_is_reported_without_a_run(world: World) -> None:
    stream = orders(world, filter={"where": "no_such_column = 1"})
    world.reconcile()
    assert (world.status(stream).phase, world.ready(stream)[1], world.launched) == ("Stalled", "PredicateRefused", [])
    orders(world)
    run_once(world)
    assert world.ready(stream)[0] == "True"


NEVER = "spec.trigger.schedule.cron: must be a cron expression; this one never fires"


@pytest.mark.parametrize("trigger", [INTERVAL, CONTINUOUS])
def test_a_run_continues_when_its_spec_comes_to_be_refused_and_no_run_follows(
    world: World, trigger: dict[str, Any]
) -> None:
    stream = orders(world, trigger)
    run = world.run_under_way()
    orders(world, {"manual": {}})
    world.invalid[stream] = NEVER
    world.reconcile_after(days=2)
    assert (world.ready(stream), world.status(stream).phase) == (("False", "InvalidSpec", NEVER), "Stalled")
    assert (run.there, run.control.stop, world.status(stream).current_run.name) == (True, False, run.name)
    world.finish(run)
    world.reconcile()
    assert (world.status(stream).last_run.name, world.held("s3a://lake/orders").holder) == (run.name, None)
    world.reconcile_after(days=2)
    assert world.reasons(stream).count("InvalidSpec") == 1
    del world.invalid[stream]
    orders(world, trigger)
    world.reconcile()
    assert len(world.launched) == 2


def test_a_stream_that_is_deleted_while_its_spec_is_refused_goes_and_its_data_stays(world: World) -> None:
    stream = orders(world, table={"uri": "s3a://lake/orders", "deletionPolicy": "Delete"})
    run_once(world)
    world.invalid[stream] = NEVER
    world.delete(stream)
    world.reconcile()
    assert world.ready(stream)[1] == "InvalidSpec"
    assert world.ready(stream)[2].startswith(f"{NEVER} (MessageStream orders); the resource goes at ")
    world.reconcile_after(minutes=5)
    assert stream not in world.resources
    assert world.reasons(stream)[-1] == "DataKept"
    assert not world.runs("delete")


def test_a_missing_secret_is_named_and_waited_for(world: World) -> None:
    world.secrets = {}
    stream = orders(world, storage={"credentialsSecretRef": {"name": "lake"}})
    world.reconcile()
    assert world.ready(stream) == ("False", "SecretMissing", "Secret lake doesn't exist in this namespace")
    world.secrets = {"lake": frozenset({"storage"})}
    run_once(world)
    assert world.ready(stream)[0] == "True"


def test_a_secret_that_is_not_labelled_for_its_use_is_named_and_waited_for(world: World) -> None:
    world.secrets = {"lake": frozenset({"kafka", "ca"}), "authority": frozenset({"ca"})}
    storage = {"endpoint": "https://s3.example.org", "caSecretRef": {"name": "authority"}}
    stream = orders(world, storage={**storage, "credentialsSecretRef": {"name": "lake"}})
    world.reconcile()
    words = "Secret lake may not be used for storage: its owner must label it messagestore.dev/use=ca.kafka.storage"
    assert (world.ready(stream), world.launched) == (("False", "NotAllowed", words), [])
    assert world.requeue_at[stream] is not None
    world.secrets = {**world.secrets, "lake": frozenset({"kafka", "storage"})}
    run_once(world)
    assert world.ready(stream)[0] == "True"


def test_the_label_of_a_secret_for_several_uses_names_them_all(world: World) -> None:
    world.secrets = {"lake": frozenset({""})}
    reference = {"caSecretRef": {"name": "lake"}, "credentialsSecretRef": {"name": "lake"}}
    stream = orders(world, storage={"endpoint": "https://s3.example.org", **reference})
    world.reconcile()
    assert "label it messagestore.dev/use=ca.storage" in world.ready(stream)[2]
    assert "label it messagestore.dev/use=storage" not in world.ready(stream)[2]


def test_a_certificate_needs_a_label_too(world: World) -> None:
    storage = {"endpoint": "https://s3.example.org", "caSecretRef": {"name": "authority"}}
    stream = orders(world, storage=storage)
    for uses, reason in (({""}, "NotAllowed"), ({"kafka"}, "NotAllowed"), ({"storage"}, "Pending")):
        world.secrets = {"authority": frozenset(uses)}
        world.reconcile_after(minutes=1)
        assert world.ready(stream)[1] == reason


def test_sasl_in_clear_is_refused_until_the_operator_allows_it(world: World) -> None:
    security = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "credentialsSecretRef": {"name": "user"}}
    kafka = {"bootstrapServers": "kafka:9092", "topics": ["orders"], "security": security}
    stream = orders(world, source={"kafka": kafka})
    world.reconcile()
    assert (world.ready(stream)[1], world.launched) == ("NotAllowed", [])
    assert world.ready(stream)[2].startswith("spec.source.kafka.security.protocol: SASL_PLAINTEXT sends credentials")
    assert "tenancy.kafka.allowPlaintextSasl" in world.ready(stream)[2]
    allowed = world.defaults.tenancy.model_copy(update={"kafka": KafkaBounds(allow_plaintext_sasl=True)})
    world.defaults = replace(world.defaults, tenancy=allowed)
    run_once(world)
    assert world.ready(stream)[0] == "True"


def test_dead_letters_are_told(world: World) -> None:
    stream = orders(world)
    app = world.start_due()
    outcome: Any = world.outcome(app)
    counts = outcome.totals.model_copy(update={"received": 13, "dead_lettered": 3})
    world.finish(app, outcome=outcome.model_copy(update={"totals": counts}))
    world.reconcile()
    told = [event.message for _, event in world.events if event.reason == "DeadLetters"]
    assert told == ["records were set aside as dead letters; status.totals.deadLettered counts them"]
    assert world.status(stream).totals.dead_lettered == 3


@pytest.mark.parametrize(("listed", "settings", "kept"), [(2, 3, 2), (10, 3, 3)])
def test_only_the_newest_ended_runs_are_kept_as_objects(world: World, listed: int, settings: int, kept: int) -> None:
    world.defaults = replace(world.defaults, ended_runs=settings)
    stream = orders(world, runHistoryLimit=listed)
    names = []
    for _ in range(5):
        names.append(run_once(world))
        world.wait(minutes=5)
    assert [app.name for app in world.runs()] == names[-kept:]
    assert len(world.status(stream).recent_runs) == min(listed, len(names))


def test_the_result_of_a_run_is_written_before_the_run_is_removed(world: World) -> None:
    stream = orders(world, runHistoryLimit=0)
    app = world.run_under_way()
    world.finish(app)
    kinds = [
        type(action)
        for action in world.reconcile_once(stream).actions
        if not isinstance(action, act.LogRun | act.EmitEvent)
    ]
    assert kinds == [act.WriteStatus, act.ReleaseLease, act.DeleteRun]
    assert world.status(stream).last_run.name == app.name
    assert world.status(stream).recent_runs == ()


@pytest.mark.parametrize("error", [None, DENIED])
def test_the_status_that_says_that_a_run_has_ended_says_when_the_next_will_be(
    world: World, error: RunError | None
) -> None:
    stream = orders(world)
    app = world.run_under_way()
    world.finish(app, error=error)
    written = [action for action in world.reconcile_once(stream).actions if isinstance(action, act.WriteStatus)]
    status = world.status(stream)
    assert (status.last_run.name, len(written)) == (app.name, 1)
    assert status.next_run_time.datetime > world.now
    assert not any(isinstance(action, act.WriteStatus) for action in world.reconcile_once(stream).actions)


def test_an_impossible_report_fails_only_its_run(world: World) -> None:
    stream = orders(world)
    app = world.start_due()
    outcome: Any = world.outcome(app)
    mad = outcome.model_copy(update={"totals": outcome.totals.model_copy(update={"received": -5})})
    world.finish(app, outcome=mad)
    world.reconcile()
    assert world.status(stream).last_run.error.reason == "ReportMissing"
    assert world.status(stream).totals is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (RunError(reason="No constant", message="m"), ("RunFailed", "m")),
        (RunError(reason="A" + 62 * "a", message="m"), ("A" + 62 * "a", "m")),
        (RunError(reason="A" + 63 * "a", message="m"), ("RunFailed", "m")),
        (
            RunError(reason="StorageDenied", message=" no\x00way\n\x1b[31mto\tit "),
            ("StorageDenied", "no way [31mto it"),
        ),
        (RunError(reason="StorageDenied", message=5000 * "m"), ("StorageDenied", 4000 * "m")),
    ],
)
def test_of_an_error_a_status_gets_a_constant_and_a_line_of_printable_text(
    world: World, said: RunError, told: tuple[str, str]
) -> None:
    stream = orders(world)
    run_once(world, error=said)
    error = world.status(stream).last_run.error
    assert (error.reason, error.message) == told


def test_maintenance_starts_between_runs_and_not_while_another_run_waits(world: World) -> None:
    stream = orders(world)
    run_once(world)
    world.tables["s3a://lake/orders"].version = 300
    world.wait(minutes=5)
    run_once(world)
    assert world.only_run().create.run.kind == "maintain"
    run_once(world)
    assert world.status(stream).maintenance.table_version == 302
    assert world.status(stream).last_run.kind == "ingest"
    world.reconcile_after(minutes=5)
    assert world.only_run().create.run.kind == "ingest"


def with_failed_maintenance(world: World) -> Key:
    """A stream whose table was due for maintenance, which failed."""
    stream = orders(world)
    run_once(world)
    world.tables["s3a://lake/orders"].version = 300
    world.wait(minutes=5)
    run_once(world)
    run_once(world, error=DENIED)
    return stream


def test_a_failing_maintenance_keeps_no_message_waiting(world: World) -> None:
    stream = with_failed_maintenance(world)
    assert world.ready(stream)[0] == "True"
    world.reconcile_after(minutes=5)
    assert world.only_run().create.run.kind == "ingest"


def test_a_failed_maintenance_is_made_again_though_the_clock_was_set_back(world: World) -> None:
    stream = with_failed_maintenance(world)
    maintenance = world.status(stream).maintenance
    ahead = maintenance.last_run.model_copy(update={"finished_at": clock_time(world.now + timedelta(days=400))})
    maintained = maintenance.model_copy(update={"last_run": ahead})
    status = world.status(stream).model_copy(update={"maintenance": maintained})
    world.resources[stream] = world.resources[stream].model_copy(update={"status": status})
    world.reconcile_after(minutes=5)
    assert world.only_run().create.run.kind == "maintain"


def continuous_with(world: World, version: int) -> tuple[Key, App]:
    """A continuous run that has written this many versions."""
    stream = orders(world, CONTINUOUS)
    app = world.start_due()
    world.tables["s3a://lake/orders"] = Stored(version=version)
    report_upkeep(world, app, None)
    return stream, app


def report_upkeep(world: World, app: App, done: UpkeepDone | None) -> None:
    """Let the run report its upkeep, and reconcile both."""
    outcome = world.outcome(app)
    app.report = world.report(app, "Running", outcome.model_copy(update={"upkeep": done}))
    world.reconcile()


def test_a_continuous_run_is_maintained_between_its_batches_and_not_stopped_for_it(world: World) -> None:
    stream, app = continuous_with(world, 300)
    asked = world.status(stream).table.version
    assert app.control == DriverControl(maintain=Upkeep(request_id=asked))
    report_upkeep(world, app, None)
    assert app.control.maintain == Upkeep(request_id=asked), "it is under way"
    report_upkeep(world, app, UpkeepDone(request_id=asked, table_version=asked + 3, small_files=0))
    found = world.status(stream).maintenance
    assert (found.requested_version, found.table_version, found.last_run.kind) == (asked, asked + 3, "maintain")
    assert (found.at, found.last_run.state) == (clock_time(world.now), "Succeeded")
    world.wait(minutes=1)
    report_upkeep(world, app, UpkeepDone(request_id=asked, table_version=asked + 3, small_files=0))
    assert (app.control.maintain, world.status(stream).maintenance.at) == (Upkeep(request_id=asked), found.at)
    world.tables["s3a://lake/orders"].version = 900
    report_upkeep(world, app, UpkeepDone(request_id=asked, table_version=asked + 3, small_files=0))
    assert app.control.maintain.request_id > 900
    assert (app.control.stop, world.launched) == (False, [app.name])


@pytest.mark.parametrize("told", [True, False])
def test_maintenance_that_fails_within_a_run_is_left_alone_for_an_hour(world: World, told: bool) -> None:
    stream, app = continuous_with(world, 300)
    asked = app.control.maintain.request_id if app.control.maintain else 0
    done = UpkeepDone(request_id=asked, error=DENIED)
    if told:
        report_upkeep(world, app, done)
    else:
        world.finish(app, error=DENIED)
        world.reconcile()
    failed = world.status(stream).maintenance
    assert (failed.requested_version, failed.last_run.state, failed.at) == (asked, "Failed", None)
    if told:
        world.tables["s3a://lake/orders"].version = 400
        world.wait(minutes=59)
        report_upkeep(world, app, done)
        assert app.control.maintain == Upkeep(request_id=asked)
        world.wait(minutes=2)
        report_upkeep(world, app, done)
        assert app.control.maintain != Upkeep(request_id=asked)
        assert world.ready(stream)[0] == "True"


def test_an_impossible_report_of_maintenance_reaches_no_status(world: World) -> None:
    stream, app = continuous_with(world, 300)
    report_upkeep(world, app, UpkeepDone(request_id=-1))
    assert world.status(stream).maintenance is None
    words = RunError(reason="no reason", message="line\nbreak" + "x" * 5000)
    report_upkeep(world, app, UpkeepDone(request_id=301, error=words))
    told = world.status(stream).maintenance.last_run.error
    assert (told.reason, told.message[:10], len(told.message)) == ("RunFailed", "line break", 4000)


# Two streams, one table.


def other(world: World, trigger: dict[str, Any] = INTERVAL) -> Key:
    return world.apply("MessageStream", "other", spec(trigger))


def test_a_second_stream_on_a_table_waits_and_says_for_whom(world: World) -> None:
    first, second = orders(world), other(world)
    world.reconcile()
    (app,) = world.runs()
    world.start(app)
    world.reconcile()
    truth, reason, words = world.ready(second)
    assert (truth, reason) == ("False", "TableBusy")
    assert words == f"s3a://lake/orders is in use: waiting for ingest run {app.name} of MessageStream default/orders"
    world.finish(app)
    world.reconcile()
    assert world.only_run().owner == second
    assert world.status(first).phase == "Idle"


def test_a_continuous_stream_gives_way_and_goes_on(world: World) -> None:
    first = orders(world, CONTINUOUS)
    app = world.run_under_way()
    second = other(world)
    world.reconcile()
    assert not app.control.stop
    world.reconcile_after(minutes=1)
    assert app.control.stop
    world.finish(app)
    world.reconcile_after(seconds=20)
    assert world.only_run().owner == second
    run_once(world)
    assert world.only_run().owner == first


def test_a_lease_whose_holder_vanished_is_taken_over_after_a_while(world: World) -> None:
    first = orders(world)
    world.reconcile_once(first, cut_after=2)
    world.resources.pop(first)
    second = other(world)
    world.reconcile()
    assert world.launched == []
    assert world.ready(second)[1] == "TableBusy"
    world.reconcile_after(seconds=31)
    assert world.only_run().owner == second


@pytest.mark.parametrize("cut", range(1, 4))
def test_an_operator_killed_between_two_actions_launches_once(world: World, cut: int) -> None:
    stream = orders(world)
    world.reconcile_once(stream, cut_after=cut)
    second = other(world)
    world.reconcile()
    assert len(world.launched) == 1
    assert world.only_run().owner == stream
    assert world.ready(second)[1] == "TableBusy"


@pytest.mark.parametrize("cut", [1, 2])
def test_a_decision_on_an_outdated_snapshot_launches_nothing(world: World, cut: int) -> None:
    stream = orders(world)
    world.reconcile_once(stream, cut_after=cut)
    old = decide(world.snapshot(stream))
    assert any(isinstance(action, act.CreateRun) for action in old.actions)
    orders(world, suspend=True)
    world.reconcile()
    with pytest.raises(Conflict):
        world.execute(stream, old)
    assert world.launched == []
    assert world.held("s3a://lake/orders").holder is None


# Deletion.


def deletable(world: World, **more: Any) -> Key:
    stream = orders(world, table={"uri": "s3a://lake/orders", "deletionPolicy": "Delete"}, **more)
    run_once(world)
    return stream


def test_a_stream_that_retains_its_data_has_no_finalizer(world: World) -> None:
    stream = orders(world)
    run_once(world)
    assert world.resources[stream].metadata.finalizers == ()
    world.delete(stream)
    assert stream not in world.resources


def test_delete_removes_the_data_first(world: World) -> None:
    stream = deletable(world)
    assert world.resources[stream].metadata.finalizers == (FINALIZER,)
    world.delete(stream)
    world.reconcile()
    assert world.status(stream).phase == "Deleting"
    app = world.only_run()
    assert app.create.run.kind == "delete"
    world.start(app)
    world.finish(app)
    world.reconcile()
    assert stream not in world.resources
    assert "DataDeleted" in world.reasons(stream)


def test_data_that_was_deleted_is_not_deleted_again_by_the_successor_of_a_killed_operator(world: World) -> None:
    stream = deletable(world)
    world.delete(stream)
    world.finish(world.start_due("delete"))
    kinds = [type(action) for action in decide(world.snapshot(stream)).actions]
    world.reconcile_once(stream, cut_after=kinds.index(act.RemoveFinalizer))
    assert stream in world.resources
    world.reconcile()
    assert stream not in world.resources
    assert len(world.launched) == 2


def test_a_store_with_a_hold_or_another_stream_is_not_deleted(world: World) -> None:
    stream = deletable(world, holds=[{"name": "court", "until": "2026-01-05T09:00:00Z"}])
    neighbour = world.apply("MessageStream", "other", spec(suspend=True))
    world.delete(stream)
    world.reconcile()
    assert world.ready(stream)[1] == "DeletionBlocked"
    assert "hold court" in world.ready(stream)[2]
    world.reconcile_after(hours=2)
    assert "MessageStream default/other" in world.ready(stream)[2]
    world.delete(neighbour)
    world.reconcile()
    assert world.only_run().create.run.kind == "delete"


def test_two_streams_that_delete_one_folder_are_deleted_one_after_the_other(world: World) -> None:
    streams = two_that_delete_one_folder(world)
    for stream in streams:
        world.delete(stream)
    for _ in streams:
        world.reconcile()
        (writes,) = [app for app in world.runs("delete") if not app.state.ended]
        world.finish(writes)
    world.reconcile()
    assert not set(streams) & set(world.resources)
    assert [str(event.reason) for _, event in world.events].count("DataDeleted") == 2


def test_of_two_streams_that_delete_one_folder_the_one_that_never_owned_it_is_deleted_last(world: World) -> None:
    refused, owner = two_that_delete_one_folder(world)
    world.delete(refused)
    world.delete(owner)
    run_once(world, error=RunError(reason="TableRefused", message="the folder is another's"))
    run_once(world)
    assert refused in world.resources
    assert owner not in world.resources
    world.wait(minutes=10)
    run_once(world)
    assert refused not in world.resources


def test_two_streams_that_delete_one_folder_go_with_their_namespace(world: World) -> None:
    streams = two_that_delete_one_folder(world)
    for stream in streams:
        world.delete(stream)
    world.can_run = False
    world.reconcile()
    assert not set(streams) & set(world.resources)


def two_that_delete_one_folder(world: World) -> list[Key]:
    table = {"uri": "s3a://lake/orders", "deletionPolicy": "Delete"}
    streams = [world.apply("MessageStream", name, spec(table=table)) for name in ("orders", "other")]
    for _ in streams:
        run_once(world)
    return streams


def test_a_store_is_not_deleted_while_another_stream_on_its_folder_has_a_hold(world: World) -> None:
    stream, other = two_that_delete_one_folder(world)
    table = {"uri": "s3a://lake/orders", "deletionPolicy": "Delete"}
    world.apply("MessageStream", "other", spec(table=table, holds=[{"name": "court"}]))
    world.delete(stream)
    world.wait(seconds=1)
    world.delete(other)
    world.reconcile()
    assert "MessageStream default/other" in world.ready(stream)[2]
    assert "hold court" in world.ready(other)[2]
    assert world.runs("delete") == []


def test_a_deletion_ends_the_run_under_way(world: World) -> None:
    stream = deletable(world)
    world.wait(minutes=5)
    app = world.run_under_way()
    world.delete(stream)
    world.reconcile()
    assert not app.there
    assert world.only_run().create.run.kind == "delete"


@pytest.mark.parametrize("holds", [[], [{"name": "court"}]], ids=["free", "held"])
def test_a_stream_goes_at_once_with_its_namespace_and_its_data_stays(world: World, holds: list[dict[str, str]]) -> None:
    stream = deletable(world, holds=holds)
    world.delete(stream)
    world.can_run = False
    world.reconcile()
    assert stream not in world.resources
    assert world.runs("delete") == []
    kept = [event for about, event in world.events if about == stream][-1]
    assert (kept.type, kept.reason) == ("Warning", "DataKept")
    assert kept.message == (
        "the data at s3a://lake/orders is kept: the namespace is being deleted, and nothing can run in it"
    )


def test_a_deletion_under_way_ends_with_its_namespace(world: World) -> None:
    stream = deletable(world)
    world.delete(stream)
    app = world.start_due()
    world.can_run = False
    world.reconcile()
    assert stream in world.resources
    world.lose(app)
    world.reconcile()
    assert stream not in world.resources
    assert world.reasons(stream)[-1] == "DataKept"


def test_a_blocked_deletion_waits_for_a_bounded_time(world: World) -> None:
    stream = deletable(world)
    world.delete(stream)
    world.invalid[stream] = NEVER
    world.reconcile()
    over = clock_time(world.now + world.defaults.deletion_bound)
    assert f"the resource goes at {over}, and its data stays" in world.ready(stream)[2]
    world.reconcile_after(minutes=6)
    assert stream not in world.resources
    assert world.reasons(stream)[-1] == "DataKept"


def test_without_the_spark_operator_data_waits_for_its_deletion(world: World) -> None:
    stream = deletable(world)
    world.missing_kind = "sparkapplications.sparkoperator.k8s.io"
    world.delete(stream)
    world.reconcile_after(hours=1)
    assert world.ready(stream)[1] == "SparkOperatorMissing"
    assert "set spec.table.deletionPolicy to Retain" in world.ready(stream)[2]
    world.missing_kind = None
    run_once(world)
    assert stream not in world.resources


def test_a_failed_deletion_says_how_to_keep_the_data_and_ends_when_that_is_done(world: World) -> None:
    stream = deletable(world)
    world.delete(stream)
    run_once(world, error=DENIED)
    assert world.ready(stream)[1] == "StorageDenied"
    assert "set spec.table.deletionPolicy to Retain" in world.ready(stream)[2]
    metadata = world.resources[stream].metadata
    world.apply("MessageStream", "orders", spec(), deletionTimestamp=metadata.deletion_timestamp)
    world.reconcile()
    assert stream not in world.resources


def test_a_request_that_is_longer_than_a_status_holds_is_answered_once(world: World) -> None:
    stream = orders(world, {"manual": {}})
    world.annotate(stream, run_requested="now " * 1000)
    run_once(world)
    status = world.status(stream)
    assert MessageStreamStatus.model_validate(status.to_dict()) == status
    world.reconcile_after(hours=9)
    assert len(world.launched) == 1
