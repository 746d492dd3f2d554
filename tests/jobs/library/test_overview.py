"""The figures of a store that its page shows."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Transaction

from messagestore.reader import Reader
from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.purge import ConsumedBy, Hold, Match, Rule, StreamPosition
from messagestore_core.contract.stores import Table
from messagestore_core.store.delta_log import CommitNote
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.schemas import FILES, MESSAGES, OFFSETS
from support.purges import selected
from support.stores import START, Row, add_dead_letters, add_rows, make_store, message

DAY = timedelta(days=1)
FILE: Row = {"uri": "file:///landing/a", "size": 10, "start": 0, "end": 10}
TOPIC: Row = {"topic": "orders", "topic_id": "t", "partition": 0, "start": 0, "end": 7, "latest": 12}


def ingest(table: Table, name: str, plan: Row, totals: IngestCounts) -> None:
    """A batch's plan, then the commit that ends it."""
    store, schema = HeldStore(table.uri), {"files": FILES, "offsets": OFFSETS}[name]
    add_rows(store, name, pa.Table.from_pylist([plan], schema=schema))
    batch = Transaction(plan["source_id"], plan["batch"])
    add_rows(store, "messages", MESSAGES.empty_table(), CommitNote(run="ingest", totals=totals), batch)


def test_messages_are_counted_by_day_category_type_and_status(tmp_path: Path) -> None:
    rows = [
        message(1),
        message(2, payload=None),
        message(3, status="FAILED"),
        message(4, stream_name="cart-1", type=None, inserted_at=START + DAY),
    ]
    overview = Reader(make_store(tmp_path / "store", rows).uri).overview()

    assert [
        (p.day - START.date(), p.category, p.type, p.status, p.messages, p.payload_bytes) for p in overview.parts
    ] == [
        (timedelta(), "order", "created", "FAILED", 1, 7),
        (timedelta(), "order", "created", "RECEIVED", 2, 7),
        (DAY, "cart", None, "RECEIVED", 1, 7),
    ]
    assert overview.totals.stored == 4
    assert overview.file_bytes > 0


def test_a_store_without_anything_has_an_overview(tmp_path: Path) -> None:
    overview = Reader(make_store(tmp_path / "store", []).uri).overview()

    assert (overview.parts, overview.reasons, overview.batches) == ((), (), ())


