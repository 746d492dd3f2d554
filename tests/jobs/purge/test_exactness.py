"""A purge removes exactly what its preview selected: random stores, compared with the rules in plain Python."""

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Archive, Hold, Match, Rule, StreamPosition
from messagestore_core.store.handle import Store
from messagestore_core.store.tombstones import open_erased
from support.purges import PREDICATES, archived_positions, purge, selected
from support.stores import START, Row, kept_heads, make_store, message, stored

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = START + 4 * DAY
STREAMS = ("order-1", "order-2", "invoice-1")
STATUSES = ("RECEIVED", "COMPLETED", "FAILED")

matches = st.builds(
    Match,
    stream_names=st.lists(st.sampled_from(STREAMS), max_size=1),
    statuses=st.lists(st.sampled_from(STATUSES), max_size=1),
    headers=st.sampled_from([{}, {"tenant": "acme"}]),
    where=st.sampled_from([None, *PREDICATES]),
)
rules = st.builds(
    Rule,
    name=st.just(""),
    expired=st.booleans(),
    statuses=st.sampled_from([(), ("COMPLETED",), ("RECEIVED", "FAILED")]),
    max_age=st.none() | st.integers(0, 96).map(lambda hours: hours * HOUR),
    max_messages_per_stream=st.none() | st.integers(0, 4),
    max_bytes=st.none() | st.integers(0, 120),
    truncate_before=st.none() | st.tuples(st.sampled_from(STREAMS), st.integers(0, 5)).map(
        lambda place: StreamPosition(stream_name=place[0], position=place[1])
    ),
    match=st.none() | matches,
    erase=st.booleans(),
)  # fmt: skip
one_condition = rules.flatmap(
    # One or two conditions of a complete rule: rules with all conditions select almost nothing.
    lambda rule: st.sets(st.sampled_from(["expired", "statuses", "max_age", "max_messages_per_stream", "max_bytes",
                                          "truncate_before", "match"]), min_size=1, max_size=2).map(
        lambda names: Rule(name="", erase=rule.erase, **{name: getattr(rule, name) for name in names})
    )
)  # fmt: skip
holds = st.builds(Hold, name=st.just("hold"), match=matches, until=st.sampled_from([None, NOW, NOW + HOUR]))


@st.composite
def stores(draw: st.DrawFn) -> list[Row]:
    heads = dict.fromkeys(STREAMS, 0)
    rows, at = [], START
    for number in range(draw(st.integers(1, 14))):
        stream = draw(st.sampled_from(STREAMS))
        at += draw(st.sampled_from([0, 3, 20])) * HOUR
        row = message(
            number,
            stream_name=stream,
            position=heads[stream],
            inserted_at=at,
            time=at + draw(st.sampled_from([-30, 0, 0, 500])) * HOUR,
            status=draw(st.sampled_from(STATUSES)),
            payload=draw(st.sampled_from([None, b"", b"12345678", b"1234567890"])),
            correlation_id=draw(st.sampled_from([None, "1", "2", "x"])),
            headers=draw(st.sampled_from([{}, {"tenant": "acme"}])),
            expires_at=draw(st.sampled_from([None, NOW, NOW + HOUR])),
        )
        heads[stream] += 1
        rows.append(row)
    return rows


def some_days(*late: int) -> list[Row]:
    """Two messages a day; those in ``late`` arrived two days after their time."""
    return [
        message(n, inserted_at=START + n // 2 * DAY, time=START + n // 2 * DAY - 2 * DAY * (n in late))
        for n in range(8)
    ]


OLD, OLDER = Rule(name="", max_age=2 * DAY), Rule(name="", max_age=3 * DAY)


SOME = given(rows=stores(), drawn=st.lists(one_condition, min_size=1, max_size=3), held=st.lists(holds, max_size=1))
# An example takes seconds: a failure is printed as found, as shrinking it would take an hour.
FEW = settings(
    max_examples=2,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@FEW
@example(rows=some_days(), drawn=[OLD, OLDER], held=[])
@example(rows=some_days(5, 6), drawn=[OLDER, OLD], held=[])
@SOME
def test_a_purge_removes_exactly_what_its_rules_select(
    spark: SparkSession, rows: list[Row], drawn: list[Rule], held: list[Hold]
) -> None:
    _selected(spark, rows, drawn, held)


@pytest.mark.long
@settings(FEW, max_examples=10)
@SOME
def test_a_purge_removes_exactly_what_random_rules_select(
    spark: SparkSession, rows: list[Row], drawn: list[Rule], held: list[Hold]
) -> None:
    _selected(spark, rows, drawn, held)


def _selected(spark: SparkSession, rows: list[Row], drawn: list[Rule], held: list[Hold]) -> None:
    named = [rule.model_copy(update={"name": f"rule-{number}"}) for number, rule in enumerate(drawn)]
    expected = selected(rows, named, held, NOW)
    folder = Path(tempfile.mkdtemp())
    try:
        _check(spark, folder, rows, named, held, expected.going, expected.rules, len(expected.held))
    finally:
        shutil.rmtree(folder)


def _check(
    spark: SparkSession, folder: Path, rows: list[Row], named: list[Rule], held: list[Hold], going: list[int],
    by_rule: dict[int, set[str]], kept_by_holds: int,
) -> None:  # fmt: skip
    table = make_store(folder / "store", rows)
    before = {row["global_position"]: row for row in stored(table.uri)}
    task: dict[str, Any] = {"rules": named, "holds": held, "archive": Archive(uri=f"file://{folder}/archive")}
    outcome = purge(spark, table, NOW, **task)
    erased = {n for n in going if any(rule.erase and rule.name in by_rule[n] for rule in named)}

    assert stored(table.uri) == [before[n] for n in sorted(set(before) - set(going))]
    assert archived_positions(f"file://{folder}/archive") == sorted(set(going) - erased)
    assert outcome.preview.messages == len(going)
    assert outcome.preview.held == kept_by_holds
    assert outcome.preview.bytes == sum(before[n]["payload_size"] or 0 for n in going)
    assert outcome.preview.by_rule == {rule.name: sum(rule.name in by_rule[n] for n in going) for rule in named}
    assert (outcome.purge.purged, outcome.purge.erased) == (len(going), len(erased))
    assert len(open_erased(Store(table.uri))) == len(erased)
    heads = kept_heads(Store(table.uri))
    for number in going:
        row = before[number]
        assert heads.next_position(row["stream_name"]) > row["position"]
        assert heads.next_global > number
