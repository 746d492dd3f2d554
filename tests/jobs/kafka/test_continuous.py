"""Continuous replays to topics of a real broker: each message once, whatever happens between two writes."""

import json
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import KafkaDestination, TopicFrom
from messagestore_core.contract.purge import Rule
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask, Reset, Selection, StartPoint, Subscription
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.cursors import Cursor
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore, observing
from messagestore_core.store.handle import Store
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.context import Run
from messagestore_jobs.replay import continuous, kafka, newest
from messagestore_jobs.replay.job import run_replay
from support.events import read_record
from support.external_writes import unheard
from support.kafkabroker import Broker
from support.kafkatopics import Record, Topics
from support.long import few
from support.purges import break_off, erase, purge
from support.replays import AT, Crash, Meanwhile, crash, replay_document
from support.stores import add_messages, make_store, message

BEGINNING = StartPoint(at="Beginning")


def messages(*positions: int, **fields: Any) -> list[dict[str, Any]]:
    return [message(n, stream_name=f"c{n % 2}-1", **fields) for n in positions]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Ten messages; a transaction has four records, and a round six positions."""
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 4)
    monkeypatch.setattr(continuous, "ROUND_POSITIONS", 6)
    monkeypatch.setattr(continuous, "ROUND_SECONDS", 0)
    monkeypatch.setattr(newest, "LOOK_WHOLE_SECONDS", 0)
    return make_store(tmp_path / "store", messages(*range(1, 11)))


def arrive(table: Table, *positions: int, **fields: Any) -> None:
    add_messages(table.uri, messages(*positions, **fields), next_global_position=max(positions) + 1)


def to_topic(table: Table, broker: Broker, topic: str, reset: Reset | None = None, **task: Any) -> RunDocument:
    destination = KafkaDestination(cluster=broker.cluster(), topic=topic)
    subscription = Subscription(start=BEGINNING, reset=reset, continuous=True)
    given = {"job_id": "job-1", "subscription": subscription, "destination": destination}
    return replay_document(table, ReplayTask(**{**given, **task}))


def send(spark: SparkSession, document: RunDocument, control: Meanwhile | None = None) -> ReplayOutcome:
    return run_replay(Run.of(document, spark, Silent()), control or Meanwhile())


def positions(records: list[Record]) -> list[int]:
    return [json.loads(record.value or b"")["globalPosition"] for record in records]


def cursor(table: Table) -> Cursor:
    (path,) = Path(table.uri.removeprefix("file://")).glob("_cursors/*/cursor.json")
    return Cursor.model_validate_json(path.read_text())


def audited(table: Table) -> dict[str, int]:
    """The counts of all rows about replays."""
    total: dict[str, int] = {}
    for row in read_audit(Store(table.uri)):
        for name, count in row["counts"].items() if row["action"] == "Replay" else ():
            total[name] = total.get(name, 0) + count
    return total


def test_a_continuous_replay_sends_old_and_new_messages_and_notes_its_cursor(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make(partitions=2)
    document = to_topic(table, broker, topic)
    while_it_runs = Meanwhile(lambda: arrive(table, 11, 13), lambda: None, lambda: arrive(table, 14))
    outcome = send(spark, document, while_it_runs)
    assert sorted(positions(topics.read(topic))) == [*range(1, 12), 13, 14]
    assert (outcome.cursor.global_position, outcome.cursor.sent, outcome.cursor.rounds) == (14, 13, 4)
    assert (outcome.progress.replayed, outcome.progress.percent, outcome.cursor.lag.records) == (13, 100, 0)
    kept = cursor(table)
    assert (kept.global_position, kept.round, kept.unnoted) == (14, None, None)
    assert (audited(table)["replayed"], audited(table)["missed"]) == (13, 1)
    assert not (Path(table.uri.removeprefix("file://")) / "_replays").exists()
    send(spark, document)
    assert audited(table)["replayed"] == 13


def test_a_continuous_replay_starts_no_spark_job_while_nothing_arrives(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    document, jobs = to_topic(table, broker, topics.make()), list[int]()
    tracker = spark.sparkContext.statusTracker()

    def count() -> None:
        jobs.append(len(tracker.getJobIdsForGroup(None)))

    send(spark, document, Meanwhile(count, lambda: None, lambda: None, count))
    assert jobs[0] == jobs[1]


@pytest.mark.parametrize(
    ("name", "moment", "nth"),
    few(
        [
            ("cursor", "before", 1),
            ("cursor", "after", 1),
            ("replay-anchor", "before", 1),
            ("replay-anchor", "after", 1),
            ("cursor", "before", 2),
            ("cursor", "after", 2),
            ("replay-transaction", "before", 2),
            ("replay-transaction", "after", 1),
            ("replay-transaction", "after", 2),
            ("cursor", "before", 3),
            ("cursor", "after", 3),
            ("replay-transaction", "after", 3),
            ("audit-replay", "before", 1),
            ("audit-replay", "after", 1),
            ("cursor", "after", 6),
        ],
        # The next test breaks off after each write.
        ("replay-transaction", "before", 2),
    ),
)
def test_a_continuous_replay_that_is_killed_between_two_writes_sends_each_message_once(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, name: str, moment: str, nth: int
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic)
    break_off(lambda: send(spark, document), name, moment, nth)
    arrive(table, 11)
    outcome = send(spark, document)
    assert positions(topics.read(topic)) == list(range(1, 12))
    assert (outcome.cursor.global_position, outcome.cursor.sent, audited(table)["replayed"]) == (11, 11, 11)


def test_a_continuous_replay_sends_each_message_once_whichever_answer_is_lost(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic)
    _, lost = unheard(lambda: send(spark, document))
    assert lost >= {"cursor", "replay-transaction", "replay-anchor", "audit-replay"}
    assert positions(topics.read(topic)) == list(range(1, 11))


def test_a_continuous_replay_that_lost_its_cursor_continues_after_the_last_transaction(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, tmp_path: Path
) -> None:
    topic = topics.make()
    send(spark, to_topic(table, broker, topic))
    shutil.rmtree(tmp_path / "store" / "_cursors")
    arrive(table, 11)
    send(spark, to_topic(table, broker, topic))
    assert positions(topics.read(topic)) == list(range(1, 12))


@pytest.mark.parametrize("first", few([True, False], False))
def test_rounds_and_a_continuous_run_continue_from_the_same_cursor(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, first: bool
) -> None:
    topic = topics.make()
    documents = [
        to_topic(table, broker, topic, subscription=Subscription(start=BEGINNING, continuous=goes_on))
        for goes_on in (first, not first)
    ]
    broke_off = False

    def observer(write: str, when: str) -> None:
        nonlocal broke_off
        if (write, when) == ("replay-transaction", "after"):
            broke_off = True
            raise Crash

    with observing(observer), suppress(Crash):
        send(spark, documents[0])
    assert broke_off
    send(spark, documents[1])
    arrive(table, 11)
    send(spark, documents[0])
    assert positions(topics.read(topic)) == list(range(1, 12))
    assert audited(table)["replayed"] == 11


def test_a_continuous_replay_sends_no_message_that_is_erased_before_its_transaction(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuous, "ROUND_POSITIONS", 10)
    topic = topics.make()
    begun = 0

    def observer(name: str, moment: str) -> None:
        nonlocal begun
        if (name, moment) == ("replay-transaction", "before"):
            begun += 1
            if begun == 2:
                # Of the transaction before, of this one, and of a later one.
                add_tombstones(HeldStore(table.uri), [("m3", 3), ("m6", 6), ("m10", 10)], AT, "purge-1")

    with observing(observer):
        outcome = send(spark, to_topic(table, broker, topic))
    assert positions(topics.read(topic)) == [n for n in range(1, 11) if n not in (6, 10)]
    assert (outcome.progress.replayed, outcome.progress.erased) == (8, 2)


def test_purged_and_erased_messages_that_were_not_sent_are_counted(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()

    def removed() -> None:
        arrive(table, 11, 12, 13, 14)
        erased = Rule(name="e", match={"messageIds": ["m12"]}, erase=True)
        purge(spark, table, AT, rules=(Rule(name="r", match={"messageIds": ["m11"]}),), mode="Enforce")
        purge(spark, table, AT, rules=(erased,), mode="Enforce", run="purge-2")
        erase(spark, table, AT + timedelta(days=30))

    outcome = send(spark, to_topic(table, broker, topic), Meanwhile(removed, lambda: arrive(table, 15)))
    assert positions(topics.read(topic)) == [*range(1, 11), 13, 14, 15]
    assert (outcome.cursor.missed, outcome.cursor.erased) == (1, 1)
    # An erasure waits for this.
    assert outcome.tombstones == Store(table.uri).table("tombstones").version()


def test_a_read_whose_files_vanish_is_made_anew(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, looked = topics.make(), continuous.look_behind
    vanished = False

    def vanishing(*given: Any) -> Any:
        nonlocal vanished
        behind = looked(*given)
        if not vanished and behind.after == 6:
            vanished = True
            removal = Rule(name="e", match={"messageIds": ["m8"]}, erase=True)
            purge(spark, table, AT, rules=(removal,), mode="Enforce")
            erase(spark, table, AT + timedelta(days=30))
        return behind

    monkeypatch.setattr(continuous, "look_behind", vanishing)
    outcome = send(spark, to_topic(table, broker, topic))
    assert vanished
    assert positions(topics.read(topic)) == [n for n in range(1, 11) if n != 8]
    assert (outcome.progress.erased, outcome.progress.missed) == (1, 0)


def test_a_continuous_replay_sends_only_selected_unexpired_and_whole_messages(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()
    even = to_topic(table, broker, topic, select=Selection(categories=("c0",)), skip_expired=True)

    def comes() -> None:
        arrive(table, 12, expires_at=AT)
        arrive(table, 14, payload_sha256="0" * 64)

    with pytest.raises(RunFailedError, match="global positions 14") as stopped:
        send(spark, even, Meanwhile(comes, lambda: arrive(table, 16)))
    assert stopped.value.reason == "MessagesBroken"
    assert (cursor(table).global_position, cursor(table).expired) == (14, 1)
    going_on = even.model_copy(update={"task": even.task.model_copy(update={"on_failed": "Continue"})})
    arrive(table, 16)
    send(spark, going_on)
    assert positions(topics.read(topic)) == [2, 4, 6, 8, 10, 16]


def test_a_reset_sends_again(spark: SparkSession, topics: Topics, broker: Broker, table: Table) -> None:
    topic, back = topics.make(), Reset(value="9", to=StartPoint(global_position=9))
    send(spark, to_topic(table, broker, topic))
    for _ in range(2):
        outcome = send(spark, to_topic(table, broker, topic, back))
    assert positions(topics.read(topic)) == [*range(1, 11), 9, 10]
    assert (outcome.cursor.resets, outcome.cursor.sent) == (1, 12)


def test_a_store_laid_back_from_a_copy_is_refused(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, tmp_path: Path
) -> None:
    document = to_topic(table, broker, topics.make())
    send(spark, document)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    arrive(table, 11)
    send(spark, document)
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "copy").rename(tmp_path / "store")
    arrive(table, 11, 12)
    with pytest.raises(RunFailedError, match="records up to global position 11") as refused:
        send(spark, document)
    assert refused.value.reason == "CursorAhead"


def test_a_cluster_that_has_forgotten_a_round_that_broke_off_is_asked_about(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic)

    def observer(write: str, when: str) -> None:
        if (write, when) == ("replay-transaction", "after"):
            raise Crash

    with observing(observer), suppress(Crash):
        send(spark, document)
    topics.forget_group(f"messagestore-default.again-{cursor(table).store}")
    with pytest.raises(RunFailedError, match="behind global position 0") as refused:
        send(spark, document)
    assert refused.value.reason == "CursorUnknown"
    send(spark, to_topic(table, broker, topic, Reset(value="5", to=StartPoint(global_position=5))))
    assert positions(topics.read(topic)) == list(range(1, 11))


def test_a_continuous_replay_sends_cloud_events_too(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()
    destination = KafkaDestination(cluster=broker.cluster(), topic=topic, envelope="CloudEventsBinary")
    outcome = send(spark, to_topic(table, broker, topic, destination=destination), Meanwhile(lambda: arrive(table, 11)))
    assert outcome.progress.replayed == 11
    assert [int(read_record(record)[0]["globalposition"]) for record in topics.read(topic)] == list(range(1, 12))


@pytest.mark.parametrize("kind", few(["replay-transaction", "cursor", "replay-anchor"], "replay-transaction"))
def test_a_continuous_replay_that_is_killed_sends_each_message_once_to_the_topic_that_it_names(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, kind: str
) -> None:
    a, b = topics.make(), topics.make()
    by_name = TopicFrom(header="topic", pattern="topic-.*")
    to = KafkaDestination(cluster=broker.cluster(), topic_from=by_name)
    rows = [message(n, headers={"topic": b if n % 3 else a}) for n in range(11, 21)]
    add_messages(table.uri, rows, next_global_position=21)
    # The first ten name no topic.
    document = to_topic(table, broker, "", destination=to, select=Selection(where="headers['topic'] IS NOT NULL"))
    # Before the first transaction, no topic is known that could tell how far it is.
    for moment, nth in (("before", 1), ("after", 1), ("after", 1), ("before", 2)):
        crash(lambda: send(spark, document), kind, moment, nth)
    send(spark, document)
    assert (positions(topics.read(a)), positions(topics.read(b))) == ([12, 15, 18], [11, 13, 14, 16, 17, 19, 20])
    assert cursor(table).global_position == 20
