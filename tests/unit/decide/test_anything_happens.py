"""Random events in random order: one writer per table, nothing launched twice, nothing forgotten."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from messagestore_core.contract.base import RunError
from messagestore_operator.decide.actions import CreateRun, Decision
from messagestore_operator.decide.decision import decide
from messagestore_operator.decide.run_queue import RunBounds
from messagestore_operator.decide.snapshot import AppState, DriverPod, Waiting
from support.world import App, Conflict, Key, World, current_runs

SHARED = "s3a://lake/shared"
ERRORS = st.sampled_from(["StorageDenied", "PredicateRefused", "RunFailed", "TableRefused"])
TRIGGERS: list[dict[str, Any]] = [
    {"interval": "PT1M"},
    {"continuous": {}},
    {"schedule": {"cron": "*/5 * * * *"}},
    {"manual": {}},
]
WAITS = [Waiting("ImagePullBackOff", "none"), Waiting("Unschedulable", "full"), None]


def stream_spec(table: str, trigger: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"table": {"uri": table}, "source": {"files": {"uri": "s3a://landing/x/"}}, "trigger": trigger, **more}


class Anything(RuleBasedStateMachine):
    """Two streams on one table, a third stream, a policy, a redrive and a redelivery."""

    late = Bundle("late")

    @initialize(
        first=st.sampled_from(TRIGGERS),
        second=st.sampled_from(TRIGGERS),
        at_once=st.sampled_from([None, 2]),
        written_each=st.sampled_from([timedelta(0), timedelta(minutes=1)]),
    )
    def begin(
        self, first: dict[str, Any], second: dict[str, Any], at_once: int | None, written_each: timedelta
    ) -> None:
        self.world = World()
        bounds = RunBounds(in_all=at_once)
        self.world.defaults = replace(self.world.defaults, bounds=bounds, status_interval=written_each)
        self.specs: dict[Key, dict[str, Any]] = {}
        self.edits = 0
        self.make("MessageStream", "a", "default", stream_spec(SHARED, first))
        self.make("MessageStream", "b", "default", stream_spec(SHARED + "/", second))
        self.make("MessageStream", "c", "default", stream_spec("s3a://lake/c", {"interval": "PT1M"}, runHistoryLimit=0))
        policy = {
            "streamRefs": [{"name": "a"}, {"name": "c"}],
            "trigger": {"schedule": {"cron": "*/5 * * * *"}},
            "rules": [{"name": "old", "maxAge": "P1D"}],
            "mode": "Enforce",
        }
        self.make("RetentionPolicy", "p", "default", policy)
        redrive = {"streamRef": {"name": "a"}, "origin": "DeadLetters", "destination": {"stream": {"name": "c"}}}
        self.make("ReplayJob", "r", "default", {**redrive, "backoffLimit": 100})
        again = {"select": {"dueForRetry": True}, "destination": {"files": {"uri": "s3a://replay/d/"}}}
        self.make("ReplayJob", "d", "default", {"streamRef": {"name": "a"}, "trigger": {"interval": "PT2M"}, **again})

    def make(self, kind: str, name: str, namespace: str, spec: dict[str, Any]) -> None:
        self.specs[self.world.apply(kind, name, spec, namespace)] = spec

    def key(self, number: int) -> Key | None:
        keys = sorted(self.world.resources)
        return keys[number % len(keys)] if keys else None

    def app(self, number: int, *states: AppState) -> App | None:
        found = [app for app in self.world.apps.values() if app.there and app.state in states]
        return found[number % len(found)] if found else None

    # The operator.

    @rule(number=st.integers(0, 4), cut=st.one_of(st.none(), st.integers(0, 6)))
    def reconcile(self, number: int, cut: int | None) -> None:
        if (key := self.key(number)) is not None:
            self.world.reconcile_once(key, cut_after=cut)

    @rule()
    def reconcile_all_that_is_due(self) -> None:
        for _ in range(4):
            for key, when in list(self.world.requeue_at.items()):
                if when is not None and when <= self.world.now and key in self.world.resources:
                    self.world.reconcile_once(key)

    @rule(target=late, number=st.integers(0, 4))
    def decide_now(self, number: int) -> tuple[Key, Decision] | None:
        key = self.key(number)
        return None if key is None else (key, decide(self.world.snapshot(key)))

    @rule(decided=consumes(late))
    def carry_out_late(self, decided: tuple[Key, Decision] | None) -> None:
        """Carry out a decision on an old snapshot."""
        if decided is None or decided[0] not in self.world.resources:
            return
        try:
            self.world.execute(*decided)
        except Conflict:
            self.world.requeue_at[decided[0]] = self.world.now

    # Time and the cluster.

    @rule(seconds=st.sampled_from([1, 5, 20, 70, 400, 3600]))
    def time_goes_by(self, seconds: int) -> None:
        self.world.wait(seconds=seconds)

    @rule(minutes=st.sampled_from([-4, 4]))
    def another_operators_clock_is_ahead_or_behind(self, minutes: int) -> None:
        self.world.wait(minutes=minutes)

    @rule(number=st.integers(0, 9), waiting=st.sampled_from(WAITS))
    def a_driver_waits(self, number: int, waiting: Waiting | None) -> None:
        if (app := self.app(number, AppState.PENDING)) is not None:
            app.driver = DriverPod("Pending", waiting=waiting)

    @rule(number=st.integers(0, 9))
    def a_driver_starts(self, number: int) -> None:
        if (app := self.app(number, AppState.PENDING)) is not None:
            self.world.start(app)

    @rule(number=st.integers(0, 9))
    def a_run_ends_well(self, number: int) -> None:
        if (app := self.app(number, AppState.RUNNING)) is not None:
            self.world.finish(app)

    @rule(number=st.integers(0, 9), reason=ERRORS)
    def a_run_fails(self, number: int, reason: str) -> None:
        if (app := self.app(number, AppState.RUNNING)) is not None:
            self.world.finish(app, error=RunError(reason=reason, message="no luck"))

    @rule(number=st.integers(0, 9), unknown=st.booleans())
    def a_driver_dies(self, number: int, unknown: bool) -> None:
        if (app := self.app(number, AppState.RUNNING)) is not None:
            self.world.die(app, exit_code=137)
            app.driver = DriverPod("Unknown") if unknown else app.driver

    @rule(number=st.integers(0, 9), lingers=st.booleans())
    def somebody_deletes_an_application(self, number: int, lingers: bool) -> None:
        states = (AppState.PENDING, AppState.RUNNING, AppState.FAILED, AppState.SUCCEEDED)
        if (app := self.app(number, *states)) is not None:
            self.world.lingers = lingers
            self.world.lose(app)

    @rule(lingers=st.booleans())
    def deleted_pods(self, lingers: bool) -> None:
        self.world.lingers = lingers
        for app in self.world.apps.values():
            gone = app.driver is not None and (app.driver.deleting or app.driver.phase == "Unknown")
            if gone and not lingers:
                app.driver = None

    # People.

    @rule(number=st.integers(0, 4), suspend=st.booleans())
    def suspend(self, number: int, suspend: bool) -> None:
        self.change(number, {"suspend": suspend})

    @rule(number=st.integers(0, 4))
    def edit(self, number: int) -> None:
        self.edits += 1
        key = self.key(number)
        if key is not None and key[0] == "ReplayJob":
            self.change(number, {"rateLimit": {"messagesPerSecond": self.edits}})
        else:
            self.change(number, {"spark": {"driver": {"cores": self.edits}}})

    @rule(number=st.integers(0, 4))
    def ask_for_a_run(self, number: int) -> None:
        self.edits += 1
        key = self.key(number)
        if key is not None:
            self.world.annotate(key, run_requested=str(self.edits))

    @rule(number=st.integers(0, 4), delete_data=st.booleans())
    def delete(self, number: int, delete_data: bool) -> None:
        key = self.key(number)
        if key is None or len(self.world.resources) < 3:
            return
        if key[0] == "MessageStream" and delete_data:
            self.change(number, {"table": {**self.specs[key]["table"], "deletionPolicy": "Delete"}})
            self.world.reconcile_once(key)
        if key in self.world.resources:
            self.world.delete(key)

    def change(self, number: int, change: dict[str, Any]) -> None:
        key = self.key(number)
        if key is not None and self.world.resources[key].metadata.deletion_timestamp is None:
            self.specs[key] = {**self.specs[key], **change}
            self.world.apply(key[0], key[2], self.specs[key], key[1])

    # Invariants.

    @invariant()
    def one_writer_a_table(self) -> None:
        if hasattr(self, "world"):
            for table in (SHARED, "s3a://lake/c"):
                writers = [app for app in self.world.writers(table) if not self.is_unseen(app)]
                assert len(writers) <= 1, [app.name for app in writers]

    def is_unseen(self, app: App) -> bool:
        return app.name in self.world.relaunched

    @invariant()
    def nothing_is_launched_twice(self) -> None:
        if hasattr(self, "world"):
            once = [name for name in self.world.launched if name not in self.world.relaunched]
            assert len(once) == len(set(once))

    @invariant()
    def nothing_is_forgotten(self) -> None:
        if hasattr(self, "world"):
            for key, when in self.world.requeue_at.items():
                assert when is not None or not current_runs(self.world.status(key)), key

    def teardown(self) -> None:
        """Without further events everything comes to rest, and another look decides nothing new."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.lingers = False
        self.deleted_pods(lingers=False)
        for _ in range(60):
            self.reconcile_all_that_is_due()
            for app in [app for app in world.runs() if not app.state.ended]:
                if app.control.stop or not app.create.run.continuous:
                    world.start(app)
                    world.finish(app)
                else:
                    world.start(app)
            world.wait(seconds=70)
        for key in list(world.resources):
            first = decide(world.snapshot(key))
            again = decide(world.snapshot(key))
            assert first == again
            launched = [action.run.name for action in first.actions if isinstance(action, CreateRun)]
            assert not set(launched) & set(world.launched)
            waits = [run for run in current_runs(world.status(key)) if run.requested_at]
            assert all(
                world.now - run.requested_at.datetime < timedelta(minutes=45) for run in waits if not run.launched_at
            )


TestAnything = Anything.TestCase
TestAnything.settings = settings(
    max_examples=5,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.long
class TestMuchMore(Anything.TestCase):
    settings = settings(TestAnything.settings, max_examples=100)
