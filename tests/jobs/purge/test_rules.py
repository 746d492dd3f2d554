"""Each rule alone, rules together, and holds over all of them."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Hold, Match, PurgeTask, Rule, StreamPosition
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.context import Run
from messagestore_jobs.purge.selection import select
from messagestore_jobs.rows.matching import matches, undecided
from support.purges import POLICY, Said, purge, selected
from support.stores import START, make_store, message, positions

pytestmark = pytest.mark.usefixtures("compiled")

DAY = timedelta(days=1)
NOW = START + 3 * DAY


def rows() -> list[dict]:
    """Twelve messages, one every eight hours, in two streams."""
    made = [
        message(
            n,
            stream_name="order-1" if n % 3 else "invoice-9",
            position=n // 3 if n % 3 == 0 else n,
            inserted_at=START + n * DAY / 3,
            status=["RECEIVED", "COMPLETED", "FAILED"][n % 3],
            type="created" if n < 6 else "paid",
            payload=b"x" * 10,
            correlation_id=f"c{n % 4}",
            sequence_id=f"s{n % 5}",
            headers={"tenant": "acme" if n % 2 else "other"},
            expires_at=START + DAY if n in (2, 5) else None,
        )
        for n in range(12)
    ]
    made[4]["time"] = NOW + 1000 * DAY  # a time in the future keeps nothing for ever
    made[11]["time"] = START - 100 * DAY
    return made


RULES = [
    # Longer than time goes back.
    (Rule(name="never", max_age=1_000_000 * DAY), set()),
    (Rule(name="expired", expired=True), {2, 5}),
    (Rule(name="statuses", statuses=("COMPLETED",)), {1, 4, 7, 10}),
    (Rule(name="expired-failed", expired=True, statuses=("COMPLETED",)), set()),
    (Rule(name="old", max_age=2 * DAY), {0, 1, 2, 11}),
    (Rule(name="cap", max_messages_per_stream=3), {0, 1, 2, 4, 5, 7}),
    (Rule(name="cap-none", max_messages_per_stream=0), set(range(12))),
    (Rule(name="cap-paid", max_messages_per_stream=1, match=Match(types=("paid",))), {6, 7, 8, 10}),
    (Rule(name="bytes", max_bytes=75), {11, 0, 1, 2, 3}),
    (Rule(name="bytes-fit", max_bytes=120), set()),
    (Rule(name="bytes-paid", max_bytes=105, statuses=("RECEIVED",)), {0, 3}),
    (Rule(name="bytes-all", max_bytes=0, statuses=("RECEIVED",)), {0, 3, 6, 9}),
    (Rule(name="truncated", truncate_before=StreamPosition(stream_name="invoice-9", position=2)), {0, 3}),
    (Rule(name="streams", match=Match(stream_names=("invoice-9",))), {0, 3, 6, 9}),
    (Rule(name="categories", match=Match(categories=("invoice", "none"))), {0, 3, 6, 9}),
    (Rule(name="correlation", match=Match(correlation_ids=("c1",), types=("paid",))), {9}),
    (Rule(name="sequence", match=Match(sequence_ids=("s0",))), {0, 5, 10}),
    (Rule(name="ids", match=Match(message_ids=("m3", "m4", "mx"))), {3, 4}),
    (Rule(name="headers", match=Match(headers={"tenant": "acme"}, statuses=("FAILED",))), {5, 11}),
    (Rule(name="where", match=Match(where="position > 7 AND correlation_id = 'c2'")), {10}),
    (Rule(name="nothing"), set()),
    (Rule(name="nothing-matched", match=Match()), set()),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Table:
    made = rows()
    return make_store(tmp_path_factory.mktemp("rules") / "store", made[:5], made[5:])


def judge(spark: SparkSession, table: Table, rules: tuple[Rule, ...], *holds: Hold) -> dict[int, tuple[set, bool]]:
    task = PurgeTask(rules=rules, holds=holds)
    document = RunDocument(run="r", resource=POLICY, table=table, at=NOW, task=task)
    here = Run.of(document, spark, Said()).with_task(PurgeTask)
    selection = select(here)
    found = selection.rows.collect()
    selection.release()
    return {row["global_position"]: (set(row["rules"]), row["held"]) for row in found}


def test_each_rule_selects_exactly_its_messages(spark: SparkSession, store: Table) -> None:
    found = judge(spark, store, tuple(rule for rule, _ in RULES))
    by_rule = {rule.name: {n for n, (names, _) in found.items() if rule.name in names} for rule, _ in RULES}
    assert by_rule == {rule.name: expected for rule, expected in RULES}


def test_the_model_selects_what_each_rule_selects() -> None:
    for rule, expected in RULES:
        if rule.match is None or rule.match.where is None:
            assert set(selected(rows(), [rule], [], NOW).rules) == expected


def test_holds_beat_every_rule_while_they_last(spark: SparkSession, store: Table) -> None:
    holds = (
        Hold(name="stream", match=Match(stream_names=("invoice-9",))),
        Hold(name="over", match=Match(), until=NOW),
        Hold(name="lasting", match=Match(message_ids=("m1",)), until=NOW + DAY),
    )
    found = judge(spark, store, (Rule(name="all", max_messages_per_stream=0),), *holds)
    assert {n for n, (_, held) in found.items() if held} == {0, 3, 6, 9, 1}


def test_held_messages_fill_a_cap_and_count_as_bytes(spark: SparkSession, store: Table) -> None:
    holds = (Hold(name="newest", match=Match(message_ids=("m11", "m9", "m0"))),)
    found = judge(spark, store, (Rule(name="cap", max_messages_per_stream=3), Rule(name="bytes", max_bytes=95)), *holds)
    caps = {n for n, (names, _) in found.items() if "cap" in names}
    sizes = {n: held for n, (names, held) in found.items() if "bytes" in names}
    assert caps == {0, 1, 2, 4, 5, 7}
    assert sizes == {11: True, 0: True, 1: False, 2: False, 3: False}


def test_a_rule_over_payloads_does_not_decide_about_a_claim_check(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [
            (1, b'{"n":1}', None, "a"),
            (2, b'{"m":1}', None, "a"),
            (3, None, "payloads/3", "a"),
            (4, None, "payloads/4", "b"),
            (5, None, None, "a"),
        ],
        "n int, payload binary, payload_uri string, type string",
    )
    rule = Match(where="type = 'a' AND json(payload, '$.n') = '1'")
    found = rows.select("n", undecided(rule).alias("undecided"), matches(rule).alias("matches")).collect()
    assert {row["n"] for row in found if row["undecided"]} == {3}
    assert {row["n"] for row in found if row["matches"]} == {1}


@pytest.mark.parametrize("of", ["rule", "hold"])
def test_a_predicate_that_is_refused_lets_nothing_go(spark: SparkSession, tmp_path: Path, of: str) -> None:
    """Of a hold on a stream a policy's run learns only from its document."""
    table = make_store(tmp_path / "store", [message(n) for n in range(3)])
    match = Match(where="type RLIKE 'a+'")
    rules = (Rule(name="all", max_messages_per_stream=0, match=match if of == "rule" else None),)
    holds = (Hold(name="some", match=match),) if of == "hold" else ()
    with pytest.raises(RunFailedError, match=r"match\.where: `RLIKE` at character 6.*write LIKE") as refused:
        purge(spark, table, NOW, rules=rules, holds=holds)
    assert (refused.value.reason, positions(table.uri)) == ("PredicateRefused", [0, 1, 2])


def test_a_predicate_that_cannot_be_told_keeps_the_message(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(n, correlation_id=c) for n, c in enumerate(["5", "x", None, "1"])])
    number = Match(where="int(correlation_id) >= 2")
    said = Said()
    outcome = purge(spark, table, NOW, mode="DryRun", rules=(Rule(name="number", match=number),), said=said)
    assert outcome.preview.messages == 1
    assert said.lines == ["1 messages stay: a rule's predicate could not be computed on them"]
    assert outcome.preview.undecided == 1
    everything = (Rule(name="all", max_messages_per_stream=0),)
    purge(spark, table, NOW, rules=everything, holds=(Hold(name="number", match=number),))
    assert positions(table.uri) == [0, 1]
