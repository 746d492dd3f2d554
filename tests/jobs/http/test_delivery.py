"""Messages sent to a real HTTP endpoint: what each answer does, and what a run after a crash repeats."""

import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import Folder, HttpDestination, HttpRetries
from messagestore_core.contract.replay import (
    ReplayOutcome,
    ReplayTask,
    Route,
    RoutesDestination,
    StartPoint,
    Subscription,
)
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore, observing
from messagestore_core.store.storage import Storage
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from support.external_writes import unheard
from support.httpendpoint import Answer, HttpEndpoint, http_endpoint
from support.long import few
from support.replays import AT, Crash, replay_document
from support.servers import free_ports
from support.stores import add_messages, make_store, message

QUICK = HttpRetries(
    retry=3,
    backoff_delay=timedelta(milliseconds=10),
    backoff_max=timedelta(milliseconds=40),
    timeout=timedelta(seconds=1),
)
ALL = list(range(1, 11))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Ten messages of three streams."""
    return make_store(tmp_path / "store", [message(n, stream_name=f"order-{n % 3}") for n in ALL])


def to_endpoint(
    table: Table, url: str, subscription: bool = False, order: str = "PerStream", **destination: Any
) -> RunDocument:
    to = HttpDestination(**{"url": url, "delivery": QUICK, **destination})
    start = Subscription(start=StartPoint(at="Beginning")) if subscription else None
    return replay_document(table, ReplayTask(job_id="job-1", order=order, subscription=start, destination=to))


def send(spark: SparkSession, document: RunDocument) -> ReplayOutcome:
    return run_replay(Run.of(document, spark, Silent()))


def in_order(endpoint: HttpEndpoint) -> bool:
    """Whether each stream's events came in its order."""
    by_stream: dict[int, list[int]] = {}
    for position in endpoint.positions:
        by_stream.setdefault(position % 3, []).append(position)
    return all(positions == sorted(positions) for positions in by_stream.values())


@pytest.mark.parametrize("envelope", ["CloudEvents", "CloudEventsBinary"])
def test_each_message_is_one_event_and_each_stream_keeps_its_order(
    spark: SparkSession, table: Table, envelope: str
) -> None:
    with http_endpoint(lambda _: Answer(204, after=0.05)) as endpoint:
        outcome = send(spark, to_endpoint(table, endpoint.url, envelope=envelope))
        assert (outcome.complete, outcome.progress.replayed, outcome.progress.set_aside) == (True, 10, 0)
        assert (sorted(endpoint.positions), in_order(endpoint)) == (ALL, True)
        assert (endpoint.most, endpoint.most_of_stream) == (3, 1)
        one = next(request for request in endpoint.taken if request.position == 4)
        assert (one.attributes["id"], one.attributes["specversion"], one.path) == ("m4", "1.0", "/events")
        payload = one.body if envelope == "CloudEventsBinary" else json.dumps(one.attributes["data"]).encode()
        assert json.loads(payload) == {"n": 4}
        assert send(spark, to_endpoint(table, endpoint.url, envelope=envelope)).complete
        assert len(endpoint.requests) == 10


def test_an_endpoint_that_is_down_gets_the_rest_once_it_is_back(spark: SparkSession, table: Table) -> None:
    (port,) = free_ports(1)
    with pytest.raises(RunFailedError, match="did not take a message after 4 tries: no answer") as down:
        send(spark, to_endpoint(table, f"http://127.0.0.1:{port}/events", subscription=True, order="Global"))
    assert down.value.reason == "HttpUnreachable"
    with http_endpoint(lambda request: Answer(202 if request.position < 6 else 503), port=port) as endpoint:
        document = to_endpoint(table, endpoint.url, subscription=True, order="Global")
        with pytest.raises(RunFailedError, match="it answered 503"):
            send(spark, document)
        assert endpoint.positions == [1, 2, 3, 4, 5]
        endpoint.answer = lambda _: Answer()
        outcome = send(spark, document)
        assert endpoint.positions == ALL
        assert (outcome.cursor.global_position, outcome.cursor.sent) == (10, 10)
        add_messages(table.uri, [message(11), message(12)], next_global_position=13)
        send(spark, document)
        assert endpoint.positions == [*ALL, 11, 12]


