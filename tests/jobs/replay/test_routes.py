"""Routes: each of several destinations gets what its condition says, once, whatever happens to the others."""

import json
from collections import Counter
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from messagestore_core.contract.destinations import FilesDestination, StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import ConsumedBy, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import (
    DestinationState,
    ReplayOutcome,
    ReplayTask,
    Reset,
    Route,
    RoutesDestination,
    StartPoint,
    Subscription,
)
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.handle import Store
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.replay import chunks, cursor
from support.crash import crash_run
from support.long import few
from support.purges import purge
from support.replays import AT, crash, files_replay, replay_document, sent
from support.stores import add_messages, make_store, message, positions, stored

BEGINNING = StartPoint(at="Beginning")
EU = "headers['region'] = 'eu'"
LARGE = "json(payload, '$.n') >= 4"


def messages(*numbers: int) -> list[dict[str, Any]]:
    """Odd ones go to eu; those from 4 on are large."""
    return [message(n, stream_name=f"c{n}-1", headers={"region": "eu" if n % 2 else "us"}) for n in numbers]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Five messages."""
    return make_store(tmp_path / "store", messages(1, 2, 3, 4, 5))


def arrive(table: Table, *rows: dict[str, Any]) -> None:
    add_messages(table.uri, rows, next_global_position=max(row["global_position"] for row in rows) + 1)


def files(folder: Path) -> FilesDestination:
    return FilesDestination(uri=f"file://{folder}")


def stream(folder: Path) -> StreamDestination:
    to = Table(uri=f"file://{folder}", owner=Owner(namespace="default", name="target"))
    return StreamDestination(table=to, ingest=IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere")))


def routes(table: Table, *several: Route, reset: Reset | None = None) -> RunDocument:
    subscription = Subscription(start=BEGINNING, reset=reset)
    destination = RoutesDestination(routes=several)
    return replay_document(table, ReplayTask(job_id="job-1", subscription=subscription, destination=destination))


def two(table: Table, folder: Path, **second: Any) -> RunDocument:
    """Two destinations: eu, and one that gets all others."""
    eu = Route(name="eu", where=EU, destination=files(folder / "eu"))
    rest = {"name": "rest", "otherwise": True, "destination": files(folder / "rest"), **second}
    return routes(table, eu, Route(**rest))


def run(spark: SparkSession, document: RunDocument) -> RunReport:
    return execute(document, lambda: spark, Silent(), 0, lambda: AT)


def send(spark: SparkSession, document: RunDocument) -> dict[str, DestinationState]:
    """The destinations after a run that has not failed."""
    report = run(spark, document)
    assert report.error is None, report.error
    assert isinstance(report.outcome, ReplayOutcome)
    return {one.name: one for one in report.outcome.destinations}


def reached(states: dict[str, DestinationState]) -> dict[str, tuple[int, int]]:
    """The cursor of each destination, and how many it was sent."""
    return {
        name: (one.cursor.global_position, one.cursor.sent) for name, one in states.items() if one.cursor is not None
    }


def cursors(table: Table) -> dict[str, dict[str, Any]]:
    """The cursors of destinations that the subscription still has."""
    found = Path(table.uri.removeprefix("file://")).glob("_cursors/*/cursor.json")
    read = [json.loads(path.read_text()) for path in found]
    return {one["destination"]: one for one in read if not one.get("removed")}


def test_each_destination_gets_what_its_condition_says(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    document = routes(
        table,
        Route(name="eu", where=EU, destination=files(tmp_path / "eu")),
        Route(name="large", where=LARGE, destination=files(tmp_path / "large")),
        Route(name="rest", otherwise=True, destination=stream(tmp_path / "rest")),
    )
    report = run(spark, document)
    assert report.error is None
    assert isinstance(report.outcome, ReplayOutcome)
    outcome = report.outcome
    assert reached({one.name: one for one in outcome.destinations}) == {"eu": (5, 3), "large": (5, 2), "rest": (5, 1)}
    assert (outcome.progress.replayed, outcome.selection.messages, outcome.redelivered) == (6, 6, 6)
    assert (outcome.complete, outcome.round, outcome.cursor, outcome.progress.percent) == (True, 1, None, 100)
    # Neither a header that is absent nor a payload that is no JSON matches anything.
    arrive(table, message(6, headers={}), message(7, payload=b"{", headers={"region": "us"}), *messages(9))
    assert reached(send(spark, document)) == {"eu": (9, 4), "large": (9, 4), "rest": (9, 2)}
    assert (sent(tmp_path / "eu"), sent(tmp_path / "large")) == ([1, 3, 5, 9], [4, 5, 6, 9])
    assert [row["message_id"] for row in stored(f"file://{tmp_path}/rest")] == ["m2", "m7"]
    rows = [json.loads(row["rules"]) for row in read_audit(Store(table.uri)) if row["action"] == "Replay"]
    assert Counter(row["job"] for row in rows) == {
        f"default.again_{name}_{n}": 1 for name in ("eu", "large", "rest") for n in (1, 2)
    }
    assert not list((tmp_path / "store" / "_replays").glob("*"))


def test_a_message_that_comes_while_conditions_are_looked_at_is_not_passed_over(
    spark: SparkSession, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_it_is, looks = cursor._first_position, count(1)

    def meanwhile(rows: DataFrame) -> int | None:
        first = as_it_is(rows)
        # The first look is for a message that can't be decided.
        if next(looks) == 1:
            arrive(table, message(6, payload=b"{"))
        return first

    monkeypatch.setattr(cursor, "_first_position", meanwhile)
    document = routes(
        table,
        Route(name="large", where=LARGE, destination=files(tmp_path / "large")),
        Route(name="all", destination=files(tmp_path / "all")),
    )
    assert reached(send(spark, document)) == {"large": (5, 2), "all": (6, 6)}
    error = send(spark, document)["large"].error
    assert (error and error.reason) == "RouteUndecided"


def test_an_unreachable_destination_delays_no_other_and_gets_all_once_it_is_back(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    (tmp_path / "out").mkdir()
    away = tmp_path / "out" / "rest"
    away.write_text("a file where the folder would be")
    document = two(table, tmp_path / "out")
    first = send(spark, document)
    assert (reached(first), first["eu"].error, first["rest"].cursor) == ({"eu": (5, 3)}, None, None)
    assert first["rest"].error is not None
    away.unlink()
    assert reached(send(spark, document))["rest"] == (5, 2)
    away.rename(tmp_path / "out" / "moved")
    away.write_text("a file where the folder would be")
    arrive(table, *messages(6, 7))
    second = send(spark, document)
    assert reached(second) == {"eu": (7, 4), "rest": (5, 2)}
    assert second["rest"].cursor.lag.records == 1
    away.unlink()
    (tmp_path / "out" / "moved").rename(away)
    arrive(table, *messages(8))
    assert reached(send(spark, document)) == {"eu": (8, 4), "rest": (8, 4)}
    assert (sent(tmp_path / "out" / "eu"), sent(away)) == ([1, 3, 5, 7], [2, 4, 6, 8])


def test_a_run_fails_if_all_fail_and_leaves_those_that_rest(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    (tmp_path / "out").write_text("a file where the folders would be")
    report = run(spark, two(table, tmp_path / "out"))
    assert (report.state, report.error.reason if report.error else None) == ("Failed", "DestinationsFailed")
    assert report.error.message.startswith("eu: RunFailed: ")
    assert isinstance(report.outcome, ReplayOutcome)
    assert [one.name for one in report.outcome.destinations] == ["eu", "rest"]
    (tmp_path / "out").unlink()
    assert reached(send(spark, two(table, tmp_path / "out", rests=True))) == {"eu": (5, 3)}


def test_an_added_destination_begins_at_its_start_and_a_removed_one_loses_its_cursor(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    eu, out = Route(name="eu", where=EU, destination=files(tmp_path / "eu")), tmp_path / "audit"
    send(spark, routes(table, eu, Route(name="old", destination=files(tmp_path / "old"))))
    added = Route(name="audit", start=StartPoint(global_position=4), destination=files(out))
    back = Reset(value="5", to=StartPoint(global_position=5))
    assert reached(send(spark, routes(table, eu, added, reset=back))) == {"eu": (5, 4), "audit": (5, 2)}
    assert (sorted(cursors(table)), sent(tmp_path / "eu"), sent(out)) == (["audit", "eu"], [1, 3, 5, 5], [4, 5])
    # Moved by its name, one alone, and once.
    alone = eu.model_copy(update={"reset": Reset(value="3", to=StartPoint(global_position=3))})
    for _ in range(2):
        assert reached(send(spark, routes(table, alone, added))) == {"eu": (5, 6), "audit": (5, 2)}
    assert {name: one["resets"] for name, one in cursors(table).items()} == {"eu": 2, "audit": 0}
    moved = [json.loads(row["rules"]) for row in read_audit(Store(table.uri)) if row["action"] == "Reset"]
    assert sorted((row["job"], row["resetTo"]) for row in moved) == [("job-1_eu", "3"), ("job-1_eu", "5")]
    arrive(table, *messages(6, 7))
    send(spark, routes(table, eu))
    assert sorted(cursors(table)) == ["eu"]
    # What is added again begins at its start again, in the folder where it was.
    again = added.model_copy(update={"start": StartPoint(global_position=2)})
    assert reached(send(spark, routes(table, eu, again))) == {"eu": (7, 7), "audit": (7, 6)}
    assert sent(out) == [4, 5, 2, 3, 4, 5, 6, 7]
    # A resource of this name with one destination has none of them.
    run(spark, files_replay(table, tmp_path / "one", subscription=Subscription(start=BEGINNING)))
    assert sorted(cursors(table)) == [""]


def test_a_message_that_a_condition_can_not_be_computed_for_stops_that_destination_there(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    large = Route(name="large", where=LARGE, destination=files(tmp_path / "large"))
    audit = Route(name="audit", destination=files(tmp_path / "audit"))
    arrive(table, *messages(6), message(7, payload=b"{"), *messages(8))
    states = send(spark, routes(table, large, audit))
    assert reached(states) == {"large": (6, 3), "audit": (8, 8)}
    assert states["large"].error.reason == "RouteUndecided"
    assert "before global position 7 is sent" in states["large"].error.message
    assert reached(send(spark, routes(table, large, audit))) == {"large": (6, 3), "audit": (8, 8)}
    rest = Route(name="rest", otherwise=True, start=StartPoint(global_position=7), destination=files(tmp_path / "rest"))
    assert reached(send(spark, routes(table, large, audit, rest)))["large"] == (8, 4)
    assert (sent(tmp_path / "large"), sent(tmp_path / "rest")) == ([4, 5, 6, 8], [7])


def test_a_purge_keeps_what_the_slowest_destination_has_not_passed(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    document = two(table, tmp_path / "out")
    rule = Rule(name="r", consumed_by=ConsumedBy(replay_jobs=(document.resource.name,)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rest").write_text("a file where the folder would be")
    send(spark, document)
    # The one that has no cursor yet has passed nothing.
    assert purge(spark, table, AT + timedelta(days=1), rules=(rule,)).purge.purged == 0
    (tmp_path / "out" / "rest").unlink()
    send(spark, document)
    arrive(table, *messages(6))
    send(spark, two(table, tmp_path / "out", rests=True))
    assert purge(spark, table, AT + timedelta(days=2), rules=(rule,), run="purge-2").purge.purged == 5
    assert positions(table.uri) == [6]


WRITES = ("cursor", "replay-frozen", "replay-seal", "replay-object", "replay-manifest", "audit-replay")


@pytest.mark.parametrize("kind", few(WRITES))
def test_killed_before_or_after_any_write_each_gets_its_messages_once(
    spark: SparkSession, tmp_path: Path, table: Table, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 0.1)
    document = two(table, tmp_path / "out")
    for moment in ("before", "after"):
        for at in (2, 4):
            crash(lambda: run(spark, document), kind, moment, at)
    arrive(table, *messages(6, 7))
    assert reached(send(spark, document)) == {"eu": (7, 4), "rest": (7, 3)}
    assert (Counter(sent(tmp_path / "out" / "eu")), Counter(sent(tmp_path / "out" / "rest"))) == (
        *(Counter([1, 3, 5, 7]), Counter([2, 4, 6])),
    )


@pytest.mark.long
def test_killed_within_a_write_each_gets_its_messages_once(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    document = two(table, tmp_path / "out")
    for nth in (1, 2):
        crash_run(spark, document, "replay-object", "within", nth)
    send(spark, document)
    assert (sent(tmp_path / "out" / "eu"), sent(tmp_path / "out" / "rest")) == ([1, 3, 5], [2, 4])
