"""What others do to the tables of a store: each run goes on, and finds in them what was there."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Match, Rule
from messagestore_core.store.delta_log import files_of, table_state
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import INDEX
from messagestore_core.store.schemas import TABLES
from messagestore_jobs.session import settings
from support.ingests import START, Stream, lines, positions_have_no_gap, record
from support.kept import Kept
from support.long import few
from support.maintenance import WITHOUT_STATISTICS, maintain, optimize
from support.purges import purge
from support.readings import full_store, is_nobodys, readings


def test_tables_that_spark_has_rewritten_read_as_before(spark: SparkSession, tmp_path: Path) -> None:
    before = readings(full_store(tmp_path / "before"))
    store = full_store(tmp_path / "store", others=True)
    with settings(spark, WITHOUT_STATISTICS):
        for name in TABLES:
            spark.sql(f"delete from delta.`{store.path(name)}` where {is_nobodys(name)}")
    assert readings(Store(store.uri)) == before
    optimize(spark, store, *TABLES)
    assert readings(Store(store.uri)) == before


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept[Stream]:
    folder = tmp_path_factory.mktemp("optimized")
    stream = Stream(spark, folder / "now", {"max_files_per_batch": 1})
    stream.arrive("a.jsonl", lines(record("m1"), record("m2", expiresAt=(START + timedelta(hours=1)).isoformat())))
    stream.arrive("b.jsonl", lines(record("m3")))
    stream.run()
    store = Store(stream.table.uri)
    with settings(spark, WITHOUT_STATISTICS):
        optimize(spark, store, "messages", "dead_letters")
    [file] = files_of(store.table("messages")).to_pylist()
    assert (file["num_records"], file["max.global_position"]) == (None, None)
    return Kept.of(stream, folder / "kept")


@pytest.fixture
def optimized(kept: Kept[Stream]) -> Stream:
    """Three messages of two batches, in a file without statistics; m2 expires after an hour."""
    return kept.again()


def forget_next_position(log: Path) -> None:
    """Make the notes of commits those of an earlier release."""
    for commit in log.glob("*.json"):
        commit.write_text(commit.read_text().replace('\\"nextGlobalPosition\\":4', '\\"nextGlobalPosition\\":null'))
        (log / f".{commit.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("noted", few([True, False], True), ids=["noted", "of an earlier release"])
def test_no_position_is_given_twice_after_an_optimize_without_statistics(
    spark: SparkSession, optimized: Stream, *, noted: bool
) -> None:
    store = Store(optimized.table.uri)
    if not noted:
        forget_next_position(optimized.folder / "store" / "messages" / "_delta_log")
    assert (table_state(store).messages, table_state(store).last_global_position) == (3, 3)
    newest = Rule(name="newest", match=Match(message_ids=("m3",)))
    assert purge(spark, optimized.table, START, rules=(newest,)).purge.purged == 1
    store.objects(INDEX).delete_folder("")
    optimized.arrive("c.jsonl", lines(record("m4")))
    optimized.run()
    assert [(row["message_id"], row["global_position"], row["position"]) for row in optimized.messages()] == [
        ("m1", 1, 0),
        ("m2", 2, 1),
        ("m4", 4, 3),
    ]


def test_messages_expire_after_an_optimize_without_statistics(optimized: Stream) -> None:
    optimized.run(at=START + timedelta(minutes=30))
    assert {row["status"] for row in optimized.messages()} == {"RECEIVED"}
    optimized.run(at=START + timedelta(hours=2))
    assert [row["status"] for row in optimized.messages()] == ["RECEIVED", "EXPIRED", "RECEIVED"]


def test_maintenance_gives_days_without_statistics_new_ones(spark: SparkSession, optimized: Stream) -> None:
    optimized.arrive("c.jsonl", lines(record("m4")))
    optimized.run()
    before = optimized.messages()
    maintain(spark, optimized.table, at=START + timedelta(days=1))
    store = Store(optimized.table.uri)
    [file] = files_of(store.table("messages")).to_pylist()
    assert (file["num_records"], file["max.global_position"]) == (4, 4)
    assert optimized.messages() == before
    assert positions_have_no_gap(before)
    version = store.table("messages").version()
    assert maintain(spark, optimized.table, at=START + timedelta(days=1)).table_version_after == version
