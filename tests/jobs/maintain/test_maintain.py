"""Maintenance makes a store faster and smaller, and its content stays the same."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from messagestore_core.clock import rfc3339
from messagestore_core.contract.run_report import MaintainOutcome
from messagestore_core.contract.stores import Table, TableState
from messagestore_core.store import folder
from messagestore_core.store.delta_log import last_note, table_state
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import TABLES
from messagestore_core.store.storage import Storage
from messagestore_jobs.maintain import days_to_cluster
from support.external_writes import observing
from support.ingests import OWNER, Stream, adds_up, lines, positions_have_no_gap, record
from support.kept import Kept
from support.long import few
from support.maintenance import age, all_rows, maintain, memory
from support.purges import CrashError, crash_at, crash_before_any_but
from support.stores import START, add_messages, make_store, message

DAYS = 3
BATCHES = 12


def make_small_files(folder: Path) -> Table:
    """Twelve batches over three days, two messages each."""
    batches = [
        [message(2 * i + j, stream_name=f"order-{j}", inserted_at=START + timedelta(days=i % DAYS)) for j in (1, 2)]
        for i in range(BATCHES)
    ]
    return make_store(folder / "store", *batches)


@pytest.fixture
def many_small_files(tmp_path: Path) -> Table:
    return make_small_files(tmp_path)


class Facts(NamedTuple):
    """What a store holds and tells, and at which version."""

    rows: dict[str, list[str]]
    state: TableState
    version: int

    @classmethod
    def of(cls, table: Table) -> "Facts":
        store = Store(table.uri)
        return cls(all_rows(store), table_state(store), store.table("messages").version())


class Compacted(NamedTuple):
    table: Table
    before: Facts
    outcome: MaintainOutcome


@pytest.fixture(scope="module")
def compacted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Compacted:
    """Many small files after maintenance; tests only read it."""
    table = make_small_files(tmp_path_factory.mktemp("compacted"))
    return Compacted(table, Facts.of(table), maintain(spark, table))


@pytest.fixture(scope="module")
def ingested(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept[Stream]:
    """Six batches with duplicates, dead letters and claim checks, in six commits of each table."""
    stream = Stream(spark, tmp_path_factory.mktemp("ingested"), {"max_files_per_batch": 1, "claim_check_bytes": 30})
    large = b'"' + b"x" * 50 + b'"'
    for i in range(6):
        given = [record(f"m{i}"), record(f"n{i}", payload=large, streamName="other"), record("m0"), b"garbage %d" % i]
        stream.arrive(f"{i}.jsonl", lines(*given))
    stream.run()
    return Kept.of(stream, tmp_path_factory.mktemp("kept") / "ingested")


@pytest.fixture
def stream(ingested: Kept[Stream]) -> Stream:
    return ingested.again()


def files_by_day(table: Table) -> dict[str, int]:
    found: dict[str, int] = {}
    for uri in Store(table.uri).table("messages").file_uris():
        day = uri.partition("inserted_date=")[2].partition("/")[0]
        found[day] = found.get(day, 0) + 1
    return found


def test_small_files_of_a_day_become_one_and_no_row_changes(compacted: Compacted) -> None:
    table, before, outcome = compacted
    assert before.state.small_files == BATCHES
    assert all_rows(Store(table.uri)) == before.rows
    assert files_by_day(table) == dict.fromkeys(("2026-01-05", "2026-01-06", "2026-01-07"), 1)
    assert (outcome.files_before, outcome.files_after) == (BATCHES, DAYS)
    assert outcome.table.small_files == 0
    assert outcome.bytes_after < outcome.bytes_before


def test_rows_of_one_batch_stay_together_in_their_order_until_their_day_is_over(
    spark: SparkSession, many_small_files: Table
) -> None:
    maintain(spark, many_small_files, at=START)
    assert files_by_day(many_small_files) == dict.fromkeys(("2026-01-05", "2026-01-06", "2026-01-07"), 1)
    for uri in Store(many_small_files.uri).table("messages").file_uris():
        rows = spark.read.parquet(f"file://{uri}").select("global_position").toArrow()["global_position"].to_pylist()
        assert [later - earlier for earlier, later in zip(rows[::2], rows[1::2], strict=True)] == [1] * (len(rows) // 2)


def test_rows_of_a_day_that_is_over_lie_in_order_of_their_streams(spark: SparkSession, many_small_files: Table) -> None:
    maintain(spark, many_small_files, at=START + timedelta(days=1))
    ordered = []
    for uri in Store(many_small_files.uri).table("messages").file_uris():
        rows = spark.read.parquet(f"file://{uri}").select("stream_name", "position").toArrow().to_pylist()
        places = [(row["stream_name"], row["position"]) for row in rows]
        ordered.append(("2026-01-05" in uri, places == sorted(places), len({stream for stream, _ in places})))
    assert sorted(ordered) == [(False, False, 2), (False, False, 2), (True, True, 2)]


def test_few_rows_of_a_day_that_is_over_share_a_page(spark: SparkSession, tmp_path: Path) -> None:
    halves = [[message(n, inserted_at=START) for n in range(first, first + 3000)] for first in (0, 3000)]
    table = make_store(tmp_path / "store", *halves)
    maintain(spark, table, at=START + timedelta(days=1))
    [uri] = Store(table.uri).table("messages").file_uris()
    assert set(pages_of_columns(spark, uri)) == {2}


def pages_of_columns(spark: SparkSession, path: str) -> list[int]:
    """How many pages each column has in a Parquet file's first group of rows."""
    jvm = spark._jvm
    parquet, place = jvm.org.apache.parquet.hadoop, jvm.org.apache.hadoop.fs.Path(f"file://{path}")
    file = parquet.util.HadoopInputFile.fromPath(place, jvm.org.apache.hadoop.conf.Configuration())
    reader = parquet.ParquetFileReader.open(file)
    try:
        columns = reader.getFooter().getBlocks()[0].getColumns()
        return [reader.readOffsetIndex(column).getPageCount() for column in columns]
    finally:
        reader.close()


