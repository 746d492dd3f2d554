"""A replay into a stream: each message arrives once, despite crashes."""

import base64
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestCounts, IngestTask
from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.records import Envelope, FieldMapping, FilesSource
from messagestore_core.contract.replay import ReplayTask, Selection
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.dead_letters import Redrive, mark_redriven
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks
from messagestore_jobs.replay.job import run_replay
from support.external_writes import observing
from support.ingests import Stream, adds_up, record
from support.ingests import lines as lines_of
from support.long import few
from support.purges import erase, purge
from support.replays import AT, Crash, files_replay, records, replay_document
from support.stores import add_dead_letters, make_store, message, stored

LOST = {"position", "global_position", "inserted_at", "inserted_date", "updated_at", "source", "headers", "retries"}
SENT = pa.schema(
    {"value": pa.binary(), "uri": pa.string(), "offset": pa.int64(), "partition": pa.int32(), "kind": pa.string()}
)
PAYLOADS = [b'{"a":1.10,\n"b":1E2}', b"9007199254740993.0", b'"\\u00e9"', b"\xff\x00", b"plain text"]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 2)
    monkeypatch.setattr(chunks, "_OBJECT_ROWS", 1)


def into_stream(table: Table, folder: Path, **task: Any) -> RunDocument:
    target = Table(uri=f"file://{folder}", owner=Owner(namespace="default", name="target"))
    ingest = IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere"))
    destination = StreamDestination(table=target, ingest=ingest)
    return replay_document(table, ReplayTask(job_id="job-1", destination=destination, **task))


def some(table_folder: Path) -> Table:
    kinds = ["application/json"] * 4 + ["text/plain"]
    rows = [
        message(
            i, stream_name=f"order-{i % 2}", position=i // 2, payload=payload, content_type=kind, headers={"k": "v"}
        )
        for i, (payload, kind) in enumerate(zip(PAYLOADS, kinds, strict=True), 1)
    ]
    return make_store(table_folder, rows)


@pytest.mark.parametrize("write", few(["replay-seal", "plan", "messages"], "plan"))
def test_a_message_that_is_erased_before_the_target_stored_it_does_not_reach_the_target(
    spark: SparkSession, tmp_path: Path, write: str
) -> None:
    table = some(tmp_path / "store")
    document = into_stream(table, tmp_path / "target")

    def observer(name: str, moment: str) -> None:
        if (name, moment) == (write, "after"):
            raise Crash

    with observing(observer), pytest.raises(Crash):
        run_replay(Run.of(document, spark, Silent()))
    rule = Rule(name="erased", match=Match(message_ids=("m2",)), erase=True)
    purge(spark, table, AT, rules=(rule,), erase_within=timedelta(days=30))
    outcome = run_replay(Run.of(document, spark, Silent()))
    # The target keeps what it had ingested.
    taken = ["m2"] if write == "messages" else []
    assert sorted(row["message_id"] for row in stored(f"file://{tmp_path}/target")) == ["m1", *taken, "m3", "m4", "m5"]
    assert (outcome.complete, outcome.progress.erased) == (True, 1)


def test_a_payload_that_is_nested_as_deeply_as_a_record_may_be_arrives_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    deepest = b"[" * 1_000 + b"]" * 1_000
    table = make_store(tmp_path / "store", [message(1, payload=deepest)])
    assert run_replay(Run.of(into_stream(table, tmp_path / "target"), spark, Silent())).complete
    assert [row["payload"] for row in stored(f"file://{tmp_path}/target")] == [deepest]


