"""Each selector: rows that match it, and rows that don't."""

from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.replay import Interval, Selection, Sequences, TimeWindow
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.replay.selection import check, selected_dead_letters, selected_messages
from messagestore_jobs.rows.messages import read_messages
from support.replays import AT, files_replay, sent
from support.stores import START, add_dead_letters, make_store, message

pytestmark = pytest.mark.usefixtures("compiled")

HOUR = timedelta(hours=1)

ROWS = [
    message(1, stream_name="order-1", position=0, type="created", time=START),
    message(2, stream_name="order-1", position=1, type="paid", time=START + HOUR, headers={"a": "1", "b": "2"}),
    message(3, stream_name="check_run-7", position=0, time=START + 2 * HOUR, headers={"a": "1"}, payload=b'{"n":30}'),
    message(4, stream_name="order-2", position=0, type=None, correlation_id="c1", time=START + HOUR / 2),
    message(5, stream_name="order-2", position=1, status="FAILED", retries=1, next_retry_at=AT),
    message(6, status="FAILED", retries=1, next_retry_at=AT + timedelta(microseconds=1), position=5),
    message(7, status="FAILED", retries=9, position=6),
    message(8, status="RECEIVED", next_retry_at=AT - HOUR, position=7),
    # Sequences: complete by size, complete by end, with a gap, without a size, with a size that its numbers contradict.
    message(10, sequence_id="sized", sequence_number=2, position=8),
    message(11, sequence_id="sized", sequence_number=1, sequence_size=2, position=9),
    message(12, sequence_id="ended", sequence_number=1, position=10),
    message(13, sequence_id="ended", sequence_number=2, sequence_end=True, position=11),
    message(14, sequence_id="gap", sequence_number=1, position=12),
    message(15, sequence_id="gap", sequence_number=3, sequence_end=True, position=13),
    message(16, sequence_id="open", sequence_number=1, position=14),
    message(17, sequence_id="more", sequence_number=1, sequence_size=1, position=15),
    message(18, sequence_id="more", sequence_number=2, position=16),
    message(19, sequence_id="twice", sequence_number=1, sequence_size=2, position=17),
    message(20, sequence_id="twice", sequence_number=1, position=18),
]
ALL = [row["global_position"] for row in ROWS]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return make_store(tmp_path_factory.mktemp("selection") / "store", ROWS[:8], ROWS[8:])


SELECTORS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, ALL),
    ({"time_window": TimeWindow.model_validate({"from": START + HOUR})}, [2, 3]),
    ({"time_window": TimeWindow(to=START + HOUR), "stream_names": ("order-1", "order-2"), "limit": None},
     [1, 4, 5, *ALL[5:]]),
    ({"time_window": TimeWindow.model_validate({"from": START + HOUR / 2, "to": START + 2 * HOUR})}, [2, 4]),
    ({"global_positions": Interval.model_validate({"from": 2, "to": 4})}, [2, 3, 4]),
    ({"global_positions": Interval.model_validate({"from": 19})}, [19, 20]),
    ({"positions": Interval.model_validate({"from": 1, "to": 1}), "stream_names": ("order-1",)}, [2]),
    ({"positions": Interval(to=0)}, [1, 3, 4]),
    ({"stream_names": ("order-2", "none-1")}, [4, 5]),
    ({"categories": ("check_run",)}, [3]),
    ({"types": ("paid", "nothing")}, [2]),
    ({"statuses": ("FAILED",)}, [5, 6, 7]),
    ({"correlation_ids": ("c1",)}, [4]),
    ({"message_ids": ("m3", "m20", "m99")}, [3, 20]),
    ({"headers": {"a": "1"}}, [2, 3]),
    ({"headers": {"a": "1", "b": "2"}}, [2]),
    ({"headers": {"a": "2"}}, []),
    ({"sequences": Sequences(ids=("gap", "sized"))}, [10, 11, 14, 15]),
    ({"sequences": Sequences(complete_only=True)}, [10, 11, 12, 13]),
    ({"sequences": Sequences(ids=("gap", "sized"), complete_only=True)}, [10, 11]),
    ({"sequences": Sequences()}, ALL),
    ({"due_for_retry": True}, [5]),
    ({"where": "json(payload, '$.n') = '30' OR type IS NULL"}, [3, 4]),
    ({"types": ("created",), "categories": ("order",), "global_positions": Interval(to=5)}, [1, 5]),
]  # fmt: skip


