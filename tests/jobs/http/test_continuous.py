"""Continuous replays to a real HTTP endpoint: each message at least once, whatever happens between two writes."""

import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.run_document import (
    Folder,
    HttpDestination,
    HttpRetries,
    ReplayTask,
    RunDocument,
    StartPoint,
    Subscription,
)
from messagestore_core.contract.run_report import ReplayOutcome
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.cursors import Cursor
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore, observing
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from support.httpendpoint import Answer, HttpEndpoint, http_endpoint
from support.long import few
from support.replays import AT, Crash, Meanwhile, crash_at, replay_document
from support.stores import add_messages, make_store, message

ALL = list(range(1, 11))
QUICK = HttpRetries(retry=1, backoff_delay=timedelta(milliseconds=10), timeout=timedelta(seconds=5))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Ten messages."""
    return make_store(tmp_path / "store", map(message, ALL))


def to_endpoint(table: Table, endpoint: HttpEndpoint, folder: Path) -> RunDocument:
    refused = Folder(uri=f"file://{folder}/refused")
    to = HttpDestination(url=endpoint.url, delivery=QUICK, in_flight=2, dead_letter=refused)
    subscription = Subscription(start=StartPoint(at="Beginning"), continuous=True)
    return replay_document(table, ReplayTask(job_id="job-1", order="Global", subscription=subscription, destination=to))


def send(spark: SparkSession, document: RunDocument, control: Meanwhile | None = None) -> ReplayOutcome:
    return run_replay(Run.of(document, spark, Silent()), control or Meanwhile())


def cursor(table: Table) -> Cursor:
    (path,) = Path(table.uri.removeprefix("file://")).glob("_cursors/*/cursor.json")
    return Cursor.model_validate_json(path.read_text())


def test_it_sends_what_is_there_and_what_comes_and_stops_where_the_endpoint_does(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    def arrive() -> None:
        add_messages(table.uri, [message(11), message(12)], next_global_position=13)

    def erase() -> None:
        add_tombstones(HeldStore(table.uri), [("m13", 13)], AT, "erasing")
        add_messages(table.uri, [message(13), message(14)], next_global_position=15)

    with http_endpoint(lambda request: Answer(400 if request.position in (3, 12) else 202)) as endpoint:
        document = to_endpoint(table, endpoint, tmp_path)
        outcome = send(spark, document, Meanwhile(arrive, erase))
        assert endpoint.positions == [n for n in range(1, 15) if n not in (3, 12, 13)]
        assert (outcome.cursor.global_position, outcome.cursor.sent, outcome.cursor.set_aside) == (14, 11, 2)
        assert (outcome.progress.replayed, outcome.progress.set_aside, outcome.progress.erased) == (11, 2, 1)
        aside = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("refused/*/*.jsonl"))]
        assert [event["id"] for event in aside] == ["m3", "m12"]
        endpoint.answer = lambda request: Answer(202 if request.position < 18 else 403)
        add_messages(table.uri, map(message, range(15, 21)), next_global_position=21)
        with pytest.raises(RunFailedError, match="403"):
            send(spark, document)
        assert (endpoint.positions[-3:], cursor(table).global_position) == ([15, 16, 17], 17)
        endpoint.answer = lambda _: Answer()
        send(spark, document)
        assert endpoint.positions[-6:] == [*range(15, 21)]


@pytest.mark.parametrize("moment", few(["before", "after"], "before"))
def test_killed_at_a_cursor_at_most_one_batch_is_sent_again(
    spark: SparkSession, table: Table, tmp_path: Path, moment: str
) -> None:
    with http_endpoint() as endpoint:
        document = to_endpoint(table, endpoint, tmp_path)
        for nth in (1, 2, 3):
            with suppress(Crash), observing(crash_at("cursor", moment, nth)):
                send(spark, document)
        send(spark, document)
        assert set(endpoint.positions) == set(ALL)
        # Batches are of two events, then of four.
        assert len(endpoint.positions) <= len(ALL) + 3 * 4