def test_a_day_that_was_compacted_before_it_was_over_is_put_in_order_once(
    spark: SparkSession, many_small_files: Table
) -> None:
    maintain(spark, many_small_files, at=START)
    then = datetime(2026, 1, 5, 12, tzinfo=UTC)
    files = Store(many_small_files.uri).table("messages").get_add_actions(flatten=True)
    written = pa.table(files).set_column(2, "modification_time", pa.array([then] * DAYS, pa.timestamp("ms", "UTC")))
    days = [date(2026, 1, 5 + i) for i in range(DAYS)]
    assert days_to_cluster(written, date(2026, 1, 7), 1) == days[:2]
    assert days_to_cluster(pa.table(files), date(2026, 1, 7), 1) == []


def test_compaction_is_no_change_of_data(compacted: Compacted) -> None:
    log = Path(compacted.table.uri.removeprefix("file://")) / "messages" / "_delta_log"
    for version in range(compacted.before.version + 1, compacted.outcome.table_version_after + 1):
        assert '"dataChange":true' not in (log / f"{version:020d}.json").read_text()


def test_a_compacted_store_is_left_alone(spark: SparkSession, compacted: Compacted) -> None:
    again = maintain(spark, compacted.table)
    assert again.table_version_after == compacted.outcome.table_version_after
    assert again.tables_compacted == 0


def test_statistics_of_a_compacted_store_are_as_before(compacted: Compacted) -> None:
    def told(state: TableState) -> tuple[object, ...]:
        return state.messages, state.oldest_message_time, state.newest_message_time, state.last_global_position

    assert told(table_state(Store(compacted.table.uri))) == told(compacted.before.state)


def test_spark_reads_what_delta_rs_compacted(spark: SparkSession, compacted: Compacted) -> None:
    messages = spark.read.format("delta").load(f"{compacted.table.uri}/messages")
    assert messages.count() == 2 * BATCHES
    assert {row["stream_name"] for row in messages.select("stream_name").distinct().collect()} == {"order-1", "order-2"}
    assert messages.where("global_position = 7").count() == 1


def test_ingest_goes_on_where_it_was(spark: SparkSession, stream: Stream) -> None:
    uri = stream.table.uri
    rows, known = all_rows(Store(uri)), memory(Store(uri))
    outcome = maintain(spark, stream.table)
    assert outcome.tables_compacted == 3
    assert (all_rows(Store(uri)), memory(Store(uri))) == (rows, known)
    assert stream.run().batches == 0
    stream.arrive("more.jsonl", lines(record("m0"), record("m9"), record("o", streamName="other"), b"garbage"))
    went_on = stream.run()
    assert went_on.counts.model_dump(exclude={"filtered", "discarded", "unknown_fields"}) == {
        "received": 4,
        "stored": 2,
        "duplicates": 1,
        "dead_lettered": 1,
    }
    assert adds_up(went_on.totals)
    assert went_on.totals.received == 28
    assert positions_have_no_gap(stream.messages())