def test_a_replay_into_its_own_stream_sends_the_one_of_two_with_one_id_that_was_not_erased(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The stream takes neither in: records that arrive are known by their id."""
    table = make_store(tmp_path / "store", [message(1), message(2), message(3, message_id="m2"), message(4)])
    own = StreamDestination(
        table=table,
        ingest=IngestTask(
            source_id="own", source=FilesSource(uri="file:///nowhere"), deduplication_window=timedelta(hours=1)
        ),
    )
    document = replay_document(
        table, ReplayTask(job_id="job-1", destination=own, select=Selection(where="position > 1"))
    )

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("replay-seal", "after"):
            raise Crash

    with observing(observer), pytest.raises(Crash):
        run_replay(Run.of(document, spark, Silent()))
    rule = Rule(name="erased", match=Match(where="global_position = 2"), erase=True)
    purge(spark, table, AT, rules=(rule,), erase_within=timedelta(0))
    assert erase(spark, table, AT).erased_at == AT

    outcome = run_replay(Run.of(document, spark, Silent()))

    assert (outcome.complete, outcome.progress.replayed, outcome.progress.erased) == (True, 2, 1)
    taken = [(row["global_position"], row["message_id"]) for row in stored(table.uri)]
    assert taken == [(1, "m1"), (3, "m2"), (4, "m4"), (5, "m4")]


def test_the_target_has_the_messages_with_their_exact_bytes_in_order(spark: SparkSession, tmp_path: Path) -> None:
    table = some(tmp_path / "store")
    document = into_stream(table, tmp_path / "target", mark_headers={"x-job": "{job}"})
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.failed) == (True, 5, 0)
    before, after = stored(table.uri), stored(f"file://{tmp_path}/target")
    assert [{k: v for k, v in row.items() if k not in LOST} for row in after] == [
        {k: v for k, v in row.items() if k not in LOST} for row in before
    ]
    assert [row["headers"] for row in after] == [
        {
            "k": "v",
            "x-job": "job-1",
            "x-original-position": str(row["position"]),
            "x-original-global-position": str(row["global_position"]),
        }
        for row in before
    ]
    left = [path.name for path in (tmp_path / "target" / "_replays" / "job-1").rglob("*")]
    assert left == ["ended.json"]
    assert outcome.table is None, "nothing was written to the store that was read"
    assert (outcome.target_table.messages, outcome.target_table.last_global_position) == (5, 5)
    assert run_replay(Run.of(document, spark, Silent())) == outcome


def test_crashes_at_every_write_of_the_replay_send_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    table = some(tmp_path / "store")
    document = into_stream(table, tmp_path / "target", select=Selection(limit=5))
    crashed: set[tuple[str, str]] = set()

    def observer(name: str, moment: str) -> None:
        if (name, moment) not in crashed:
            crashed.add((name, moment))
            raise Crash

    with observing(observer):
        while True:
            try:
                outcome = run_replay(Run.of(document, spark, Silent()))
                break
            except Crash:
                continue
    names = {name for name, _ in crashed}
    assert names >= {"replay-frozen", "replay-staging", "replay-seal", "replay-records", "messages", "replay-ended"}
    assert outcome.progress.replayed == 5
    assert [row["message_id"] for row in stored(f"file://{tmp_path}/target")] == [f"m{i}" for i in range(1, 6)]


def test_a_folder_that_is_not_the_targets_is_refused_untouched(spark: SparkSession, tmp_path: Path) -> None:
    table = some(tmp_path / "store")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "else").write_text("x")
    with pytest.raises(RunFailedError, match="no message store"):
        run_replay(Run.of(into_stream(table, tmp_path / "target"), spark, Silent()))
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["else"]


def redrive(table: Table, job: str, **task: Any) -> RunDocument:
    """A redrive of dead letters into their own stream, whose envelope can now read them."""
    fields = {
        name: FieldMapping(path=f"$.{key}")
        for name, key in (("messageId", "id"), ("streamName", "s"), ("payload", "p"))
    }
    envelope = Envelope(format="Custom", fields=fields)
    ingest = IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere"), envelope=envelope)
    destination = StreamDestination(table=table, ingest=ingest)
    return replay_document(table, ReplayTask(job_id=job, origin="DeadLetters", destination=destination, **task))


def dead_letters(table: Table) -> list[dict[str, Any]]:
    return Store(table.uri).table("dead_letters").to_pyarrow_table().to_pylist()


def test_redriven_records_are_read_as_they_came_and_those_that_fail_again_stay(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make_store(tmp_path / "store", [])
    place = {"kind": "files", "uri": "file:///landing/a", "partition": None}
    good = [b'{"id":"a","s":"x-1","p":{"n":1.10}}', b'{"id":"b","s":"x-1",\n"p":[1E2]}', b'{"id":"a","s":"x-1","p":2}']
    bad = [b"\xff\x00\n", b'{"id":"c","p":1}']
    rows = [{"raw": raw, "failed_at": AT, "source": {**place, "offset": i}} for i, raw in enumerate([*good, *bad])]
    other = {"raw": b"other", "reason": "InvalidField", "failed_at": AT, "source": {**place, "offset": 9}}
    cut = {"raw": b'{"id":"d","s":"x-1"}', "reason": "RecordTooLarge", "detail": "only its start is kept"}
    cut |= {"failed_at": AT, "source": {**place, "offset": 10}, "correlation_id": "known"}
    over = {"raw": b"over", "reason": "RetriesExhausted", "failed_at": AT, "source": {**place, "offset": 11}}
    add_dead_letters(table.uri, [*rows, other, cut, over])
    chosen = Selection(reasons=("Unparseable", "RecordTooLarge", "RetriesExhausted"))
    outcome = run_replay(Run.of(redrive(table, "job-1", select=chosen), spark, Silent()))
    assert (outcome.complete, outcome.selection.messages, outcome.progress.replayed) == (True, 6, 6)
    reached = outcome.progress
    assert (reached.stored, reached.dead_lettered, reached.duplicates) == (2, 3, 1)
    assert outcome.selection.first_global_position is None
    assert outcome.target_table is None, "it is the store that was read"
    assert (outcome.table.messages, outcome.table.dead_letters) == (2, 5)
    left = Counter(row["reason"] for row in dead_letters(table) if row["redriven_at"] is None)
    assert outcome.table.dead_letters_by_reason == left
    assert [(row["message_id"], row["payload"]) for row in stored(table.uri)] == [("a", b'{"n":1.10}'), ("b", b"[1E2]")]
    after = dead_letters(table)
    marked = {row["raw"] for row in after if row["redriven_by"] == "default/again" and row["redriven_at"] == AT}
    assert set(good) <= marked
    assert b"other" not in marked
    open_ones = [row["raw"] for row in after if row["redriven_at"] is None]
    assert sorted(open_ones) == sorted([*bad, b"other", cut["raw"], b"over"])
    (still,) = [row for row in after if row["raw"] == cut["raw"]]
    assert (still["reason"], still["detail"]) == (cut["reason"], cut["detail"])
    told = {row["raw"]: (row["message_id"], row["stream_name"], row["correlation_id"]) for row in after}
    assert (told[bad[1]], told[cut["raw"]], told[b"other"]) == (("c", None, None), ("d", "x-1", "known"), (None,) * 3)
    assert run_replay(Run.of(redrive(table, "job-1", select=chosen), spark, Silent())) == outcome
    assert run_replay(Run.of(redrive(table, "job-2", mode="DryRun"), spark, Silent())).selection.messages == 4
    later = redrive(table, "job-2", select=chosen).model_copy(update={"at": AT + timedelta(hours=1)})
    second = run_replay(Run.of(later, spark, Silent())).progress
    assert (second.replayed, second.stored, second.dead_lettered, second.duplicates) == (2, 0, 2, 0)
    (worst,) = [row for row in dead_letters(table) if row["raw"] == bad[0]]
    assert worst["tries"] == 3
    assert [(one["reason"], one["batch"]) for one in worst["earlier"]] == [
        ("Unparseable", None),
        ("Unparseable", "replay:job-1/1"),
    ]
    assert last_note(Store(table.uri)).totals == IngestCounts(received=8, stored=2, duplicates=1, dead_lettered=5)


@pytest.mark.long
def test_a_file_grows_after_its_dead_letters_were_redriven_and_failed_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A MERGE gives them the newer refusal; the next run looks up the file's dead letters by their texts."""
    stream = Stream(spark, tmp_path)
    wrong = [record("m2", expectedVersion=7), record("m3", expectedVersion=8)]
    first = [record("m1"), *wrong, b"garbage"]
    stream.arrive("a.jsonl", lines_of(*first))
    stream.run()
    own = IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere"))
    destination = StreamDestination(table=stream.table, ingest=own)
    task = ReplayTask(job_id="job-1", origin="DeadLetters", destination=destination)
    again = run_replay(Run.of(replay_document(stream.table, task), spark, Silent())).progress
    assert (again.replayed, again.dead_lettered) == (3, 3)
    stream.arrive("a.jsonl", lines_of(*first, record("m4"), b"more garbage"))
    outcome = stream.run()
    assert (outcome.counts.stored, outcome.counts.dead_lettered) == (1, 1)
    assert stream.ids() == ["m1", "m4"]
    assert [row["raw"] for row in stream.dead_letters()] == [*wrong, b"garbage", b"more garbage"]
    assert adds_up(outcome.totals)


def test_dead_letters_can_be_looked_at_in_files(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    raws = [b"\xff", b'{"a":\n"\\u2028"', b""]
    add_dead_letters(
        table.uri,
        [{"raw": raw, "failed_at": AT + timedelta(seconds=i), "detail": "d"} for i, raw in enumerate(raws)],
    )
    before = Store(table.uri).table("dead_letters").version()
    run_replay(Run.of(files_replay(table, tmp_path / "out", origin="DeadLetters"), spark, Silent()))
    sent = records(tmp_path / "out")
    assert [base64.b64decode(r["rawBase64"]) if "rawBase64" in r else r["raw"].encode() for r in sent] == raws
    assert sent[0] | {"rawBase64": None} == {
        "reason": "Unparseable",
        "detail": "d",
        "failedAt": "2026-03-01T12:00:00.5Z",
        "source": {"kind": "files", "uri": "file:///landing/a"},
        "rawBase64": None,
    }
    assert Store(table.uri).table("dead_letters").version() == before


def test_only_files_with_dead_letters_of_that_time_are_read_to_mark_some(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    place = {"kind": "files", "uri": "file:///landing/a", "partition": None}
    for hour in range(3):
        own = {"raw": b"a", "failed_at": AT + timedelta(hours=hour), "source": {**place, "offset": hour}}
        add_dead_letters(table.uri, [own])
    letters = Store(table.uri).table("dead_letters")
    files = {
        file["min.failed_at"]: file["path"] for file in pa.table(letters.get_add_actions(flatten=True)).to_pylist()
    }
    for hour in (0, 2):
        (tmp_path / "store" / "dead_letters" / files[AT + timedelta(hours=hour)]).unlink()
    sent = SENT.append(pa.field("failed_at", pa.timestamp("us", "UTC")))
    rows = [{"value": b"a", **place, "offset": 1, "failed_at": AT + timedelta(hours=1)}]
    mark_redriven(
        HeldStore(table.uri), pa.Table.from_pylist(rows, schema=sent), Redrive(AT, "default/one", "replay:job-1")
    )
    marked = pc.field("redriven_by") == "default/one"
    newest = Store(table.uri).table("dead_letters").to_pyarrow_dataset()
    assert newest.to_table(["failed_at"], filter=marked & (pc.field("failed_at") == rows[0]["failed_at"])).num_rows == 1


def test_exactly_the_dead_letters_sent_are_marked_and_only_once(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    place = {"kind": "files", "uri": "file:///landing/a", "partition": None}
    add_dead_letters(
        table.uri,
        [{"raw": raw, "failed_at": AT, "source": {**place, "offset": i}} for i, raw in enumerate([b"a", b"b", b"c"])],
    )
    sent = pa.Table.from_pylist(
        [{"value": b"a", **place, "offset": 0}, {"value": b"x", **place, "offset": 1}], schema=SENT
    )
    for by in ("default/one", "default/two"):
        mark_redriven(HeldStore(table.uri), sent, Redrive(AT, by, "replay:job-1"))
    rows = Store(table.uri).table("dead_letters").to_pyarrow_table().to_pylist()
    assert {row["raw"]: row["redriven_by"] for row in rows} == {b"a": "default/one", b"b": None, b"c": None}
    assert {row["redriven_at"] for row in rows} == {AT, None}