def test_a_refused_message_is_set_aside_and_later_ones_are_sent(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    folder = tmp_path / "refused"
    with http_endpoint(lambda request: Answer(400 if request.position in (3, 8) else 202)) as endpoint:
        document = to_endpoint(
            table,
            endpoint.url,
            subscription=True,
            envelope="CloudEventsBinary",
            dead_letter=Folder(uri=f"file://{folder}"),
        )
        outcome = send(spark, document)
        assert (outcome.progress.replayed, outcome.progress.set_aside) == (8, 2)
        assert (outcome.cursor.global_position, outcome.cursor.sent, outcome.cursor.set_aside) == (10, 8, 2)
        events = [
            json.loads(line) for file in sorted(folder.rglob("*.jsonl")) for line in file.read_text().splitlines()
        ]
        assert [(event["id"], event["knativeerrorcode"]) for event in events] == [("m3", "400"), ("m8", "400")]
        assert {event["knativeerrordest"] for event in events} == {endpoint.url}
        assert sorted(endpoint.positions) == [n for n in ALL if n not in (3, 8)]


@pytest.mark.parametrize("at", few(range(12), 6))
def test_killed_at_any_write_each_event_arrives_and_what_was_noted_is_not_repeated(
    spark: SparkSession, table: Table, at: int
) -> None:
    crashes = iter(range(1_000))

    def observer(name: str, moment: str) -> None:
        if moment == "before" and next(crashes) == at:
            raise Crash

    with http_endpoint() as endpoint:
        document = to_endpoint(table, endpoint.url, subscription=True, order="Global", in_flight=2)
        with suppress(Crash), observing(observer):
            send(spark, document)
        send(spark, document)
        assert set(endpoint.positions) == set(ALL)
        # The batch that was not noted: two events, then four, then eight.
        assert len(endpoint.positions) <= len(ALL) + 8
        before = len(endpoint.positions)
        send(spark, document)
        assert len(endpoint.positions) == before


def test_whatever_answer_of_the_store_is_lost_each_event_arrives_or_is_set_aside(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    folder = tmp_path / "refused"
    with http_endpoint(lambda request: Answer(400 if request.position in (3, 8) else 202)) as endpoint:
        aside = Folder(uri=f"file://{folder}")
        document = to_endpoint(table, endpoint.url, subscription=True, order="Global", dead_letter=aside)
        outcome, lost = unheard(lambda: send(spark, document))
        assert lost >= {"replay-sent", "replay-set-aside", "cursor"}
        assert (outcome.cursor.global_position, outcome.cursor.sent, outcome.cursor.set_aside) == (10, 8, 2)
        assert set(endpoint.positions) == {n for n in ALL if n not in (3, 8)}
        events = [json.loads(line) for file in folder.rglob("*.jsonl") for line in file.read_text().splitlines()]
        assert sorted(event["id"] for event in events) == ["m3", "m8"]


def test_a_message_that_is_erased_before_its_request_is_not_sent(spark: SparkSession, table: Table) -> None:
    with http_endpoint(lambda request: Answer(202 if request.position < 4 else 403)) as endpoint:
        document = to_endpoint(table, endpoint.url, subscription=True, in_flight=1, order="Global")
        with pytest.raises(RunFailedError, match="403"):
            send(spark, document)
        add_tombstones(HeldStore.of(table, Storage()), [("m7", 7)], AT, "erasing")
        endpoint.answer = lambda _: Answer()
        outcome = send(spark, document)
        assert (endpoint.positions, outcome.progress.erased) == ([n for n in ALL if n != 7], 1)


def test_of_several_endpoints_one_that_refuses_holds_no_other_up(spark: SparkSession, table: Table) -> None:
    with http_endpoint() as large, http_endpoint(lambda _: Answer(403)) as rest:
        several = (
            Route(name="rest", otherwise=True, destination=HttpDestination(url=rest.url, delivery=QUICK)),
            Route(
                name="large",
                where="json(payload, '$.n') > 5",
                destination=HttpDestination(url=large.url, delivery=QUICK),
            ),
        )
        subscription = Subscription(start=StartPoint(at="Beginning"))
        task = ReplayTask(job_id="job-1", subscription=subscription, destination=RoutesDestination(routes=several))
        document = replay_document(table, task)
        states = {one.name: one for one in send(spark, document).destinations}
        assert (states["rest"].error.reason, states["large"].error) == ("HttpDenied", None)
        assert (sorted(large.positions), rest.positions) == ([6, 7, 8, 9, 10], [])
        rest.answer = lambda _: Answer()
        send(spark, document)
        assert (sorted(large.positions), sorted(rest.positions)) == ([6, 7, 8, 9, 10], [1, 2, 3, 4, 5])
