"""Subscriptions of complete sequences to topics of a real broker: what counts is how many transactions have sent."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import KafkaDestination, TopicFrom
from messagestore_core.contract.purge import Match, Rule
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
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore, observing
from messagestore_core.store.handle import Store
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks, kafka, newest, round_by_round
from messagestore_jobs.replay.job import run_replay
from support.external_writes import unheard
from support.kafkabroker import Broker
from support.kafkatopics import Topics
from support.long import few
from support.purges import break_off, erase, purge
from support.replays import AT, ROUND_CRASHES, Meanwhile, replay_document
from support.stores import add_messages, make_store, message

BEGINNING = StartPoint(at="Beginning")


def part(position: int, sequence: str, number: int, size: int | None = None, **more: Any) -> dict[str, Any]:
    return message(position, sequence_id=sequence, sequence_number=number, sequence_size=size, **more)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Two of three members of p, and all five of q, the last first; a transaction has two records."""
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 2)
    monkeypatch.setattr(newest, "LOOK_WHOLE_SECONDS", 0)
    of_q = [part(8 - n, "q", n, 5) for n in range(5, 0, -1)]
    return make_store(tmp_path / "store", [part(1, "p", 2, 3), part(2, "p", 1), *of_q])


def arrive(table: Table, *rows: dict[str, Any]) -> None:
    add_messages(table.uri, rows, next_global_position=rows[-1]["global_position"] + 1)


def complete_p(table: Table) -> None:
    arrive(table, part(8, "r", 1, 1), part(9, "p", 3))


def to_topic(
    table: Table, broker: Broker, topic: str, reset: Reset | None = None, run: str = "replay-1", **task: Any
) -> RunDocument:
    given = {
        "job_id": "job-1",
        "subscription": Subscription(start=BEGINNING, reset=reset),
        "select": Selection(sequences=Sequences(complete_only=True)),
        "order": "Sequence",
        "destination": KafkaDestination(cluster=broker.cluster(), topic=topic),
    }
    return replay_document(table, ReplayTask(**{**given, **task}), run)


def send(spark: SparkSession, document: RunDocument, control: Meanwhile | None = None) -> ReplayOutcome:
    return run_replay(Run.of(document, spark, Silent()), control)


def positions(topics: Topics, topic: str) -> list[int]:
    return [json.loads(record.value or b"")["globalPosition"] for record in topics.read(topic)]


def reached(outcome: ReplayOutcome) -> tuple[int, int, int]:
    return outcome.cursor.global_position, outcome.cursor.sent, outcome.cursor.waiting


OF_Q, OF_P_AND_R = [7, 6, 5, 4, 3], [2, 1, 9, 8]
"""What is sent, in order, if q is sent before p is complete."""


# The next test breaks off after each write.
@pytest.mark.parametrize(("name", "moment", "nth"), few(ROUND_CRASHES))
def test_a_subscription_that_is_killed_between_two_writes_sends_each_member_once(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, name: str, moment: str, nth: int
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic)
    break_off(lambda: send(spark, document), name, moment, nth)
    complete_p(table)
    break_off(lambda: send(spark, document), name, moment, nth)
    assert reached(send(spark, document)) == (9, 9, 0)
    sent = positions(topics, topic)
    # What was killed before its round began sends all in one round.
    assert [*(at for at in sent if at in OF_Q), *(at for at in sent if at not in OF_Q)] == [*OF_Q, *OF_P_AND_R]


@pytest.mark.long
def test_a_subscription_sends_each_member_once_whichever_answer_is_lost(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic)
    send(spark, document)
    complete_p(table)
    _, lost = unheard(lambda: send(spark, document))
    assert lost >= {"cursor", "replay-transaction", "replay-ended", "replay-forgotten"}
    assert positions(topics, topic) == [*OF_Q, *OF_P_AND_R]