def test_dead_letters_are_counted_by_reason_those_that_wait_apart(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    add_dead_letters(
        table.uri,
        [
            {"raw": b"{", "failed_at": START},
            {"raw": b"[", "failed_at": START + DAY, "redriven_at": START + 2 * DAY},
            {"raw": b"{}", "failed_at": START, "reason": "MissingField"},
        ],
    )
    reader = Reader(table.uri)

    assert [(r.reason, r.open, r.redriven, r.first, r.last) for r in reader.overview().reasons] == [
        ("MissingField", 1, 0, START, START),
        ("Unparseable", 1, 1, START, START + DAY),
    ]
    assert [one.raw for one in reader.dead_letters(["MissingField"], raw=False)] == [None]


def test_batches_tell_how_long_their_records_waited(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    arrived = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    plan = {"source_id": "source-1", "batch": 1, "at": arrived + timedelta(minutes=10), "modified_at": arrived, **FILE}
    ingest(table, "files", plan, IngestCounts(received=5, stored=4, dead_lettered=1))
    ingest(
        table,
        "offsets",
        {"source_id": "source-2", "batch": 9, "at": arrived, **TOPIC},
        IngestCounts(received=12, stored=11, dead_lettered=1),
    )
    ingest(
        table,
        "files",
        {**plan, "batch": 2, "at": arrived - DAY},
        IngestCounts(received=13, stored=11, dead_lettered=1, duplicates=1),
    )

    of_file, of_topic, of_another_clock = Reader(table.uri).overview().batches

    assert of_file.lag == timedelta(minutes=10)
    assert of_file.visible_after is not None
    assert timedelta(hours=1) <= of_file.visible_after < timedelta(hours=2)
    assert of_file.counts == IngestCounts(received=5, stored=4, dead_lettered=1)
    assert (of_topic.number, of_topic.lag, of_topic.unread) == (9, None, 5)
    assert of_topic.counts == IngestCounts(received=7, stored=7)
    assert of_another_clock.lag is None
    assert of_another_clock.counts == IngestCounts(received=1, duplicates=1)
    assert [one.number for one in Reader(table.uri).overview(batches=1).batches] == [2]


NOW = START + 3 * DAY
ROWS = [
    message(
        n,
        stream_name="order-1" if n % 3 else "invoice-9",
        position=n // 3 if n % 3 == 0 else n,
        inserted_at=START + n * DAY / 3,
        time=START + (n - 40) * DAY / 3 if n % 4 == 0 else NOW + n * DAY,
        status=["RECEIVED", "COMPLETED", "FAILED"][n % 3],
        type="created" if n < 6 else "paid",
        correlation_id=f"c{n % 4}",
        sequence_id=f"s{n % 5}",
        expires_at=START + n * DAY / 2 if n % 2 else None,
    )
    for n in range(1, 25)
]
OLD = Rule(name="old", max_age=10 * DAY)
RULES = [
    [OLD],
    [Rule(name="soon", max_age=timedelta(hours=7))],
    [Rule(name="never", max_age=1_000_000 * DAY)],
    [Rule(name="expired", expired=True)],
    [Rule(name="both", expired=True, max_age=4 * DAY)],
    [OLD, Rule(name="failed", statuses=("FAILED",)), Rule(name="paid", match=Match(types=("paid",)), max_age=2 * DAY)],
    [Rule(name="before", truncate_before=StreamPosition(stream_name="order-1", position=8))],
    [
        Rule(
            name="some",
            match=Match(stream_names=("order-1",), correlation_ids=("c1", "c'2"), message_ids=("m5", "m14")),
        )
    ],
    [Rule(name="says-nothing"), Rule(name="matches-all", match=Match())],
]
HOLDS = [
    [],
    [Hold(name="all", match=Match())],
    [Hold(name="a-while", match=Match(categories=("order",)), until=NOW + 9 * DAY)],
    [Hold(name="over", match=Match(), until=NOW), Hold(name="few", match=Match(sequence_ids=("s1", "s2")))],
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(make_store(tmp_path_factory.mktemp("leaving") / "store", ROWS).uri)


@pytest.mark.parametrize("holds", HOLDS, ids=lambda holds: "-".join(hold.name for hold in holds) or "none")
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(rule.name for rule in rules))
def test_what_rules_would_remove_is_what_they_select_by_the_end_of_each_day(
    reader: Reader, rules: list[Rule], holds: list[Hold]
) -> None:
    leaving = reader.leaving(rules, holds, NOW)

    for day in (0, 1, 2, 8, 9, 10, 29, 30):
        model = selected(ROWS, rules, holds, NOW + day * DAY)
        gone = [row for row in ROWS if row["global_position"] in model.going]
        told = [one for one in leaving.days if one.day <= day]
        assert sum(one.messages for one in told) == len(gone)
        assert sum(one.payload_bytes for one in told) == sum(row["payload_size"] for row in gone)
    assert leaving.held == len(selected(ROWS, rules, holds, NOW + 30 * DAY).held)


def test_rules_and_holds_that_only_a_run_can_judge_are_named(reader: Reader) -> None:
    rules = [
        OLD,
        Rule(name="cap", max_messages_per_stream=3),
        Rule(name="size", max_bytes=3, match=Match(where="payload_size > 3", headers={"a": "b"})),
        Rule(name="sent", consumed_by=ConsumedBy(replay_jobs=("s",))),
    ]
    holds = [Hold(name="large", match=Match(where="payload_size > 3"))]

    leaving = reader.leaving(rules, holds, NOW)

    assert leaving.untold == {
        "cap": ("maxMessagesPerStream",),
        "size": ("maxBytes", "match.headers", "match.where"),
        "sent": ("consumedBy",),
    }
    assert leaving.unjudged == ("large",)
    assert sum(one.messages for one in leaving.days) == len(ROWS)
