"""Subscriptions of complete sequences: members wait for each other over rounds, and each is sent once."""

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import ConsumedBy, Match, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import (
    ReplayOutcome,
    ReplayTask,
    Reset,
    Selection,
    Sequences,
    StartPoint,
    Subscription,
)
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store import cursors
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks, waiting
from messagestore_jobs.replay.job import run_replay
from support.long import few
from support.purges import purge
from support.replays import AT, RESOURCE, Suspending, crash, files_replay, replay_document, sent
from support.stores import add_messages, make_store, message, stored

HOUR = timedelta(hours=1)
FROM_BEGINNING = Subscription(start=StartPoint(at="Beginning"))
COMPLETE = Selection(sequences=Sequences(complete_only=True))
OR_OVERDUE = Selection(sequences=Sequences(complete_only=True, or_overdue=True), sequence_timeout=HOUR)


def part(position: int, sequence: str, number: int, size: int | None = None, **more: Any) -> dict[str, Any]:
    return message(position, sequence_id=sequence, sequence_number=number, sequence_size=size, **{"time": AT, **more})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two of three members of p, one without a sequence, both of q in another order than their numbers."""
    rows = [part(1, "p", 3, 3), part(2, "p", 1), message(3), part(4, "q", 2, 2), part(5, "q", 1)]
    return make_store(tmp_path / "store", rows)


def arrive(table: Table, *rows: dict[str, Any]) -> None:
    add_messages(table.uri, rows, next_global_position=rows[-1]["global_position"] + 1)


def subscription(table: Table, folder: Path, select: Selection = COMPLETE, **task: Any) -> RunDocument:
    return files_replay(table, folder, **{"subscription": FROM_BEGINNING, "select": select, **task})


def send(spark: SparkSession, document: RunDocument, control: Any = None) -> ReplayOutcome:
    return run_replay(Run.of(document, spark, Silent()), control)


def later(document: RunDocument, by: timedelta) -> RunDocument:
    return document.model_copy(update={"at": AT + by})


def state(outcome: ReplayOutcome) -> tuple[int, int, int, int | None]:
    """The cursor's position, the messages sent so far, how many wait, and the position of the first of them."""
    at = outcome.cursor
    return at.global_position, at.sent, at.waiting, at.first_waiting


def leftovers(table: Table, folder: Path) -> list[str]:
    store = Path(table.uri.removeprefix("file://"))
    return [path.name for path in [*store.glob("_replays/*"), *folder.glob("_replay-*")]]


