"""Several destinations of a continuous replay, each by itself: topics of a real broker, and real HTTP endpoints."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import HttpDestination, HttpRetries, KafkaDestination, TopicFrom
from messagestore_core.contract.replay import (
    DestinationState,
    ReplayOutcome,
    ReplayTask,
    Route,
    RoutesDestination,
    Selection,
    Sequences,
    StartPoint,
    Subscription,
)
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.driver.control import RunControl
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.replay import routes as routes_module
from messagestore_jobs.replay.control import ReplayControl
from messagestore_jobs.replay.leaves import name_of
from support.httpendpoint import Answer, http_endpoint
from support.kafkabroker import Broker
from support.kafkatopics import Topics
from support.replays import AT, replay_document
from support.servers import free_ports
from support.stores import add_messages, make_store, message
from support.waiting import wait_until

BEGINNING = StartPoint(at="Beginning")
QUICK, PATIENT = HttpRetries(retry=0), HttpRetries(timeout=timedelta(minutes=5))


class Going:
    """A run that goes on until the block ends."""

    def __init__(self, spark: SparkSession, document: RunDocument) -> None:
        self.control = RunControl(None)
        self.report: RunReport | None = None
        self._spark, self._document = spark, document

    def go(self) -> None:
        self.report = execute(self._document, lambda: self._spark, Silent(), 0, lambda: AT, self.control)

    def states(self) -> dict[str, DestinationState]:
        outcome = self.report.outcome if self.report else self.control.outcome
        return {one.name: one for one in outcome.destinations} if isinstance(outcome, ReplayOutcome) else {}

    def reached(self) -> dict[str, int]:
        return {name: one.cursor.global_position for name, one in self.states().items() if one.cursor is not None}

    def reasons(self) -> dict[str, str]:
        return {name: one.error.reason for name, one in self.states().items() if one.error is not None}


@contextmanager
def going(spark: SparkSession, document: RunDocument) -> Iterator[Going]:
    run = Going(spark, document)
    thread = InheritableThread(target=run.go)
    thread.start()
    try:
        yield run
    finally:
        run.control.stop()
        thread.join()
    assert run.report is not None


def named(*topics: str, first: int = 1) -> list[dict[str, Any]]:
    return [message(first + n, headers={"topic": topic}) for n, topic in enumerate(topics)]


def routes(table: Table, *several: Route, **more: Any) -> RunDocument:
    subscription = Subscription(start=BEGINNING, continuous=True)
    destination = RoutesDestination(routes=several)
    given = {"job_id": "job-1", "order": "Global", "subscription": subscription, "destination": destination}
    return replay_document(table, ReplayTask(**{**given, **more}))


def tries_of(state: DestinationState) -> int:
    return state.going_on.tries if state.going_on is not None else 0


def positions(topics: Topics, topic: str) -> list[int]:
    return [json.loads(record.value or b"")["globalPosition"] for record in topics.read(topic)]


def test_each_destination_continues_whatever_happens_to_the_others(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_module, "_FIRST_WAIT", timedelta(seconds=0.5))
    monkeypatch.setattr(routes_module, "_LONGEST_WAIT", timedelta(seconds=1))
    a, rest, (port, dead) = topics.make(), topics.make(), free_ports(2)
    table = make_store(tmp_path / "store", named(a, "no-topic", a, "no-topic", a))
    held, late_url = threading.Event(), f"http://127.0.0.1:{port}/events"
    cluster, by_name = broker.cluster(), TopicFrom(header="topic", pattern="topic-.*|no-topic")
    nowhere = cluster.model_copy(update={"bootstrap_servers": f"127.0.0.1:{dead}"})

    def slowly(_: object) -> Answer:
        held.wait()
        return Answer()

    with http_endpoint(slowly) as slow:
        document = routes(
            table,
            Route(name="away", destination=KafkaDestination(cluster=nowhere, topic=a)),
            Route(name="late", destination=HttpDestination(url=late_url, delivery=QUICK)),
            Route(name="slow", destination=HttpDestination(url=slow.url, delivery=PATIENT)),
            Route(
                name="named",
                where="json(payload, '$.n') > 0",
                destination=KafkaDestination(cluster=cluster, topic_from=by_name),
            ),
            Route(name="rest", otherwise=True, destination=KafkaDestination(cluster=cluster, topic=rest)),
        )
        with going(spark, document) as run:
            said = lambda: f"{run.reached()} {run.reasons()} {run.report}"  # noqa: E731
            wait_until(lambda: positions(topics, rest) == [2, 4], 60, said)
            wait_until(lambda: run.reasons() == {"away": "KafkaUnreachable", "late": "HttpUnreachable"}, 30, said)
            assert positions(topics, a) == [1, 3, 5]
            add_messages(table.uri, [*named(a, "no-topic", first=6), message(8, payload=b"{")], next_global_position=9)
            wait_until(lambda: positions(topics, rest) == [2, 4, 7, 8], 30, said)
            assert (positions(topics, a), slow.positions) == ([1, 3, 5, 6], [])
            wait_until(lambda: tries_of(run.states()["away"]) > 1, 30, said)
            held.set()
            with http_endpoint(port=port) as late:
                wait_until(lambda: late.positions == [*range(1, 9)] == slow.positions, 60, said)
                wait_until(lambda: run.reasons() == {"away": "KafkaUnreachable"}, 30, said)
        assert run.report.error is None, run.report.error
        assert run.reached() == {"late": 8, "slow": 8, "named": 8, "rest": 8}
        sent = [json.loads(row["rules"])["job"] for row in read_audit(Store(table.uri)) if row["action"] == "Replay"]
        assert set(sent) == {"job-1"}
        cursor = run.states()["named"].cursor
        assert (cursor.sent, run.report.outcome and run.report.outcome.progress.set_aside) == (4, 3)
        # What was sent is not sent again.
        with going(spark, document) as again:
            wait_until(lambda: again.reached().get("rest") == 8 and again.reached().get("named") == 8, 60, said)
        assert (positions(topics, a), positions(topics, rest)) == ([1, 3, 5, 6], [2, 4, 7, 8])


class PanicException(BaseException):
    """As delta-rs raises it."""


def test_a_destination_goes_on_after_a_panic(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_module, "_FIRST_WAIT", timedelta(seconds=0.5))
    as_it_is, panics = routes_module.send_on, iter([PanicException("out of bounds")])

    def send_on(leaf: Run, control: ReplayControl, begins: Callable[[], None]) -> ReplayOutcome:
        if name_of(leaf) == "one" and (panic := next(panics, None)) is not None:
            raise panic
        return as_it_is(leaf, control, begins)

    monkeypatch.setattr(routes_module, "send_on", send_on)
    table = make_store(tmp_path / "store", [message(1), message(2)])
    with http_endpoint() as one, http_endpoint() as two:
        to = {"one": HttpDestination(url=one.url), "two": HttpDestination(url=two.url)}
        document = routes(table, *(Route(name=name, destination=destination) for name, destination in to.items()))
        with going(spark, document) as run:
            wait_until(lambda: one.positions == [1, 2] == two.positions, 60, lambda: f"{run.reached()}")


def part(position: int, sequence: str, number: int, topic: str) -> dict[str, Any]:
    headers = {"topic": topic}
    return message(position, sequence_id=sequence, sequence_number=number, sequence_size=3, headers=headers)


@pytest.mark.long
def test_each_destination_gets_whole_sequences_whatever_happens_to_the_others(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_module, "_FIRST_WAIT", timedelta(seconds=0.5))
    monkeypatch.setattr(routes_module, "_LONGEST_WAIT", timedelta(seconds=1))
    a, rest, missing = topics.make(), topics.make(), topics.name()
    of_p, of_q = [part(n, "p", 4 - n, a) for n in (1, 2, 3)], [part(3 + n, "q", n, "") for n in (1, 2)]
    table = make_store(tmp_path / "store", [*of_p, *of_q])
    (port,) = free_ports(1)
    cluster, to_named = broker.cluster(), TopicFrom(header="topic", pattern="topic-.*")
    named_ones = "headers['topic'] <> ''"
    document = routes(
        table,
        Route(name="late", destination=HttpDestination(url=f"http://127.0.0.1:{port}/events", delivery=QUICK)),
        Route(name="named", where=named_ones, destination=KafkaDestination(cluster=cluster, topic_from=to_named)),
        Route(name="rest", otherwise=True, destination=KafkaDestination(cluster=cluster, topic=rest)),
        select=Selection(sequences=Sequences(complete_only=True)),
        order="Sequence",
    )
    with going(spark, document) as run:
        said = lambda: f"{run.reached()} {run.reasons()} {run.report}"  # noqa: E731
        wait_until(lambda: positions(topics, a) == [3, 2, 1], 60, said)
        wait_until(lambda: run.reasons() == {"late": "HttpUnreachable"}, 30, said)
        wait_until(lambda: tries_of(run.states()["late"]) > 1, 30, said)
        assert positions(topics, rest) == []
        # The last of q, and a sequence whose second member names a topic that is not there.
        of_r = [part(6 + n, "r", n, missing if n == 2 else a) for n in (1, 2, 3)]
        add_messages(table.uri, [part(6, "q", 3, ""), *of_r], next_global_position=10)
        wait_until(lambda: positions(topics, rest) == [4, 5, 6], 30, said)
        wait_until(lambda: run.reasons() == {"late": "HttpUnreachable", "named": "TopicMissing"}, 30, said)
        assert positions(topics, a) == [3, 2, 1, 7]
        topics.make(missing)
        with http_endpoint(port=port) as late:
            wait_until(lambda: late.positions == [3, 2, 1, 4, 5, 6, 7, 8, 9], 60, said)
            wait_until(lambda: run.reasons() == {}, 30, said)
        assert (positions(topics, a), positions(topics, missing)) == ([3, 2, 1, 7, 9], [8])
    assert run.report.error is None, run.report.error
    assert run.reached() == {"late": 9, "named": 9, "rest": 9}
    # What was sent is not sent again, and a run that has nothing to send says how far it is.
    with going(spark, document) as again:
        wait_until(lambda: again.reached() == {"late": 9, "named": 9, "rest": 9}, 60, lambda: f"{again.reached()}")
    assert (positions(topics, a), positions(topics, rest)) == ([3, 2, 1, 7, 9], [4, 5, 6])
