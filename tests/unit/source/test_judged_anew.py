"""A batch that was cut off is planned anew if something else judges it, without what the source no longer has."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from messagestore_core.contract.ingest import IngestTask, Lifecycle, Memory, Retry
from messagestore_core.contract.purge import Hold, Match
from messagestore_core.contract.records import Envelope, FilesSource, Filter, KafkaCluster, KafkaSource
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.dead_letters import set_aside, source_positions_of
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.files import Batch, Range, ReadFiles, SourceFile
from messagestore_core.store.handle import Store
from messagestore_core.store.offsets import OffsetBatch, OffsetRange, Partition, ReadOffsets
from messagestore_core.store.schemas import DEAD_LETTERS
from messagestore_jobs.context import Run
from messagestore_jobs.source import file_arrivals, kafka_arrivals, records
from messagestore_jobs.source.arrivals import to_repeat
from messagestore_jobs.source.file_arrivals import FileArrivals
from messagestore_jobs.source.kafka_arrivals import KafkaArrivals
from messagestore_jobs.source.plan import Listed
from messagestore_jobs.source.records import verdict_digest
from support.stores import START, make_store

SPARK: Any = SimpleNamespace(_jvm=None)
FILES = FilesSource(uri="file:///landing")
KAFKA = KafkaSource(cluster=KafkaCluster(bootstrap_servers="127.0.0.1:9092"), topics=("orders",))
TASK = IngestTask(source_id="own", source=FILES)


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "too_many_bytes", lambda spark: 1_000)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_store(tmp_path / "store", [])


def run_of(table: Table, task: IngestTask) -> Run:
    resource = Resource(kind="MessageStream", namespace="default", name="orders")
    document = RunDocument(run="run", resource=resource, table=table, at=START, task=task)
    return Run.of(document, SPARK, Silent())


def letters(table: Table, *places: tuple[str, int | None, int]) -> None:
    rows = [
        {
            "source": {"kind": "", "uri": uri, "partition": partition, "offset": offset},
            "reason": "MissingField",
            "failed_at": START,
            "batch": "own/1",
        }
        for uri, partition, offset in places
    ]
    set_aside(HeldStore(table.uri), pa.Table.from_pylist(rows, schema=DEAD_LETTERS))


@pytest.mark.parametrize(
    "change",
    [
        {"filter": Filter(types=("a",))},
        {"filter": Filter(unmatched="DeadLetter")},
        {"envelope": Envelope(required=("type",))},
        {"max_payload_bytes": 1},
        {"claim_check_bytes": 1},
        {"on_arrival_expired": "Store"},
        {"retry": Retry(set_aside=True)},
        {"source": FILES.model_copy(update={"format": "JSON"})},
        {"source": FILES.model_copy(update={"records_path": ("$.Records",)})},
        {"lifecycle": Lifecycle(source_id="updates", source=FILES, time_unit="Seconds")},
        {"source": KAFKA},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_setting_that_judges_records_changes_the_digest(change: dict[str, Any]) -> None:
    assert verdict_digest(SPARK, TASK.model_copy(update=change)) != verdict_digest(SPARK, TASK)


def test_limits_of_a_batch_are_not_in_the_digest_but_that_of_a_record_is(monkeypatch: pytest.MonkeyPatch) -> None:
    before = verdict_digest(SPARK, TASK)
    other = {"source": FILES.model_copy(update={"max_files_per_batch": 1, "after_ingest": "Delete"})}
    other |= {"memory": Memory(batch_bytes=1), "holds": (Hold(name="h", match=Match()),), "messages_per_second": 1.0}
    assert verdict_digest(SPARK, TASK.model_copy(update=other)) == before
    monkeypatch.setattr(records, "too_many_bytes", lambda spark: 1_001)
    assert verdict_digest(SPARK, TASK) != before


def test_files_that_are_gone_are_taken_out_first_so_that_their_dead_letters_stay(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, here = "file:///landing/gone", "file:///landing/here"
    ranges = tuple(Range(SourceFile(uri, 9, START), 0, 9) for uri in (gone, here))
    ReadFiles(HeldStore(table.uri), "own").write_down(Batch(1, START, ranges, verdict_digest="another"))
    letters(table, (gone, None, 0), (here, None, 0))
    monkeypatch.setattr(file_arrivals, "unreadable", lambda spark, uris: {gone: ("gone", False)})
    withdrawn: list[object] = []
    due = to_repeat(FileArrivals(run_of(table, TASK), TASK, FILES), withdrawn.append)
    assert (due.read_before, due.repeated, len(withdrawn)) == ({gone, here}, True, 1)
    assert due.batch == Batch(1, START, ranges[1:], gone=frozenset({gone}), verdict_digest=verdict_digest(SPARK, TASK))
    assert {place.uri for place in source_positions_of(Store(table.uri), "own/1")} == {gone}
    assert to_repeat(FileArrivals(run_of(table, TASK), TASK, FILES), withdrawn.append) == due
    assert len(withdrawn) == 1


def test_a_file_that_can_not_be_read_waits_for_the_next_run(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "landing").mkdir()
    for name in ("denied", "here"):
        (tmp_path / "landing" / name).write_bytes(b"{}\n")
    source = FilesSource(uri=f"file://{tmp_path}/landing")
    denied = f"{source.uri}/denied"
    monkeypatch.setattr(file_arrivals, "unreadable", lambda spark, uris: {denied: ("denied", True)})
    monkeypatch.setattr(file_arrivals, "heap_bytes", lambda spark: 1 << 30)
    monkeypatch.setattr(file_arrivals, "held_beside_windows", lambda *_: 1)
    monkeypatch.setattr(file_arrivals, "largest_part", lambda *_: 1 << 20)
    arrivals = FileArrivals(run_of(table, TASK), TASK, source)
    arrivals.list_source()
    assert arrivals.replan(arrivals.next().batch)
    assert (arrivals.waits(), arrivals.seen(), arrivals.lag().files) == (False, None, 1)
    again = FileArrivals(run_of(table, TASK), TASK, source)
    again.list_source()
    assert (again.size(), again.lag().files) == (3, 1)


def test_topics_that_the_source_no_longer_has_are_taken_out_and_lost_offsets_keep_their_dead_letters(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TASK.model_copy(update={"source": KAFKA})
    orders, others = Partition("orders", "i", 0), Partition("others", "j", 0)
    plan = (OffsetRange(orders, 0, 9, 9), OffsetRange(others, 0, 9, 9))
    ReadOffsets(HeldStore(table.uri), "own").write_down(OffsetBatch(1, START, plan, "another"))
    letters(table, ("kafka:orders", 0, 1), ("kafka:orders", 0, 5), ("kafka:others", 0, 1))
    monkeypatch.setattr(kafka_arrivals, "list_partitions", lambda spark, source: [Listed(orders, 3, 9)])
    due = to_repeat(KafkaArrivals(run_of(table, task), task, KAFKA), lambda batch: None)
    left = (OffsetRange(orders, 0, 3, 9, "Retention"), OffsetRange(orders, 3, 9, 9))
    assert due.batch == OffsetBatch(1, START, left, verdict_digest(SPARK, task))
    assert source_positions_of(Store(table.uri), "own/1") == {("kafka:orders", 0, 1)}


def test_nothing_is_repeated_of_a_batch_whose_topics_have_all_been_removed(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TASK.model_copy(update={"source": KAFKA})
    plan = OffsetBatch(1, START, (OffsetRange(Partition("others", "j", 0), 0, 9, 9),), "another")
    ReadOffsets(HeldStore(table.uri), "own").write_down(plan)
    letters(table, ("kafka:others", 0, 1))
    monkeypatch.setattr(kafka_arrivals, "list_partitions", lambda spark, source: [])
    assert to_repeat(KafkaArrivals(run_of(table, task), task, KAFKA), lambda batch: None) is None
    assert source_positions_of(Store(table.uri), "own/1") == set()
    assert ReadOffsets(HeldStore(table.uri), "own").next_number() == 1