def test_each_selector_takes_exactly_its_messages(spark: SparkSession, table: Table) -> None:
    messages = read_messages(spark, Store(table.uri)).cache()
    taken = [
        selected_messages(messages, Selection(**selectors), AT).select(F.lit(i).alias("case"), "global_position")
        for i, (selectors, _) in enumerate(SELECTORS)
    ]
    found: dict[int, list[int]] = {i: [] for i in range(len(SELECTORS))}
    for case, position in reduce(DataFrame.union, taken).collect():
        found[case].append(position)
    for i, (selectors, expected) in enumerate(SELECTORS):
        assert sorted(found[i]) == expected, selectors


@pytest.mark.parametrize(
    ("selectors", "order", "expected"),
    [
        ({"limit": 3}, "PerStream", [1, 2, 3]),
        ({"limit": 3}, "Sequence", [12, 13, 14]),
        ({"limit": 2, "statuses": ("FAILED",)}, "Global", [5, 6]),
        ({"limit": 1000, "sequences": Sequences(complete_only=True)}, "Sequence", [12, 13, 11, 10]),
        ({"limit": 1, "types": ("none",)}, "Global", []),
    ],
)
def test_a_replay_sends_the_first_messages_of_its_order_up_to_the_limit(
    spark: SparkSession, table: Table, tmp_path: Path, selectors: dict[str, Any], order: str, expected: list[int]
) -> None:
    document = files_replay(table, tmp_path / "out", select=Selection(**selectors), order=order)
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert sent(tmp_path / "out") == expected
    assert outcome.selection.messages == outcome.progress.replayed == len(expected)
    assert outcome.selection.bytes == sum(row["payload_size"] for row in ROWS if row["global_position"] in expected)
    assert outcome.selection.first_global_position == min(expected, default=None)
    assert outcome.selection.last_global_position == max(expected, default=None)


def test_a_predicate_that_may_not_run_is_refused_before_anything_is_written(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    document = files_replay(table, tmp_path / "out", select=Selection(where="reflect('java.lang.System', 'exit')"))
    with pytest.raises(RunFailedError, match=r"select\.where") as refused:
        run_replay(Run.of(document, spark, Silent()))
    assert refused.value.reason == "PredicateRefused"
    assert not (tmp_path / "out").exists()


def test_dead_letters_have_columns_of_their_own() -> None:
    check(Selection(where="reason = 'Unparseable' AND message_id = 'm1'"), "DeadLetters")
    with pytest.raises(RunFailedError):
        check(Selection(where="payload_size > 1"), "DeadLetters")


def test_dead_letters_by_reason_time_and_predicate(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    moments = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 5)]
    add_dead_letters(
        table.uri,
        [
            {"raw": b"a", "reason": "Unparseable", "failed_at": moments[0]},
            {"raw": b"b", "reason": "MissingField", "failed_at": moments[1]},
            {"raw": b"c", "reason": "Unparseable", "failed_at": moments[2]},
            {"raw": b"d", "reason": "Unparseable", "failed_at": moments[3], "redriven_at": AT},
        ],
    )
    dead_letters = spark.read.format("delta").load(f"{table.uri}/dead_letters")

    def taken(**selectors: Any) -> set[bytes]:
        rows = selected_dead_letters(dead_letters, Selection(**selectors)).select("raw").collect()
        return {bytes(row[0]) for row in rows}

    assert taken() == {b"a", b"b", b"c"}
    assert taken(reasons=("Unparseable",)) == {b"a", b"c"}
    assert taken(time_window=TimeWindow.model_validate({"from": moments[1], "to": moments[2]})) == {b"b"}
    assert taken(where="reason <> 'MissingField' AND failed_at > TIMESTAMP '2026-01-02 00:00:00'") == {b"c"}
