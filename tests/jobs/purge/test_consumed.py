"""Rules that wait for subscriptions: what all of them have passed goes, the rest stays, and the preview counts it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import ConsumedBy, Hold, Match, Preview, PurgeTask, Rule, Scrub, Unsent
from messagestore_core.contract.replay import StartPoint, Subscription
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.consumers import Group, Slot
from messagestore_core.store.cursors import Cursor, CursorObject
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import store_id
from messagestore_core.store.handle import Store
from messagestore_core.store.purges import find_plans
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from support.purges import purge
from support.replays import files_replay
from support.stores import START, add_messages, make_store, message, positions

DAY = timedelta(days=1)
NOW = START + 20 * DAY
BEGINNING = Subscription(start=StartPoint(at="Beginning"))
CONSUMED = Rule(name="consumed", consumed_by=ConsumedBy(replay_jobs=("relay",)))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Six messages, one a day, of two streams."""
    rows = [message(n, stream_name=f"c{n % 2}-1", inserted_at=START + n * DAY, payload=b"x" * 10) for n in range(1, 7)]
    return make_store(tmp_path / "store", rows)


def at(table: Table, position: int, name: str = "relay", namespace: str = "default", store: str | None = None) -> None:
    """Move a subscription's cursor."""
    held = HeldStore.of(table, Storage())
    own = store_id(held)
    objects = CursorObject(held, namespace, name, own)
    objects.read()
    which = f"{namespace}/{name}"
    objects.write(Cursor(store=store or own, subscription=which, global_position=position, run="r", job="j"))


def previewed(spark: SparkSession, table: Table, *rules: Rule, **task: Any) -> Preview:
    return purge(spark, table, NOW, rules=rules, mode="DryRun", **task).preview


def states(preview: Preview) -> dict[str, tuple[int | None, int, int]]:
    """Cursor, waiting and missed by subscription."""
    return {one.name: (one.global_position, one.waiting, one.missed) for one in preview.subscriptions}


