"""A purge that waits until its preview is approved."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore.errors import ArgumentError
from messagestore.reader import Reader
from messagestore_core.contract.purge import Hold, Match, Rule
from messagestore_core.store.audit import read_audit
from messagestore_core.store.handle import Store
from support.purges import POLICY, files_below, purge
from support.stores import START, add_messages, change_rows, make_store, message, positions, remove_rows

DAY = timedelta(days=1)
NOW = START + 3 * DAY
ASKED: dict[str, Any] = {
    "rules": (Rule(name="received", statuses=("RECEIVED",)),),
    "approval_required": True,
}


def test_only_what_was_approved_goes(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(n) for n in range(6)])
    asked = purge(spark, table, NOW, **ASKED)
    assert asked.awaiting_approval
    assert asked.purge is None
    assert positions(table.uri) == [0, 1, 2, 3, 4, 5]

    # Meanwhile one more message arrives, one changes status, and a hold is set.
    add_messages(table.uri, [message(6)])
    change_rows(table.uri, "messages", {"status": "'COMPLETED'"}, "global_position = 1")
    again = purge(spark, table, NOW + DAY, run="purge-2", **ASKED)
    assert again.awaiting_approval
    assert again.preview == asked.preview

    wrong = purge(spark, table, NOW + DAY, run="purge-3", approved_preview="another", **ASKED)
    assert wrong.awaiting_approval

    hold = Hold(name="late", match=Match(message_ids=("m2",)))
    approved = f"another {asked.preview.id}"
    done = purge(spark, table, NOW + DAY, run="purge-4", approved_preview=approved, holds=(hold,), **ASKED)
    assert not done.awaiting_approval
    assert (done.purge.purged, done.purge.held) == (4, 1)
    assert done.preview == asked.preview
    assert positions(table.uri) == [1, 2, 6]
    assert not [name for name in files_below(table.uri) if name.startswith("_purges/")]


def test_messages_of_a_waiting_preview_are_listed_by_rule_a_page_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(n) for n in range(6)])
    odd = Rule(name="odd", match=Match(message_ids=("m1", "m3", "m5")))
    asked = {**ASKED, "rules": (*ASKED["rules"], odd), "holds": (Hold(name="h", match=Match(message_ids=("m3",))),)}
    assert purge(spark, table, NOW, **asked).preview.by_rule == {"received": 5, "odd": 2}
    change_rows(table.uri, "messages", {"status": "'COMPLETED'"}, "global_position = 1")
    remove_rows(table.uri, "messages", "global_position = 2")

    def listed(*given: Any) -> list[tuple[str | None, tuple[str, ...], str | None]]:
        with Reader(table.uri) as reader:
            return [(one.message_id, one.rules, one.stays) for one in reader.taken(POLICY.name, *given)]

    both = ("received", "odd")
    first = [("m0", both[:1], None), ("m1", both, "it is COMPLETED now"), (None, both[:1], "it is gone")]
    rest = [("m4", both[:1], None), ("m5", both, None)]
    assert listed(None, 0, 3) == first
    assert listed(None, 3, 3) == rest
    assert listed("odd", 2) == rest[1:]
    with pytest.raises(ArgumentError, match='no rule "even"; it has received, odd'):
        listed("even")


def test_a_preview_of_other_rules_is_dropped(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(n) for n in range(2)])
    asked = purge(spark, table, NOW, **ASKED)
    other = {**ASKED, "rules": (Rule(name="one", match=Match(message_ids=("m1",))),)}
    changed = purge(spark, table, NOW, run="purge-2", approved_preview=asked.preview.id, **other)
    assert changed.awaiting_approval
    assert changed.preview.by_rule == {"one": 1}
    assert positions(table.uri) == [0, 1]
    approved = {"approved_preview": changed.preview.id, "approved_by": "fieldManager:kubectl-annotate"}
    done = purge(spark, table, NOW, run="purge-3", **approved, **other)
    assert done.purge is not None
    assert positions(table.uri) == [0]
    told = sorted((row["run"], row["action"], row["requested_by"]) for row in read_audit(Store(table.uri)))
    assert told == [
        ("purge-1", "Preview", None),
        ("purge-2", "Preview", None),
        ("purge-3", "Approve", "fieldManager:kubectl-annotate"),
        ("purge-3", "Purge", None),
    ]
    counts = {row["action"]: row["counts"] for row in read_audit(Store(table.uri))}
    assert (counts["Purge"]["messagesBefore"], counts["Purge"]["messagesAfter"]) == (2, 1)


def test_a_dry_run_s_preview_can_be_approved(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(n) for n in range(2)])
    dry = purge(spark, table, NOW, mode="DryRun", **ASKED)
    done = purge(spark, table, NOW + DAY, approved_preview=dry.preview.id, **ASKED)
    assert not done.awaiting_approval
    assert positions(table.uri) == []