@pytest.mark.long
def test_a_store_laid_back_from_a_copy_is_refused_until_a_reset(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, tmp_path: Path
) -> None:
    topic = topics.make()
    send(spark, to_topic(table, broker, topic))
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    complete_p(table)
    send(spark, to_topic(table, broker, topic))
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "copy").rename(tmp_path / "store")
    arrive(table, part(8, "s", 1, 1))
    with pytest.raises(RunFailedError, match="has been sent 9 records, the cursor says 5") as refused:
        send(spark, to_topic(table, broker, topic))
    assert refused.value.reason == "CursorAhead"
    reset = Reset(value="8", to=StartPoint(global_position=8))
    assert reached(send(spark, to_topic(table, broker, topic, reset, "replay-2"))) == (8, 6, 0)
    assert positions(topics, topic) == [*OF_Q, *OF_P_AND_R, 8]


def test_a_subscription_to_sequences_that_lost_its_cursor_begins_again(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, tmp_path: Path
) -> None:
    topic = topics.make()
    send(spark, to_topic(table, broker, topic))
    shutil.rmtree(tmp_path / "store" / "_cursors")
    send(spark, to_topic(table, broker, topic, run="replay-2"))
    assert positions(topics, topic) == [*OF_Q, *OF_Q]


ALL_THE_TIME = Subscription(start=BEGINNING, continuous=True)


def audited(table: Table) -> list[int]:
    return [row["counts"]["replayed"] for row in read_audit(Store(table.uri)) if row["action"] == "Replay"]


@pytest.mark.parametrize(("name", "moment", "nth"), few(ROUND_CRASHES))
def test_a_continuous_run_sends_each_member_once_though_it_is_killed(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, name: str, moment: str, nth: int
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic, subscription=ALL_THE_TIME)
    break_off(lambda: send(spark, document, Meanwhile()), name, moment, nth)
    complete_p(table)
    break_off(lambda: send(spark, document, Meanwhile()), name, moment, nth)
    sent = send(spark, document, Meanwhile(lambda: arrive(table, part(10, "u", 1, 1))))
    assert reached(sent) == (10, 10, 0)
    assert sorted(positions(topics, topic)) == list(range(1, 11))
    assert sum(audited(table)) == 10


