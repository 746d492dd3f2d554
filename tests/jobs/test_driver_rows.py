"""The rows that reach a driver depend on what is new or requested, not on the size of the store."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Match, Rule, Scrub
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.index import changes
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.replay.records import without_erased
from messagestore_jobs.rows.messages import read_messages
from support.driver_rows import counting
from support.ingests import Stream, lines, record
from support.long import few
from support.purges import erase, purge
from support.stores import START, make_store, message

SIZES = (50, 1000)
NOW = START + timedelta(days=40)

Store = Callable[[int], Stream]
Step = Callable[[SparkSession, Stream], object]


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Store:
    def make(size: int) -> Stream:
        stream = Stream(spark, tmp_path / str(size))
        rows = [message(n, stream_name=f"order-{n % (size // 10)}", position=n * 10 // size) for n in range(1, size)]
        make_store(stream.folder / "store", rows)
        StoreIndex(spark, HeldStore(stream.table.uri)).save()
        return stream

    return make


def takes_ten_in(spark: SparkSession, stream: Stream) -> None:
    ids = [*(f"m{n}" for n in range(1, 4)), *(f"new-{n}" for n in range(7))]
    stream.arrive("a.jsonl", lines(*(record(i, streamName=f"order-{n % 4}") for n, i in enumerate(ids))))
    counts = stream.run(NOW).counts
    assert (counts.stored, counts.duplicates) == (7, 3)


def takes_in_after_a_purge(spark: SparkSession, stream: Stream) -> None:
    rule = Rule(name="two", match=Match(message_ids=("m47", "m48")))
    purge(spark, stream.table, NOW, rules=(rule,))
    takes_ten_in(spark, stream)


def purges_two(spark: SparkSession, stream: Stream) -> None:
    outcome = purge(spark, stream.table, NOW, rules=(Rule(name="two", match=Match(message_ids=("m7", "m8"))),))
    assert outcome.purge.purged == 2


def erases_two(spark: SparkSession, stream: Stream) -> None:
    rules = (Rule(name="two", match=Match(message_ids=("m7", "m8")), erase=True),)
    purge(spark, stream.table, NOW, rules=rules, erase_within=timedelta(0))
    assert erase(spark, stream.table, NOW).erased == 2


# The two that make test tries hold the steps of the others.
STEPS = few([takes_ten_in, takes_in_after_a_purge, purges_two, erases_two], takes_in_after_a_purge, erases_two)


@pytest.mark.parametrize("step", STEPS)
def test_what_reaches_the_driver_does_not_grow_with_the_store(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    # The driver itself reads only few rows, which is also a limit.
    monkeypatch.setattr(changes, "FEW_ROWS", 20)
    reached: list[Counter[str]] = []
    for size in SIZES:
        stream = store(size)
        with counting(monkeypatch) as rows:
            step(spark, stream)
        reached.append(+rows)
    assert reached[0] == reached[1]
    assert reached[0]["spark"] >= 2


def test_no_payload_that_becomes_a_claim_check_reaches_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(spark, tmp_path, settings={"claim_check_bytes": 3})
    stream.arrive("a.jsonl", lines(*(record(f"m{n}", payload={"n": n}) for n in range(8))))
    with counting(monkeypatch) as rows:
        assert stream.run(NOW).counts.stored == 8
    assert len(list((stream.folder / "store" / "payloads").iterdir())) == 8
    assert rows["streamed"] == 0


def test_what_reaches_the_driver_does_not_grow_with_the_claim_checks_that_a_scrub_rewrites(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = []
    for size in (2, 20):
        payloads = tmp_path / str(size) / "store" / "payloads"
        claimed = {n: {"payload": None, "payload_uri": f"file://{payloads}/{n:020}"} for n in range(size)}
        table = make_store(payloads.parent, [message(n) | claimed[n] for n in claimed])
        payloads.mkdir()
        for n in claimed:
            (payloads / f"{n:020}").write_text(f'{{"n":{n}}}')
        scrub = Scrub(payload_paths=("$.n",))
        with counting(monkeypatch) as rows:
            purge(spark, table, NOW, rules=(Rule(name="all", max_age=timedelta(days=1)),), action="Scrub", scrub=scrub)
        assert {path.read_text() for path in payloads.iterdir()} == {'{"n":"[redacted]"}'}
        # The names of the objects that are deleted.
        assert rows.pop("streamed") == size
        reached.append(+rows)
    assert reached[0] == reached[1]


def test_what_reaches_the_driver_of_a_chunk_does_not_grow_with_it(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in SIZES:
        held = HeldStore(store(size).table.uri)
        add_tombstones(held, [("m7", 7), ("m8", 8), ("gone", size + 1)], NOW, "purge-1")
        with counting(monkeypatch) as rows:
            left = without_erased(read_messages(spark, held), SimpleNamespace(store=held, spark=spark))
        assert (rows["spark"], left.count()) == (2, size - 3)
