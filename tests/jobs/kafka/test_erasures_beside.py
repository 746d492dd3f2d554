"""Erasures beside a continuous replay: a process that sends, real purges and erasures, and the operator's decisions."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_jobs import lock
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.replay import newest
from messagestore_operator.decide.snapshot import AppState, Defaults, DriverPod
from support.continuousruns import ContinuousRun
from support.kafkabroker import Broker
from support.kafkatopics import Topics
from support.long import few
from support.stores import add_messages, make_store, message
from support.waiting import wait_until
from support.world import App, Key, World, stream

PATIENCE_SECONDS = 180.0
SIZE = 2
"""Of each sequence."""


@dataclass(frozen=True)
class Plan:
    """How often is erased, how many seconds apart, and how long an erasure waits for a replay that says nothing."""

    erasures: int
    apart: float
    look_seconds: float
    erasure_after: timedelta
    sequences: bool


SHORT = [Plan(2, 1.0, 1.0, timedelta(minutes=10), sequences) for sequences in (False, True)]
LONG = Plan(30, 60.0, newest.LOOK_WHOLE_SECONDS, Defaults().erasure_after, sequences=False)


@dataclass
class Scene:
    """A store, its replay and its policy, in a cluster whose clock goes ahead of the machine's where somebody waits."""

    spark: SparkSession
    folder: Path
    broker: Broker
    plan: Plan
    table: Table
    world: World
    replay: Key
    ahead: timedelta = timedelta(0)
    processes: dict[str, ContinuousRun] = field(default_factory=dict)
    committed: dict[int, float] = field(default_factory=dict)
    """When each message was in the store."""
    erased: dict[int, float] = field(default_factory=dict)
    """When the erasure of each message began."""

    @property
    def last(self) -> int:
        return max(self.committed, default=0)

    @property
    def process(self) -> ContinuousRun:
        """The replay's newest."""
        return list(self.processes.values())[-1]

    def has_sent_all(self) -> bool:
        """Whether the replay says that its cursor is behind all messages."""
        report = self.process.report() if self.processes else None
        cursor = report.outcome.cursor if report is not None and report.outcome is not None else None
        return cursor is not None and cursor.global_position == self.last

    def arrive(self) -> None:
        """Add the messages of one sequence."""
        first = self.last + 1
        numbers = range(1, SIZE + 1)
        rows = [message(first + n - 1, sequence_id=f"s{first}", sequence_number=n, sequence_size=SIZE) for n in numbers]
        add_messages(self.table.uri, rows, next_global_position=first + SIZE)
        self.committed |= dict.fromkeys(range(first, first + SIZE), time.time())

    def purge(self, *positions: int) -> None:
        """Have the policy erase messages: ask for the purge, whose run ends here."""
        key = policy(self.world, positions)
        self.world.annotate(key, run_requested=str(positions))
        self._carry_out("purge")

    def erase(self, *positions: int) -> None:
        """Let the erasure run once the operator starts it."""
        self.erased |= dict.fromkeys(positions, self._carry_out("erase"))

    def under_way(self, kind: str) -> list[App]:
        """The runs of a kind that the operator has launched and that have not ended."""
        return [app for app in self.world.runs(kind) if not app.state.ended]

    def _carry_out(self, kind: str) -> float:
        """Carry a run out once the operator launches it; return when it began."""
        self.until(lambda: bool(self.under_way(kind)))
        began, app = time.time(), self.world.only_run(kind)
        self.world.start(app)
        report = execute(self._document(app), lambda: self.spark, Silent(), 0, self._now)
        assert report.state == "Succeeded", report.error
        self.world.finish(app, outcome=report.outcome)
        self.step()
        return began

    def until(self, true: Callable[[], bool]) -> None:
        """Let the operator go on until something is so."""

        def reached() -> bool:
            self.step()
            return true()

        wait_until(reached, PATIENCE_SECONDS, self._situation)

    def _situation(self) -> str:
        statuses = [self.world.status(key) for key in self.world.resources]
        return "\n".join(map(str, [*statuses, *(process.log() for process in self.processes.values())]))

    def step(self) -> None:
        """What the operator does now, and what becomes of the replay's pod."""
        self.world.now = self._now()
        for app in [one for one in self.world.apps.values() if one.owner == self.replay]:
            self._follow(app)
        self.world.reconcile()

    def _follow(self, app: App) -> None:
        process = self.processes.get(app.name)
        if process is None:
            self.processes[app.name] = process = ContinuousRun(
                self.folder / app.name, self._document(app), self.plan.look_seconds
            )
            self.world.start(app)
        if not app.there:
            process.close()
        if app.control.stop:
            process.stop()
        alive, report = process.alive, process.report()
        app.report = report and report.model_copy(update={"sequence": int(time.time() * 1000)})
        if not alive and not app.state.ended:
            assert report is not None, process.log()
            assert report.state == "Succeeded", report.error
            app.state, app.driver = AppState.SUCCEEDED, DriverPod("Succeeded", exit_code=0)

    def _document(self, app: App) -> RunDocument:
        """The run's document, with the store and the broker on this machine."""
        document, task = app.create.document, app.create.document.task
        table = self.table.model_copy(update={"epoch": document.table.epoch})
        if isinstance(task, ReplayTask):
            destination = task.to.model_copy(update={"cluster": self.broker.cluster()})
            task = task.model_copy(update={"destination": destination})
        return document.model_copy(update={"table": table, "task": task})

    def _now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


