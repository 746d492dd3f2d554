"""Routes to topics of a real broker: each has a group of its own, which counts for that destination alone."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import KafkaDestination, TopicFrom
from messagestore_core.contract.replay import (
    ReplayOutcome,
    ReplayTask,
    Reset,
    Route,
    RoutesDestination,
    Selection,
    StartPoint,
    Subscription,
)
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.fence import HeldStore, observing
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import CURSORS, REFUSED
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.replay import kafka
from support.external_writes import UnheardError, unheard
from support.kafkabroker import Broker
from support.kafkatopics import Record, Topics
from support.long import few
from support.replays import AT, Crash, crash, crash_at, replay_document
from support.stores import add_messages, make_store, message

BEGINNING = StartPoint(at="Beginning")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Ten messages, the odd ones of eu; a transaction has four records."""
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 4)
    return make_store(tmp_path / "store", messages(*range(1, 11)))


def messages(*positions: int) -> list[dict[str, Any]]:
    return [message(n, headers={"region": "eu" if n % 2 else "us"}) for n in positions]


def routes(table: Table, broker: Broker, eu: str, **others: str) -> RunDocument:
    """Those of eu to a topic; to each other one all."""
    first = Route(name="eu", where="headers['region'] = 'eu'", destination=to(broker, eu))
    rest = [Route(name=name, start=BEGINNING, destination=to(broker, topic)) for name, topic in others.items()]
    destination = RoutesDestination(routes=(first, *rest))
    subscription = Subscription(start=BEGINNING)
    return replay_document(table, ReplayTask(job_id="job-1", subscription=subscription, destination=destination))


def to(broker: Broker, topic: str) -> KafkaDestination:
    return KafkaDestination(cluster=broker.cluster(), topic=topic)


def send(spark: SparkSession, document: RunDocument) -> dict[str, tuple[int, str]]:
    """The cursor of each destination after a run, and the reason why it failed."""
    report = execute(document, lambda: spark, Silent(), 0, lambda: AT)
    assert isinstance(report.outcome, ReplayOutcome), report.error
    return {
        one.name: (one.cursor.global_position if one.cursor else -1, one.error.reason if one.error else "")
        for one in report.outcome.destinations
    }


def positions(records: list[Record]) -> list[int]:
    return [json.loads(record.value or b"")["globalPosition"] for record in records]


def killed_after(spark: SparkSession, document: RunDocument, transactions: int) -> None:
    """A run that is killed after so many transactions, of all destinations."""
    with pytest.raises(Crash), observing(crash_at("replay-transaction", "after", transactions)):
        send(spark, document)