def test_members_wait_until_their_sequence_is_complete(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    document, folder = subscription(table, tmp_path / "out"), tmp_path / "out"
    assert (state(send(spark, document)), sent(folder)) == ((5, 2, 2, 1), [4, 5])
    idle = send(spark, later(document, 999 * HOUR))
    assert (state(idle), idle.selection.messages) == ((5, 2, 2, 1), 0)
    arrive(table, part(6, "r", 1, 2), part(7, "p", 2))
    outcome = send(spark, document)
    assert (state(outcome), sent(folder)) == ((7, 5, 1, 6), [4, 5, 1, 2, 7])
    assert (outcome.cursor.missed, outcome.cursor.lag.records) == (0, 0)
    assert leftovers(table, folder) == []


def test_in_order_of_sequences_each_is_sent_by_number(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    document, folder = subscription(table, tmp_path / "out", order="Sequence"), tmp_path / "out"
    send(spark, document)
    arrive(table, part(6, "o", 2, 2), part(7, "o", 1), part(8, "p", 2))
    send(spark, document)
    assert sent(folder) == [5, 4, 7, 6, 2, 8, 1]


def test_overdue_members_are_sent_without_a_new_message_and_later_members_alone(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    document, folder = subscription(table, tmp_path / "out", OR_OVERDUE), tmp_path / "out"
    assert state(send(spark, later(document, HOUR / 2))) == (5, 2, 2, 1)
    assert state(send(spark, later(document, HOUR))) == (5, 4, 0, None)
    assert sent(folder) == [4, 5, 1, 2]
    arrive(table, part(6, "r", 1, 2, time=AT + HOUR), part(7, "p", 2, time=AT + HOUR))
    assert (state(send(spark, later(document, HOUR))), sent(folder)) == ((7, 5, 1, 6), [4, 5, 1, 2, 7])


def test_a_single_replay_sends_overdue_sequences_only_if_asked(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    for select, hours, expected in ((OR_OVERDUE, 1, [1, 2, 4, 5]), (OR_OVERDUE, 0, [4, 5]), (COMPLETE, 99, [4, 5])):
        folder = tmp_path / f"{hours}-{len(expected)}"
        send(spark, later(files_replay(table, folder, select=select), hours * HOUR))
        assert sent(folder) == expected


def test_members_before_the_start_count_for_completeness_and_are_not_sent(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    document = subscription(table, tmp_path / "out", subscription=Subscription(start=StartPoint(global_position=2)))
    send(spark, document)
    arrive(table, part(6, "s", 1, 2), part(7, "p", 2))
    assert (state(send(spark, document)), sent(tmp_path / "out")) == ((7, 4, 1, 6), [4, 5, 2, 7])


def test_other_selectors_choose_which_members_are_sent(spark: SparkSession, tmp_path: Path) -> None:
    rows = [part(1, "p", 1, 2, type="a"), part(2, "p", 2, type="b"), part(3, "q", 1, 2, type="b")]
    table = make_store(tmp_path / "store", rows)
    document = subscription(table, tmp_path / "out", COMPLETE.model_copy(update={"types": ("a",)}))
    assert (state(send(spark, document)), sent(tmp_path / "out")) == ((3, 1, 0, None), [1])
    arrive(table, part(4, "q", 2, type="a"))
    assert (state(send(spark, document)), sent(tmp_path / "out")) == ((4, 2, 0, None), [1, 4])


def test_a_rule_that_waits_for_the_subscription_keeps_all_messages_from_the_first_waiting_member(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    document = subscription(table, tmp_path / "out")
    rule = Rule(name="r", consumed_by=ConsumedBy(replay_jobs=(RESOURCE.name,)))
    arrive(table, part(6, "q2", 1, 1))
    send(spark, document)
    assert purge(spark, table, AT, rules=(rule,), mode="Enforce").purge.purged == 0
    arrive(table, part(7, "p", 2))
    send(spark, document)
    assert purge(spark, table, AT, rules=(rule,), mode="Enforce", run="purge-2").purge.purged == 7


def test_a_waiting_member_that_is_removed_counts_as_missed_or_erased(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    document = subscription(table, tmp_path / "out")
    send(spark, document)
    purge(spark, table, AT, rules=(Rule(name="r", match=Match(message_ids=("m1", "m4"))),), mode="Enforce")
    removal = Rule(name="e", match=Match(message_ids=("m2",)), erase=True)
    purge(spark, table, AT, rules=(removal,), mode="Enforce", run="purge-2")
    arrive(table, part(8, "q3", 1, 1))
    outcome = send(spark, document)
    assert (state(outcome), sent(tmp_path / "out")) == ((8, 3, 0, None), [4, 5, 8])
    # Positions 6 and 7 were never in the store.
    assert (outcome.cursor.missed, outcome.cursor.erased) == (3, 1)


@pytest.mark.long
def test_a_changed_spec_counts_behind_a_round_that_was_paused(
    spark: SparkSession, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 0.1)
    folder = tmp_path / "out"
    assert send(spark, subscription(table, folder), Suspending(1)).complete is False
    arrive(table, part(6, "p", 2))
    marked = subscription(table, folder, mark_headers={"x": "again"})
    assert (state(send(spark, marked)), sent(folder)) == ((6, 5, 0, None), [4, 5, 1, 2, 6])
    assert leftovers(table, folder) == []


def test_a_round_that_has_sent_nothing_is_decided_anew(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    folder = tmp_path / "out"
    crash(lambda: send(spark, subscription(table, folder)), "replay-frozen", "before", 1)
    outcome = send(spark, later(subscription(table, folder, OR_OVERDUE), HOUR))
    assert (state(outcome), sent(folder)) == ((5, 4, 0, None), [1, 2, 4, 5])


def test_a_reset_forgets_waiting_members(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    send(spark, subscription(table, tmp_path / "out"))
    reset = Subscription(start=FROM_BEGINNING.start, reset=Reset(value="Now", to=StartPoint(at="Now")))
    document = subscription(table, tmp_path / "out", subscription=reset)
    assert state(send(spark, document)) == (5, 2, 0, None)
    arrive(table, part(6, "p", 2))
    assert (state(send(spark, document)), sent(tmp_path / "out")) == ((6, 3, 0, None), [4, 5, 6])


OTHER_KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "then all": ({}, {"select": Selection()}),
    "all before": ({"select": Selection()}, {}),
    "another order": ({}, {"order": "Sequence"}),
}


@pytest.mark.parametrize("kind", few(OTHER_KINDS, "all before", "another order"))
def test_a_cursor_of_another_kind_is_refused_until_a_reset(
    spark: SparkSession, tmp_path: Path, table: Table, kind: str
) -> None:
    first, then = OTHER_KINDS[kind]
    send(spark, subscription(table, tmp_path / "out", **first))
    with pytest.raises(RunFailedError, match="the cursor, at 5") as refused:
        send(spark, subscription(table, tmp_path / "out", **then))
    assert refused.value.reason == "CursorOfAnother"
    reset = Subscription(start=FROM_BEGINNING.start, reset=Reset(value="6", to=StartPoint(global_position=6)))
    assert state(send(spark, subscription(table, tmp_path / "out", subscription=reset, **then)))[0] == 5


def test_too_many_waiting_members_stop_a_subscription_unless_it_sends_overdue_ones(
    spark: SparkSession, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_WAITING", 1)
    with pytest.raises(RunFailedError, match="orOverdue") as refused:
        send(spark, subscription(table, tmp_path / "out"))
    assert refused.value.reason == "SequencesWait"
    document = later(subscription(table, tmp_path / "out", OR_OVERDUE), HOUR)
    assert (state(send(spark, document)), sent(tmp_path / "out")) == ((5, 4, 0, None), [1, 2, 4, 5])
    assert cursors.MOST_WAITING > 1


def test_complete_sequences_are_sent_into_a_stream(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    to = Table(uri=f"file://{tmp_path}/target", owner=Owner(namespace="default", name="target"))
    ingest = IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere"))
    destination = StreamDestination(table=to, ingest=ingest)
    task = ReplayTask(job_id="job-1", subscription=FROM_BEGINNING, select=COMPLETE, destination=destination)
    document = replay_document(table, task)
    send(spark, document)
    arrive(table, part(6, "p", 2))
    assert state(send(spark, document)) == (6, 5, 0, None)
    assert [row["message_id"] for row in stored(to.uri)] == ["m4", "m5", "m1", "m2", "m6"]


WRITES = (
    *("cursor", "replay-selected", "replay-placed", "replay-frozen", "replay-seal", "replay-object"),
    "replay-ending",
    "replay-manifest",
)


@pytest.mark.parametrize("kind", few(WRITES, "replay-frozen"))
def test_killed_before_or_after_any_write_each_member_is_sent_once(
    spark: SparkSession, tmp_path: Path, table: Table, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 0.1)
    document, folder = subscription(table, tmp_path / "out", order="Sequence"), tmp_path / "out"
    for moment in ("before", "after"):
        for at in (1, 2):
            crash(lambda: send(spark, document), kind, moment, at)
    arrive(table, part(6, "p", 2), part(7, "r", 1, 2))
    for moment in ("before", "after"):
        crash(lambda: send(spark, document), kind, moment, 1)
    assert state(send(spark, document)) == (7, 5, 1, 7)
    assert Counter(sent(folder)) == Counter([1, 2, 4, 5, 6])
    (path,) = Path(table.uri.removeprefix("file://")).glob("_cursors/*/cursor.json")
    assert json.loads(path.read_text())["sequences"]["waiting"]["positions"] == [7]
    assert leftovers(table, folder) == []