def policy(world: World, positions: tuple[int, ...]) -> Key:
    match = {"messageIds": [f"m{n}" for n in positions]}
    spec = {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "gone", "match": match, "erase": True}],
        "mode": "Enforce",
        "erasure": {"within": "PT1S"},
    }
    return world.apply("RetentionPolicy", "gone", spec)


@pytest.fixture
def scene_of(
    spark: SparkSession, tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Plan, str], Scene]]:
    monkeypatch.setattr(lock, "is_local", lambda uri: False)
    scenes: list[Scene] = []

    def make(plan: Plan, topic: str) -> Scene:
        world = World(now=datetime.now(UTC))
        world.defaults = replace(world.defaults, erasure_after=plan.erasure_after)
        stream(world)
        select = {"select": {"sequences": {"completeOnly": True}}, "order": "Sequence"} if plan.sequences else {}
        spec = {
            "streamRef": {"name": "orders"},
            "start": {"at": "Beginning"},
            "trigger": {"continuous": {}},
            "destination": {"kafka": {"bootstrapServers": "kafka:9092", "topic": topic}},
            **select,
        }
        table = make_store(tmp_path / "store", [])
        scenes.append(Scene(spark, tmp_path, broker, plan, table, world, world.apply("ReplayJob", "on", spec)))
        return scenes[-1]

    yield make
    for process in [process for scene in scenes for process in scene.processes.values()]:
        process.close()


@pytest.mark.parametrize(
    "plan", [*few(SHORT, SHORT[0]), pytest.param(LONG, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
def test_erasures_run_beside_a_continuous_replay_which_only_stops_for_one_if_it_is_frozen(
    scene_of: Callable[[Plan, str], Scene], topics: Topics, plan: Plan
) -> None:
    topic = topics.make()
    scene = scene_of(plan, topic)
    scene.arrive()
    scene.until(scene.has_sent_all)
    for _ in range(plan.erasures):
        until = time.monotonic() + plan.apart
        while time.monotonic() < until:
            scene.arrive()
            scene.step()
            time.sleep(min(1.0, plan.apart / 4))
        new, older = scene.last, scene.last - SIZE
        scene.arrive()
        scene.purge(new, older)
        scene.erase(new, older)
    scene.until(scene.has_sent_all)
    (app,) = scene.world.runs("replay")
    assert (len(scene.processes), scene.process.alive, app.control.stop) == (1, True, False)

    frozen = scene.process
    frozen.freeze()
    scene.arrive()
    never = scene.last
    scene.arrive()
    scene.purge(never)
    assert (scene.under_way("erase"), app.control.stop) == ([], False)
    scene.ahead += plan.erasure_after
    scene.until(lambda: app.control.stop)
    assert scene.under_way("erase") == []
    frozen.thaw()
    scene.erase(never)
    scene.until(lambda: len(scene.processes) == 2)
    assert not frozen.alive
    scene.arrive()
    scene.until(scene.has_sent_all)

    records = topics.read(topic)
    sent = [json.loads(record.value or b"")["globalPosition"] for record in records]
    assert len(sent) == len(set(sent))
    assert never not in sent
    lost_a_member = {n - 1 for n in set(scene.erased) - set(sent)} if plan.sequences else set()
    assert set(scene.committed) - set(scene.erased) - set(sent) == lost_a_member
    at = dict(zip(sent, (record.timestamp / 1000 for record in records), strict=True))
    assert [n for n, began in scene.erased.items() if at.get(n, 0) > began] == []
    took = [at[n] - when for n, when in scene.committed.items() if n in at and n < never - 1]
    sys.stdout.write(f"from commit to topic: {median(took):.1f} s in the median, {max(took):.1f} s at most; {plan}\n")