def test_a_purge_removes_what_a_subscription_has_sent_and_the_rest_after_its_next_round(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    relay = files_replay(table, tmp_path / "out", subscription=BEGINNING)
    name = relay.resource.name
    rule = consumed_by(name)
    first = purge(spark, table, NOW, rules=(rule,))
    assert (first.purge.purged, states(first.preview)) == (0, {name: (None, 6, 0)})
    run_replay(Run.of(relay, spark, Silent()), None)
    add_messages(table.uri, [message(7), message(8)])
    second = purge(spark, table, NOW, rules=(rule,), run="purge-2")
    assert (second.purge.purged, states(second.preview)) == (6, {name: (6, 2, 0)})
    assert positions(table.uri) == [7, 8]
    run_replay(Run.of(relay, spark, Silent()), None)
    third = purge(spark, table, NOW, rules=(rule,), run="purge-3")
    assert (third.purge.purged, states(third.preview), positions(table.uri)) == (2, {name: (8, 0, 0)}, [])
    noted = [row["rules"] for row in read_audit(Store(table.uri)) if row["action"] == "Purge"]
    assert [f'"cursors":{{"{name}":{position}}}' in row for row, position in zip(noted, (6, 8), strict=True)] == [
        True
    ] * 2


def consumed_by(*names: str, **conditions: Any) -> Rule:
    return Rule(name="r", consumed_by=ConsumedBy(replay_jobs=names), **conditions)


RULES: list[tuple[Rule, int, dict[str, tuple[int | None, int, int]]]] = [
    (consumed_by("relay", "slow"), 2, {"relay": (4, 2, 0), "slow": (2, 4, 0)}),
    (consumed_by("relay", "nobody"), 0, {"relay": (4, 2, 0), "nobody": (None, 6, 0)}),
    (consumed_by("relay", max_age=14 * DAY), 4, {"relay": (4, 1, 0), "slow": (2, 0, 2)}),
    (consumed_by("relay", max_messages_per_stream=1), 4, {"relay": (4, 0, 0), "slow": (2, 0, 2)}),
    # To fit, five would have to go; four may.
    (consumed_by("relay", max_bytes=15), 4, {"relay": (4, 1, 0), "slow": (2, 0, 2)}),
    (consumed_by("relay", match=Match(categories=("c0",))), 2, {"relay": (4, 1, 0), "slow": (2, 0, 1)}),
]


@pytest.mark.parametrize(("rule", "goes", "subscriptions"), RULES)
def test_a_rule_selects_up_to_the_last_of_its_subscriptions(
    spark: SparkSession, table: Table, rule: Rule, goes: int, subscriptions: dict[str, tuple[int | None, int, int]]
) -> None:
    at(table, 4)
    at(table, 2, "slow")
    preview = previewed(spark, table, rule)
    assert (preview.messages, states(preview)) == (goes, subscriptions)


def test_cursors_of_another_store_and_beyond_the_head_count_as_none(spark: SparkSession, table: Table) -> None:
    at(table, 6, "before", store="another")
    at(table, 7, "ahead")
    at(table, 6, "theirs", namespace="elsewhere")
    rules = [Rule(name=name, consumed_by=ConsumedBy(replay_jobs=(name,))) for name in ("before", "ahead", "theirs")]
    preview = previewed(spark, table, *rules)
    assert (preview.messages, states(preview)) == (0, dict.fromkeys(("before", "ahead", "theirs"), (None, 6, 0)))


def test_messages_of_another_rule_or_under_a_hold_do_not_count_as_waiting(spark: SparkSession, table: Table) -> None:
    at(table, 1)
    old = Rule(name="old", match=Match(message_ids=("m2", "m3")))
    hold = Hold(name="h", match=Match(message_ids=("m6", "m1")))
    preview = previewed(spark, table, CONSUMED, old, holds=(hold,))
    assert (preview.messages, preview.held, states(preview)) == (2, 1, {"relay": (1, 2, 2)})


def test_a_preview_says_since_when_the_first_message_waits_for_a_subscription(
    spark: SparkSession, table: Table
) -> None:
    at(table, 2)
    (alone,) = previewed(spark, table, CONSUMED).subscriptions
    (aged,) = previewed(spark, table, CONSUMED.model_copy(update={"max_age": 10 * DAY})).subscriptions
    assert (alone.waiting_since, aged.waiting_since) == (START + 3 * DAY, START + 13 * DAY)


@pytest.mark.parametrize("approval", [False, True], ids=["whole days", "row by row"])
def test_a_preview_says_what_a_subscription_would_miss(spark: SparkSession, table: Table, approval: bool) -> None:
    at(table, 3, "elsewhere-too", namespace="other")
    at(table, 5, "sent")
    old = Rule(name="old", max_age=14 * DAY)
    found = previewed(spark, table, old, approval_required=approval)
    assert found.subscriptions == (Unsent(name="other/elsewhere-too", global_position=3, missed=2),)


def test_an_erasure_and_a_scrub_let_nobody_miss_anything(spark: SparkSession, table: Table) -> None:
    at(table, 3)
    erasing = Rule(name="all", max_age=DAY, erase=True)
    scrubbing = {"action": "Scrub", "scrub": Scrub(headers=("secret",))}
    assert previewed(spark, table, erasing).subscriptions == ()
    assert previewed(spark, table, Rule(name="all", max_age=DAY), **scrubbing).subscriptions == ()


def test_an_approved_preview_removes_what_it_froze_wherever_the_cursor_is(spark: SparkSession, table: Table) -> None:
    at(table, 4)
    task = {"rules": (CONSUMED,), "approval_required": True}
    waiting = purge(spark, table, NOW, **task)
    (plan,) = find_plans(Store(table.uri))
    assert (waiting.awaiting_approval, states(plan.preview)) == (True, {"relay": (4, 2, 0)})
    at(table, 6)
    done = purge(spark, table, NOW, run="purge-2", approved_preview=waiting.preview.id, **task)
    assert (done.purge.purged, positions(table.uri)) == (4, [5, 6])


def test_a_rule_without_consumers_has_the_document_of_an_earlier_release() -> None:
    task = PurgeTask(rules=(Rule(name="r", max_age=DAY),))
    assert "consumed_by" not in task.model_dump(mode="json")["rules"][0]


def consumed(table: Table, slots: list[int | None], name: str = "billing", **group: Any) -> Path:
    """The state of consumers in the store, with the cursors of their slots; None: a slot without an object."""
    folder = Path(table.uri.removeprefix("file://")) / "_consumers" / name
    folder.mkdir(parents=True)
    given = {"store": store_id(Store(table.uri)), "generation": "g", "slots": len(slots), "start": 0, **group}
    (folder / "consumer.json").write_text(Group(**given).model_dump_json(by_alias=True))
    for number, cursor in enumerate(slots):
        if cursor is not None:
            slot = Slot(generation="g", global_position=cursor).model_dump_json(by_alias=True)
            (folder / f"slot-{number:04}.json").write_text(slot)
    return folder


BILLED = Rule(name="billed", consumed_by=ConsumedBy(consumers=("billing",)))


def test_a_rule_selects_up_to_the_smallest_cursor_of_a_consumers_slots(spark: SparkSession, table: Table) -> None:
    consumed(table, [6, 3, 5])
    consumed(table, [1], "slow")
    preview = previewed(spark, table, BILLED)
    assert (preview.messages, states(preview)) == (3, {"consumer:billing": (3, 3, 0), "consumer:slow": (1, 0, 2)})
    both = Rule(name="r", consumed_by=ConsumedBy(replay_jobs=("relay",), consumers=("billing",)))
    at(table, 2)
    assert previewed(spark, table, both).messages == 2
    assert purge(spark, table, NOW, rules=(BILLED,)).purge.purged == 3
    assert positions(table.uri) == [4, 5, 6]


STRANGE: dict[str, tuple[str, bytes]] = {
    "no group": ("consumer.json", b"{}"),
    "no slot": ("slot-0000.json", b"[" * 1000),
    "negative": ("slot-0001.json", b'{"generation": "g", "globalPosition": -1}'),
    "long": ("slot-0001.json", b" " * (1 << 17)),
    "many slots": ("consumer.json", b'{"store": "s", "generation": "g", "slots": 9999999, "start": 9}'),
}


def test_malformed_consumer_state_counts_as_nothing_handled_and_fails_no_purge(
    spark: SparkSession, table: Table
) -> None:
    for number, (name, content) in enumerate(STRANGE.values()):
        (consumed(table, [6, 6], f"strange-{number}") / name).write_bytes(content)
    consumed(table, [6, None], "absent")
    consumed(table, [7, 7], "ahead")
    consumed(table, [6], "another", store="another")
    consumed(table, [6], "again", generation="h")
    (Path(table.uri.removeprefix("file://")) / "_consumers" / "a file").write_text("x")
    consumed(table, [4], "billing")
    names = [path.name for path in (Path(table.uri.removeprefix("file://")) / "_consumers").iterdir() if path.is_dir()]
    rules = [Rule(name=name, consumed_by=ConsumedBy(consumers=(name,))) for name in names if name != "billing"]
    preview = previewed(spark, table, *rules)
    assert preview.messages == 0
    passed = {one.name: one.global_position for one in preview.subscriptions}
    assert {name for name, cursor in passed.items() if cursor is None} == {
        *(f"consumer:strange-{number}" for number in range(len(STRANGE))),
        "consumer:ahead",
        "consumer:another",
    }
    assert (passed["consumer:absent"], passed["consumer:again"]) == (0, 0)
    assert previewed(spark, table, BILLED).messages == 4
