"""How many runs are active at once, which one is next, and how quickly they follow each other."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from messagestore_operator.decide.run_queue import ActiveRuns, Full, RunBounds, RunQueue, RunSlot, full, startable
from support.world import START, Key, World

INTERVAL = {"interval": "PT5M"}
WAITS = "waiting for a free slot: "


def stream(world: World, name: str, namespace: str = "default", **storage: Any) -> Key:
    spec: dict[str, Any] = {
        "table": {"uri": f"s3a://lake/{namespace}/{name}"},
        "source": {"files": {"uri": f"s3a://landing/{namespace}/{name}/"}},
        "trigger": INTERVAL,
        "storage": storage,
    }
    return world.apply("MessageStream", name, spec, namespace)


def bounded(world: World, **bounds: Any) -> None:
    world.defaults = replace(world.defaults, bounds=RunBounds(**bounds))


def going(world: World) -> list[str]:
    """The resources with active runs, each with its namespace."""
    return sorted("/".join(app.owner[1:]) for app in world.runs() if not app.state.ended)


def end(world: World, owner: Key) -> None:
    """End the run of a resource, and reconcile what waits for that."""
    (app,) = [app for app in world.runs() if app.owner == owner and not app.state.ended]
    world.start(app)
    world.finish(app)
    world.reconcile()


def test_a_run_beyond_the_operators_bound_says_so_holds_no_table_and_starts_in_its_turn(world: World) -> None:
    bounded(world, in_all=1)
    first, second, third = (stream(world, name) for name in "abc")
    for key in (first, second, third):
        world.reconcile_once(key)
        world.wait(seconds=1)
    world.reconcile()
    assert going(world) == ["default/a"]
    words = f"{WAITS}1 run may run at once (runs.atOnce.inAll)"
    assert [world.ready(key) for key in (second, third)] == [("False", "WaitingForRoom", words)] * 2
    assert world.held("s3a://lake/default/b").holder is None
    end(world, first)
    assert going(world) == ["default/b"]
    end(world, second)
    assert going(world) == ["default/c"]
    assert world.ready(first)[:2] == ("True", "Ingesting")


def test_a_namespace_that_asks_for_much_leaves_room_to_others(world: World) -> None:
    bounded(world, in_all=3)
    greedy = [stream(world, f"g{number}", "greedy") for number in range(6)]
    world.reconcile()
    world.wait(minutes=1)
    modest = stream(world, "m", "modest")
    world.reconcile()
    assert going(world) == ["greedy/g0", "greedy/g1", "greedy/g2"]
    end(world, greedy[0])
    assert going(world) == ["greedy/g1", "greedy/g2", "modest/m"]
    end(world, modest)
    assert going(world) == ["greedy/g1", "greedy/g2", "greedy/g3"]


def test_a_namespace_and_an_endpoint_have_bounds_of_their_own(world: World) -> None:
    bounded(world, in_namespace=2, at_endpoint=1)
    one, other = {"endpoint": "https://one.example.org"}, {"endpoint": "https://other.example.org"}
    stream(world, "a", **one)
    behind_a = stream(world, "b", **one)
    stream(world, "c", **other)
    beyond_two = stream(world, "d")
    elsewhere = stream(world, "e", "elsewhere")
    world.reconcile()
    assert going(world) == ["default/a", "default/c", "elsewhere/e"]
    assert world.ready(behind_a)[2] == f"{WAITS}2 runs of a namespace may run at once (runs.atOnce.inNamespace)"
    assert world.ready(beyond_two)[1] == "WaitingForRoom"
    behind_e = stream(world, "f", "elsewhere")
    world.reconcile()
    assert world.ready(behind_e)[2] == f"{WAITS}1 run at a storage endpoint may run at once (runs.atOnce.atEndpoint)"
    assert world.ready(elsewhere)[1] == "Pending"


def test_runs_of_a_policy_are_counted_one_by_one(world: World) -> None:
    bounded(world, in_all=1)
    names = ["a", "b"]
    for name in names:
        stream(world, name)
    policy = {
        "streamRefs": [{"name": name} for name in names],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P1D"}],
    }
    key = world.apply("RetentionPolicy", "old", policy, annotations={"messagestore.dev/run-requested": "now"})
    for _ in range(3):
        world.reconcile_once(key)
    assert going(world) == ["default/old"]
    assert world.ready(key)[:2] == ("False", "WaitingForRoom")
    assert world.status(key).phase == "Previewing"


def test_starts_are_spread_and_each_is_looked_at_when_its_turn_comes(world: World) -> None:
    bounded(world, starts_per_second=2.0)
    world.starts = 1
    keys = [stream(world, name) for name in "abc"]
    for key in keys:
        world.reconcile_once(key)
        world.starts = 0
    for key in keys:
        world.reconcile_once(key)
    assert going(world) == ["default/a"]
    assert world.ready(keys[1]) == (
        "False",
        "WaitingForRoom",
        f"{WAITS}2 runs may start each second (runs.startsPerSecond)",
    )
    requeue_at = [world.requeue_at[key] for key in keys[1:]]
    assert requeue_at == [world.now + timedelta(seconds=0.5), world.now + timedelta(seconds=1)]
    world.starts = 1
    world.reconcile_once(keys[2])
    assert going(world) == ["default/a"], "the one that was reserved first comes first"
    world.reconcile_once(keys[1])
    assert going(world) == ["default/a", "default/b"]


def test_a_ready_stream_stays_ready_for_a_while_as_its_run_waits_for_room(world: World) -> None:
    key = stream(world, "a")
    world.reconcile()
    end(world, key)
    bounded(world, in_all=0)
    world.reconcile_after(minutes=5)
    assert world.ready(key)[:2] == ("True", "Ingesting")
    world.reconcile_after(seconds=15)
    assert world.ready(key)[:2] == ("False", "WaitingForRoom")


def test_a_run_that_waits_for_its_table_takes_no_slot_from_others(world: World) -> None:
    bounded(world, in_all=2)
    stream(world, "a")
    world.reconcile()
    world.apply(
        "RetentionPolicy",
        "p",
        {
            "streamRefs": [{"name": "a"}],
            "trigger": {"manual": {}},
            "mode": "Enforce",
            "rules": [{"name": "old", "maxAge": "P1D"}],
        },
        annotations={"messagestore.dev/run-requested": "now"},
    )
    world.reconcile()
    other = stream(world, "b")
    world.reconcile()
    assert going(world) == ["default/a", "default/b"]
    assert world.ready(other)[1] == "Pending"


def test_a_run_that_was_cut_off_with_its_table_in_hand_is_launched_and_waits_no_more(world: World) -> None:
    key = stream(world, "a")
    world.reconcile_once(key, cut_after=2)
    assert world.held("s3a://lake/default/a").holder is not None
    assert world.runs() == []
    bounded(world, in_all=0)
    world.reconcile()
    assert going(world) == ["default/a"]


def slot(name: str, seconds: int = 0, namespace: str = "default") -> RunSlot:
    owner = ("MessageStream", namespace, name)
    return RunSlot(f"{namespace}/{name}", owner, frozenset(), START + timedelta(seconds=seconds))


def test_each_start_leaves_one_start_less_to_runs_of_the_same_second() -> None:
    queue = RunQueue(starts=1, bounds=RunBounds(starts_per_second=2.0))
    assert full(queue, slot("b"), START) is None
    words = "2 runs may start each second (runs.startsPerSecond)"
    assert full(queue.taken(slot("a")), slot("b"), START) == Full(words, START + timedelta(seconds=0.5))


def test_each_start_above_the_allowed_rate_adds_to_the_wait() -> None:
    queue = RunQueue(starts=-1, bounds=RunBounds(starts_per_second=2.0))
    assert full(queue, slot("a"), START).until == START + timedelta(seconds=1)


def test_a_run_that_waits_for_another_to_end_is_requeued_after_a_minute() -> None:
    queue = RunQueue(ActiveRuns([slot("a")]), bounds=RunBounds(in_all=1))
    words = "1 run may run at once (runs.atOnce.inAll)"
    assert full(queue, slot("b"), START) == Full(words, START + timedelta(minutes=1))


def test_startable_runs_are_the_first_in_the_queue_that_rate_and_bounds_allow() -> None:
    waiting = (slot("c", 3), slot("b", 2), slot("a", 1), slot("d", 4, "other"))
    assert list(startable(RunQueue(waiting=waiting, starts=2))) == [waiting[2], waiting[3]]
    queue = RunQueue(ActiveRuns([slot("z")]), waiting, bounds=RunBounds(in_all=3, in_namespace=2))
    assert list(startable(queue)) == [waiting[3], waiting[2]]


def test_active_runs_count_each_run_once_and_a_copy_apart() -> None:
    runs = ActiveRuns([slot("a"), slot("a"), slot("b", namespace="other")])
    assert (list(runs), runs.in_namespace["default"], len(runs)) == (["default/a", "other/b"], 1, 2)
    copy = runs.copy()
    copy.remove("default/a")
    copy.remove("default/a")
    assert (list(copy), copy.in_namespace["default"]) == (["other/b"], 0)
    assert (list(runs), runs.in_namespace["default"]) == (["default/a", "other/b"], 1)
