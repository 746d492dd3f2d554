"""Continuous replays to a real HTTP endpoint: each message at least once, whatever happens between two writes."""

import json
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import Folder, HttpDestination, HttpRetries
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask, Selection, Sequences, StartPoint, Subscription
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
from messagestore_jobs.replay import begin, continuous, newest
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


def to_endpoint(table: Table, endpoint: HttpEndpoint, folder: Path, **task: Any) -> RunDocument:
    refused = Folder(uri=f"file://{folder}/refused")
    to = HttpDestination(url=endpoint.url, delivery=QUICK, in_flight=2, dead_letter=refused)
    given = {
        "job_id": "job-1",
        "order": "Global",
        "subscription": Subscription(start=StartPoint(at="Beginning"), continuous=True),
        "destination": to,
    }
    return replay_document(table, ReplayTask(**{**given, **task}))


def send(spark: SparkSession, document: RunDocument, control: Meanwhile | None = None) -> ReplayOutcome:
    return run_replay(Run.of(document, spark, Silent()), control or Meanwhile())


def cursor(table: Table) -> Cursor:
    (path,) = Path(table.uri.removeprefix("file://")).glob("_cursors/*/cursor.json")
    return Cursor.model_validate_json(path.read_text())


def test_a_continuous_replay_sends_old_and_new_messages_and_stops_where_the_endpoint_fails(
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


def test_what_was_done_is_noted_in_time_though_there_is_always_more(
    spark: SparkSession, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(begin, "_NOTED_EVERY", timedelta(0))
    monkeypatch.setattr(continuous, "ROUND_POSITIONS", 4)
    with http_endpoint() as endpoint:
        send(spark, to_endpoint(table, endpoint, tmp_path))
    noted = [row["counts"]["replayed"] for row in read_audit(Store(table.uri)) if row["action"] == "Replay"]
    assert sorted(noted) == [2, 4, 4]


def test_the_erased_are_read_once_as_long_as_there_are_no_more(
    spark: SparkSession, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, as_it_is = list[str](), DeltaTable.to_pyarrow_dataset

    def noting(opened: DeltaTable, *given: Any, **settings: Any) -> Any:
        read.append(opened.table_uri.rstrip("/").rpartition("/")[2])
        return as_it_is(opened, *given, **settings)

    def arrive(position: int) -> None:
        add_messages(table.uri, [message(position)], next_global_position=position + 1)

    add_tombstones(HeldStore(table.uri), [("m3", 3)], AT, "erasing")
    monkeypatch.setattr(DeltaTable, "to_pyarrow_dataset", noting)
    with http_endpoint() as endpoint:
        send(spark, to_endpoint(table, endpoint, tmp_path), Meanwhile(*(partial(arrive, n) for n in (11, 12, 13))))
    assert endpoint.positions == [n for n in range(1, 14) if n != 3]
    assert read.count("tombstones") == 1


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


def part(position: int, sequence: str, number: int, size: int) -> dict[str, Any]:
    return message(position, sequence_id=sequence, sequence_number=number, sequence_size=size)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Two of three members of p, and all four of q, the last first."""
    monkeypatch.setattr(newest, "LOOK_WHOLE_SECONDS", 0)
    of_q = [part(7 - n, "q", n, 4) for n in range(4, 0, -1)]
    return make_store(tmp_path / "store", [part(1, "p", 2, 3), part(2, "p", 1, 3), *of_q])


def complete_p(table: Table) -> None:
    add_messages(table.uri, [part(7, "r", 1, 1), part(8, "p", 3, 3)], next_global_position=9)


def in_sequences(table: Table, endpoint: HttpEndpoint, folder: Path) -> RunDocument:
    select = Selection(sequences=Sequences(complete_only=True))
    return to_endpoint(table, endpoint, folder, select=select, order="Sequence")


OF_Q, OF_P_AND_R = [6, 5, 4, 3], [2, 1, 8, 7]
"""What is sent, in order, if q is sent before p is complete."""


def test_members_of_sequences_go_together_and_wait_where_the_endpoint_does(
    spark: SparkSession, parts: Table, tmp_path: Path
) -> None:
    def erase() -> None:
        add_tombstones(HeldStore(parts.uri), [("m9", 9)], AT, "erasing")
        add_messages(parts.uri, [part(9, "s", 1, 2), part(10, "s", 2, 2)], next_global_position=11)

    with http_endpoint(lambda request: Answer(400 if request.position == 4 else 202)) as endpoint:
        document = in_sequences(parts, endpoint, tmp_path)
        outcome = send(spark, document, Meanwhile(lambda: complete_p(parts), erase))
        assert endpoint.positions == [*(at for at in OF_Q if at != 4), *OF_P_AND_R]
        assert (outcome.cursor.global_position, outcome.cursor.sent, outcome.cursor.set_aside) == (10, 7, 1)
        assert (outcome.cursor.erased, outcome.cursor.waiting) == (1, 1)
        endpoint.answer = lambda request: Answer(403 if request.position == 12 else 202)
        add_messages(parts.uri, [part(11, "t", 1, 3), part(12, "t", 2, 3)], next_global_position=13)
        assert send(spark, document).cursor.waiting == 3
        add_messages(parts.uri, [part(13, "t", 3, 3)], next_global_position=14)
        with pytest.raises(RunFailedError, match="403"):
            send(spark, document)
        assert endpoint.positions[-1] == 11
        endpoint.answer = lambda _: Answer()
        assert send(spark, document).cursor.sent == 10
        assert endpoint.positions[-3:] == [11, 12, 13]


@pytest.mark.parametrize(
    ("name", "moment", "nth"),
    few(
        [
            (name, moment, nth)
            for name in ("cursor", "replay-sent", "replay-staged-removed", "replay-ended")
            for moment in ("before", "after")
            for nth in (1, 2)
        ],
        ("replay-sent", "before", 2),
    ),
)
@pytest.mark.long
def test_killed_at_any_write_members_of_sequences_go_at_least_once_and_in_order(
    spark: SparkSession, parts: Table, tmp_path: Path, name: str, moment: str, nth: int
) -> None:
    with http_endpoint() as endpoint:
        document = in_sequences(parts, endpoint, tmp_path)
        for _ in range(2):
            with suppress(Crash), observing(crash_at(name, moment, nth)):
                send(spark, document)
        complete_p(parts)
        with suppress(Crash), observing(crash_at(name, moment, nth)):
            send(spark, document)
        assert send(spark, document).cursor.sent == 8
    # What has no answer that was noted goes again; a batch is of two events first.
    assert len(endpoint.positions) <= 8 + 3 * 4
    assert list(dict.fromkeys(endpoint.positions)) == [*OF_Q, *OF_P_AND_R]