def test_a_continuous_run_sends_overdue_members_and_later_ones_alone(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, decade, clock = topics.make(), timedelta(days=3650), [AT]
    monkeypatch.setattr(round_by_round, "now", lambda _: clock[0])
    or_overdue = Selection(sequences=Sequences(complete_only=True, or_overdue=True), sequence_timeout=decade)
    document = to_topic(table, broker, topic, subscription=ALL_THE_TIME, select=or_overdue)
    before = list[list[int]]()

    def soon_overdue() -> None:
        arrive(table, part(8, "s", 1, 3, time=AT + timedelta(minutes=1) - decade))

    def time_passes() -> None:
        before.append(positions(topics, topic))
        clock[0] += timedelta(minutes=2)

    control = Meanwhile(soon_overdue, time_passes, lambda: arrive(table, part(9, "s", 2)))
    outcome = send(spark, document, control)
    assert before == [OF_Q]
    assert (reached(outcome), positions(topics, topic)) == ((9, 7, 2), [*OF_Q, 8, 9])
    assert audited(table) == [7]


def bury(table: Table, *positions: int) -> None:
    """Give messages a tombstone, as a purge does before it removes them."""
    add_tombstones(HeldStore(table.uri), [(f"m{n}", n) for n in positions], AT, f"purge-{positions}")


def forget(spark: SparkSession, table: Table, position: int) -> None:
    """Purge a message with its tombstone, and erase it."""
    rule = Rule(name="e", match=Match(message_ids=(f"m{position}",)), erase=True)
    purge(spark, table, AT, rules=(rule,), mode="Enforce", run=f"purge-{position}", erase_within=timedelta(0))
    assert erase(spark, table, AT, run=f"erase-{position}").erased_at == AT


def test_a_continuous_run_goes_on_beside_an_erasure_and_sends_no_sequence_that_lost_a_member(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic, seen = topics.make(), list[list[int]]()

    def tombstones() -> int:
        return Store(table.uri).table("tombstones").version()

    def erased() -> None:
        # A waiting member; the round that completes its sequence comes while an erasure has removed all earlier files.
        bury(table, 1)
        seen.append([control.outcomes[-1].tombstones, tombstones() - 1])
        forget(spark, table, 1)
        complete_p(table)

    def looked() -> None:
        seen.append([control.outcomes[-1].tombstones, tombstones()])

    control = Meanwhile(erased, looked, lambda: None)
    outcome = send(spark, to_topic(table, broker, topic, subscription=ALL_THE_TIME), control)
    assert [known == now for known, now in seen] == [True, True]
    assert positions(topics, topic) == [*OF_Q, 8]
    assert (reached(outcome), outcome.cursor.erased, outcome.cursor.missed) == ((9, 6, 2), 1, 0)


@pytest.mark.parametrize("transactions", few([0, 1], 0))
def test_a_member_erased_before_any_of_its_round_went_leaves_the_others_waiting(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, transactions: int
) -> None:
    topic, begun = topics.make(), 0

    def observer(name: str, moment: str) -> None:
        nonlocal begun
        begun += (name, moment) == ("replay-transaction", "before")
        if (name, moment, begun) == ("replay-transaction", "before", transactions + 1):
            bury(table, 5)

    with observing(observer):
        outcome = send(spark, to_topic(table, broker, topic, subscription=ALL_THE_TIME), Meanwhile())
    # Those of a sequence of which some went go alone.
    assert positions(topics, topic) == [[], [7, 6, 4, 3]][transactions]
    assert (reached(outcome), outcome.cursor.erased) == ([(7, 0, 6), (7, 4, 2)][transactions], 1)


def test_an_erasure_need_not_wait_for_the_end_of_a_long_round(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic, control, told_before = topics.make(), Meanwhile(rate=2.0), list[int]()

    def observer(*at: str) -> None:
        if at == ("replay-transaction", "after") and not told_before:
            forget(spark, table, 5)
            told_before.append(len(control.outcomes))

    with observing(observer):
        send(spark, to_topic(table, broker, topic, subscription=ALL_THE_TIME), control)
    assert positions(topics, topic) == [7, 6, 4, 3]
    told = control.outcomes[told_before[0]]
    assert (told.tombstones, told.progress.replayed) == (Store(table.uri).table("tombstones").version(), 3)


def test_a_round_whose_files_an_erasure_removes_is_read_anew(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, known = topics.make(), round_by_round.SubscriptionRun.round_run
    vanished = False

    def vanishing(*given: Any) -> Any:
        nonlocal vanished
        run = known(*given)
        if not vanished and given[1].round is not None and given[1].round.number:
            vanished = True
            forget(spark, table, 1)
        return run

    monkeypatch.setattr(round_by_round.SubscriptionRun, "round_run", vanishing)
    assert reached(send(spark, to_topic(table, broker, topic, subscription=ALL_THE_TIME), Meanwhile())) == (7, 5, 1)
    assert (vanished, positions(topics, topic)) == (True, OF_Q)


def test_what_an_erasure_takes_for_left_half_written_is_staged_again(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, save, removed = topics.make(), chunks._save, list[Path]()

    def saved(*given: Any) -> None:
        save(*given)
        if not removed:
            removed.extend(Path(given[-1].removeprefix("file://")).glob("part-*"))
            for one in removed:
                one.unlink()

    monkeypatch.setattr(chunks, "_save", saved)
    send(spark, to_topic(table, broker, topic, subscription=ALL_THE_TIME), Meanwhile())
    assert (len(removed) > 0, positions(topics, topic)) == (True, OF_Q)


def test_members_go_to_the_topics_that_they_name_and_none_past_a_topic_that_is_missing(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    a, late = topics.make(), topics.name()
    names = [a, late, a]
    arrive(table, *(part(7 + n, "t", n, 3, headers={"topic": names[n - 1]}) for n in (1, 2, 3)))
    to = KafkaDestination(cluster=broker.cluster(), topic_from=TopicFrom(header="topic", pattern="topic-.*"))
    named = Selection(sequences=Sequences(complete_only=True), where="headers['topic'] IS NOT NULL")
    document = to_topic(table, broker, "", destination=to, select=named)
    for _ in range(2):
        with pytest.raises(RunFailedError, match="all that goes before global position 9 is sent") as stopped:
            send(spark, document)
        assert (stopped.value.reason, positions(topics, a)) == ("TopicMissing", [8])
    topics.make(late)
    assert reached(send(spark, document)) == (10, 3, 0)
    assert (positions(topics, a), positions(topics, late)) == ([8, 10], [9])