def test_each_topic_gets_its_messages_once_though_the_other_fails(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    eu, audit = topics.make(), topics.make()
    document = routes(table, broker, eu, audit=audit)
    # Within the second destination's transactions.
    killed_after(spark, document, transactions=3)
    add_messages(table.uri, messages(11), next_global_position=12)
    assert send(spark, document) == {"eu": (11, ""), "audit": (11, "")}
    assert (positions(topics.read(eu)), positions(topics.read(audit))) == ([1, 3, 5, 7, 9, 11], list(range(1, 12)))
    away = routes(table, broker, "there-is-no-such-topic", audit=audit)
    add_messages(table.uri, messages(12), next_global_position=13)
    assert send(spark, away) == {"eu": (11, "TopicMissing"), "audit": (12, "")}
    assert positions(topics.read(audit)) == list(range(1, 13))
    # One that is removed and added again begins at its start, whatever its group says.
    assert send(spark, routes(table, broker, eu)) == {"eu": (12, "")}
    assert send(spark, document) == {"eu": (12, ""), "audit": (12, "")}
    assert positions(topics.read(audit)) == [*range(1, 13), *range(1, 13)]


def named(*topics: str | None, first: int = 1) -> list[dict[str, Any]]:
    """Messages that name their topics in a header and as their return address; None: they name none."""
    return [
        message(first + n, headers={} if topic is None else {"topic": topic}, reply_to=topic)
        for n, topic in enumerate(topics)
    ]


def by_name(broker: Broker, pattern: str = "topic-.*", topic_from: TopicFrom | None = None) -> KafkaDestination:
    named_by = topic_from or TopicFrom(header="topic", pattern=pattern)
    return KafkaDestination(cluster=broker.cluster(), topic_from=named_by, key="messageId")


def with_otherwise(table: Table, broker: Broker, rest: str, reset: Reset | None = None, **route: Any) -> RunDocument:
    """Large ones to the topics that they name; what none takes, and small ones, to one topic."""
    large = Route(**{"name": "named", "where": "global_position > 1", "destination": by_name(broker), **route})
    others = Route(name="rest", otherwise=True, destination=to(broker, rest))
    subscription = Subscription(start=BEGINNING, reset=reset)
    destination = RoutesDestination(routes=(large, others))
    return replay_document(table, ReplayTask(job_id="job-1", subscription=subscription, destination=destination))


def test_messages_go_to_the_topics_that_they_name_and_to_otherwise_if_none_takes_them(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 3)
    a, b, rest, missing = topics.make(), topics.make(partitions=2), topics.make(), topics.name()
    rows = named(a, b, missing, a, None, "other", b, f"{missing}!", a)
    table = make_store(tmp_path / "store", rows)
    document = with_otherwise(table, broker, rest)
    for transactions in (1, 2):
        killed_after(spark, document, transactions)
    assert send(spark, document) == {"named": (9, ""), "rest": (9, "")}
    assert (positions(topics.read(a)), sorted(positions(topics.read(b)))) == ([4, 9], [2, 7])
    assert positions(topics.read(rest)) == [1, 3, 5, 6, 8]
    assert {record.key for record in topics.read(a)} == {b"m4", b"m9"}
    assert dict(topics.read(a)[0].headers) == {"topic": a.encode()}
    assert not topics.exists(missing)
    # A topic that is there by now gets what comes; what was left to the other stays there.
    topics.make(missing)
    add_messages(table.uri, named(missing, "other", first=10), next_global_position=12)
    assert send(spark, document) == {"named": (11, ""), "rest": (11, "")}
    assert (positions(topics.read(missing)), positions(topics.read(rest))[5:]) == ([10], [11])
    # Sent again, each goes where its topic says now, or where it went before.
    back = with_otherwise(table, broker, rest, reset=Reset(value="3", to=StartPoint(global_position=3)))
    assert send(spark, back) == {"named": (11, ""), "rest": (11, "")}
    assert positions(topics.read(missing)) == [10, 3, 10]
    assert positions(topics.read(rest))[6:] == [3, 5, 6, 8, 11]
    # One that names none goes nowhere once the other has passed it.
    before = send(spark, with_otherwise(table, broker, rest, rests=True))
    late = with_otherwise(table, broker, rest, name="late", destination=by_name(broker, pattern="no-topic"))
    assert (before, send(spark, late)) == ({"rest": (11, "")}, {"late": (0, "TopicRefused"), "rest": (11, "")})


def test_without_otherwise_a_destination_stops_before_a_message_whose_topic_takes_none(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    a, all_of_them, missing = topics.make(), topics.make(), topics.name()
    table = make_store(tmp_path / "store", named(a, a, missing, a, None, a))
    all_else = Route(name="all", destination=to(broker, all_of_them))
    destination = RoutesDestination(routes=(Route(name="named", destination=by_name(broker)), all_else))
    subscription = Subscription(start=BEGINNING)
    document = replay_document(table, ReplayTask(job_id="job-1", subscription=subscription, destination=destination))
    assert send(spark, document) == {"named": (0, "TopicMissing"), "all": (6, "")}
    assert positions(topics.read(a)) == [1, 2]
    # By itself, and once: the same, and it goes on where it stopped.
    by_reply_to = TopicFrom(pattern="topic-[0-9]+")
    once = replay_document(
        table,
        ReplayTask(
            job_id="once",
            select=Selection(where="reply_to IS NOT NULL"),
            destination=by_name(broker, topic_from=by_reply_to),
        ),
    )
    report = execute(once, lambda: spark, Silent(), 0, lambda: AT)
    assert (report.error.reason, "all that goes before global position 3 is sent" in report.error.message) == (
        "TopicMissing",
        True,
    )
    topics.make(missing)
    assert execute(once, lambda: spark, Silent(), 0, lambda: AT).error is None
    assert positions(topics.read(a)) == [1, 2, 1, 2, 4, 6]
    assert send(spark, document) == {"named": (0, "TopicRefused"), "all": (6, "")}
    assert (positions(topics.read(a)), positions(topics.read(missing))) == ([1, 2, 1, 2, 4, 6, 4], [3, 3])
    # A change of what decides counts for the message, too.
    past = Subscription(start=BEGINNING, reset=Reset(value="6", to=StartPoint(global_position=6)))
    task = ReplayTask(job_id="job-1", subscription=past, destination=destination)
    assert send(spark, replay_document(table, task)) == {"named": (6, ""), "all": (6, "")}
    assert positions(topics.read(a))[7:] == [6]


def test_what_is_erased_once_it_was_left_to_another_destination_counts_as_erased_alone(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    a, rest = topics.make(), topics.make()
    table = make_store(tmp_path / "store", named(a, topics.name()))

    def erase(name: str, moment: str) -> None:
        if (name, moment) == ("refused", "after"):
            add_tombstones(HeldStore(table.uri), [("m2", 2)], AT, "erasing")

    with observing(erase):
        report = execute(with_otherwise(table, broker, rest), lambda: spark, Silent(), 0, lambda: AT)
    assert isinstance(report.outcome, ReplayOutcome)
    cursors = {one.name: one.cursor for one in report.outcome.destinations}
    assert (cursors["named"].sent, cursors["named"].erased, cursors["named"].set_aside) == (0, 1, 0)
    add_messages(table.uri, named(a, first=3), next_global_position=4)
    assert send(spark, with_otherwise(table, broker, rest)) == {"named": (3, ""), "rest": (3, "")}
    assert (positions(topics.read(a)), positions(topics.read(rest))) == ([3], [1])


def test_what_expires_once_it_was_left_to_another_destination_counts_as_expired_alone(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    rows = named(topics.name(), topics.name())
    rows[1]["expires_at"] = AT + timedelta(hours=1)
    document = with_otherwise(make_store(tmp_path / "store", rows), broker, topics.make())
    skips = document.model_copy(update={"task": document.task.model_copy(update={"skip_expired": True})})
    crash(lambda: send(spark, skips), "refused", "after", 1)
    later = skips.model_copy(update={"at": AT + timedelta(hours=2)})
    report = execute(later, lambda: spark, Silent(), 0, lambda: AT)
    assert isinstance(report.outcome, ReplayOutcome)
    cursors = {one.name: one.cursor for one in report.outcome.destinations}
    assert (cursors["named"].sent, cursors["named"].expired, cursors["named"].set_aside) == (0, 1, 0)
    assert send(spark, later) == {"named": (2, ""), "rest": (2, "")}


WRITES = ("refused", "cursor", "replay-transaction", "replay-seal", "replay-staged-removed", "audit-replay")


@pytest.mark.parametrize("kind", few(WRITES))
def test_killed_before_or_after_any_write_each_message_goes_to_one_of_both(
    spark: SparkSession,
    topics: Topics,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 2)
    a, missing, rest = topics.make(), topics.name(), topics.make()
    table = make_store(tmp_path / "store", named(a, missing, a, missing, missing, a))
    document = with_otherwise(table, broker, rest)
    for moment, nth in (("before", 1), ("after", 1), ("before", 2)):
        crash(lambda: send(spark, document), kind, moment, nth)
    # What was left to the other destination stays with it, though its topic is there by now.
    topics.make(missing)
    assert send(spark, document) == {"named": (6, ""), "rest": (6, "")}
    left = positions(topics.read(rest))
    got = [*positions(topics.read(a)), *positions(topics.read(missing)), *left]
    assert (sorted(got), positions(topics.read(a))) == ([1, 2, 3, 4, 5, 6], [3, 6])
    # A destination that is removed leaves nothing to the other. The first message is a small one, which goes there
    # anyway; a run may be killed before it leaves others.
    assert bool(refused(table)) == (left != [1])
    send(spark, routes(table, broker, a))
    assert refused(table) == []


@pytest.mark.long
def test_whatever_answer_is_lost_each_message_goes_to_one_of_both(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 2)
    a, missing, rest = topics.make(), topics.name(), topics.make()
    table = make_store(tmp_path / "store", named(a, missing, a, missing, missing, a))

    def whole(document: RunDocument) -> None:
        """Neither the run nor a destination fails; one that does ends no run of others."""
        report = execute(document, lambda: spark, Silent(), 0, lambda: AT)
        outcome = report.outcome
        if not isinstance(outcome, ReplayOutcome) or any(one.error for one in outcome.destinations):
            raise UnheardError(str(report))

    _, lost = unheard(lambda: whole(with_otherwise(table, broker, rest)))
    assert lost >= {"refused", "cursor", "replay-transaction"}
    assert (positions(topics.read(a)), positions(topics.read(rest))) == ([3, 6], [1, 2, 4, 5])
    assert refused(table) != []
    assert unheard(lambda: whole(routes(table, broker, a)))[1] >= {"refused-forgotten", "cursor"}
    assert refused(table) == []


def refused(table: Table) -> list[str]:
    """The objects about messages that a destination has left to another."""
    return [name for name in Store(table.uri).objects(CURSORS).names(recursive=True) if f"/{REFUSED}/" in name]