def test_old_log_files_are_removed_and_the_store_keeps_its_rows_and_known_ids(
    spark: SparkSession, stream: Stream
) -> None:
    uri = stream.table.uri
    rows, known = all_rows(Store(uri)), memory(Store(uri))
    maintain(spark, stream.table)
    age(stream.folder / "store", timedelta(days=31))
    maintain(spark, stream.table)
    logs = {name: sorted((stream.folder / "store" / name / "_delta_log").glob("*.json")) for name in TABLES}
    assert {name for name, log in logs.items() if log[0].name == f"{0:020d}.json"} == set()
    assert (all_rows(Store(uri)), memory(Store(uri))) == (rows, known)
    stream.arrive("more.jsonl", lines(record("m1"), record("m9")))
    assert stream.run().counts.duplicates == 1
    assert positions_have_no_gap(stream.messages())


@pytest.mark.parametrize("earlier", few([False, True], True), ids=["new", "of an earlier release"])
def test_a_check_point_takes_away_no_log_that_a_replay_needs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, earlier: bool
) -> None:
    """A store of an earlier release gets that property from the first run that may write to it."""
    with monkeypatch.context() as then:
        if earlier:
            then.setattr(folder, "properties", lambda name: {})
        table = make_store(tmp_path / "store", [message(1)], [message(2)])
    folder.open_folder(HeldStore.of(table, Storage()))
    log = tmp_path / "store" / "messages" / "_delta_log"
    age(log, timedelta(days=59))
    add_messages(table.uri, [message(99)])
    jvm = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    path = jvm.org.apache.hadoop.fs.Path(str(log.parent))
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path).checkpoint()
    assert (log / f"{0:020}.json").exists()
    assert list(log.glob("*.checkpoint.parquet"))


def test_files_leave_storage_once_they_are_past_their_retention(spark: SparkSession, stream: Stream) -> None:
    uri = stream.table.uri
    young = maintain(spark, stream.table)
    assert young.files_removed == 0
    assert DeltaTable(f"{uri}/messages".removeprefix("file://"), version=3).to_pyarrow_table().num_rows > 0
    rows = all_rows(Store(uri))
    old = maintain(spark, stream.table, deleted_file_retention=timedelta(0))
    assert old.files_removed >= 6
    assert old.kept_because is None
    assert all_rows(Store(uri)) == rows
    assert last_note(Store(uri)).totals.received == 24


def test_files_that_a_killed_run_left_are_removed_too(spark: SparkSession, stream: Stream) -> None:
    stray = stream.folder / "store" / "messages" / "inserted_date=2026-01-05" / "part-stray.parquet"
    stray.write_bytes(b"never committed")
    orphan = stream.folder / "store" / "payloads" / f"{999:020}"
    orphan.write_bytes(b"x")
    age(orphan.parent, timedelta(days=2))
    maintain(spark, stream.table)
    assert stray.exists()
    # The content of the stray file is unknown.
    assert orphan.exists()
    age(stray.parent, timedelta(days=8))
    maintain(spark, stream.table)
    assert not stray.exists()
    assert not orphan.exists()


def test_a_replay_that_has_not_ended_keeps_what_it_reads(spark: SparkSession, stream: Stream) -> None:
    began = datetime.now(UTC) - timedelta(days=8)
    kept = maintain(spark, stream.table, deleted_file_retention=timedelta(days=7), oldest_replay=began)
    assert kept.files_removed == 0
    assert kept.kept_because is not None
    assert f"a replay that began at {rfc3339(began)} has not ended" in kept.kept_because
    young = maintain(
        spark,
        stream.table,
        deleted_file_retention=timedelta(0),
        log_retention=timedelta(0),
        oldest_replay=datetime.now(UTC) + timedelta(hours=1),
    )
    assert young.kept_because is None
    assert young.files_removed > 0


def test_a_replay_into_the_store_that_has_not_ended_is_found_in_its_folder(spark: SparkSession, stream: Stream) -> None:
    state = stream.folder / "store" / "_replays" / "job-1"
    (state / "state").mkdir(parents=True)
    (state / "state" / "frozen.json").write_text(
        '{"task":"t","run":"r","at":"2026-01-01T00:00:00Z","selection":{"tableVersion":1,"messages":1,"bytes":1},'
        '"listed":false,"end":null,"grains":[]}'
    )
    assert maintain(spark, stream.table, deleted_file_retention=timedelta(0)).kept_because is not None
    (state / "ended.json").write_text("{}")
    assert maintain(spark, stream.table, deleted_file_retention=timedelta(0)).kept_because is None


def test_claim_checks_that_nothing_refers_to_are_swept(spark: SparkSession, stream: Stream) -> None:
    payloads = stream.folder / "store" / "payloads"
    referred = sorted(path.name for path in payloads.iterdir())
    assert len(referred) == 6
    for name in ("00000000000000000999", "00000000000000000001-5c0ffee5", "a-file-of-somebody-else"):
        (payloads / name).write_bytes(b"x")
    (payloads / "00000000000000000999.partial").write_bytes(b"x")
    (stream.folder / "store" / "_messagestore.json.partial").write_bytes(b"x")
    assert maintain(spark, stream.table).objects_removed == 0
    age(stream.folder / "store", timedelta(days=2))
    assert maintain(spark, stream.table).objects_removed == 4
    assert sorted(path.name for path in payloads.iterdir()) == [*referred, "a-file-of-somebody-else"]
    assert (stream.folder / "store" / "_messagestore.json").exists()


SOME = ("checkpoint-audit", "log-files", "retention-heads", "vacuum-messages")
EVERY = ("every write",)
CUT_OFF: list[tuple[datetime | None, str, tuple[str, ...]]] = [
    (START, "compact-messages", EVERY),
    (None, "cluster-messages", EVERY),
    (None, "cluster-messages", SOME),
]


@pytest.mark.parametrize(("at", "rewrite", "beside"), few(CUT_OFF, CUT_OFF[2]))
def test_maintenance_that_broke_off_anywhere_is_completed_by_the_next(
    spark: SparkSession, tmp_path: Path, at: datetime | None, rewrite: str, beside: tuple[str, ...]
) -> None:
    def broken(number: int) -> Table:
        folder = tmp_path / str(number)
        table = make_store(folder, *([message(i)] for i in range(1, 5)))
        add_messages(table.uri, [message(9, inserted_at=START + timedelta(days=1))])
        age(folder, timedelta(days=40))
        return table

    names: list[str] = []
    whole = broken(0)
    rows = all_rows(Store(whole.uri))
    with observing(lambda name, moment: names.append(name) if moment == "after" else None):
        maintain(spark, whole, at, deleted_file_retention=timedelta(0))
    assert {rewrite, *SOME} <= set(names)
    crashed = [] if beside == EVERY else [name for name in set(names) if name not in (rewrite, *beside)]
    table = broken(1)
    while len(crashed) < len(set(names)):
        with pytest.raises(CrashError), observing(crash_before_any_but(crashed)):
            maintain(spark, table, at, deleted_file_retention=timedelta(0))
        assert all_rows(Store(table.uri)) == rows
    outcome = maintain(spark, table, at, deleted_file_retention=timedelta(0))
    assert all_rows(Store(table.uri)) == rows
    assert outcome.files_after == 2
    assert last_note(Store(table.uri)).totals.stored == 5


def test_another_store_is_untouched(spark: SparkSession, tmp_path: Path) -> None:
    other = make_store(tmp_path / "other", [message(1)], [message(2)])
    before = all_rows(Store(other.uri))
    maintain(spark, make_store(tmp_path / "store", [message(1)], [message(2)]))
    assert all_rows(Store(other.uri)) == before
    assert Store(other.uri).table("messages").version() == 2
    assert other.owner.name == OWNER.name


def test_an_empty_store_is_maintained_too(spark: SparkSession, tmp_path: Path) -> None:
    outcome = maintain(spark, make_store(tmp_path / "store", []))
    assert (outcome.files_after, outcome.table.messages) == (outcome.files_before, 0)


def test_a_crash_before_the_first_write_changes_nothing(spark: SparkSession, many_small_files: Table) -> None:
    before = Store(many_small_files.uri).table("messages").version()
    with pytest.raises(CrashError), observing(crash_at(0)):
        maintain(spark, many_small_files)
    assert Store(many_small_files.uri).table("messages").version() == before
