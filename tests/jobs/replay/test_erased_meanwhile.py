"""Nothing is sent that was erased while a replay was under way, whatever it was about to do."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, Transaction
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.delta_log import EPOCH, empty_commit
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks
from messagestore_jobs.replay.job import run_replay
from support import purges
from support.external_writes import observing
from support.replays import AT, Suspending, files_replay, manifest, objects, records, replay_document
from support.stores import add_dead_letters, make_store, message, stored

Act = Callable[[], object]
Moment = tuple[str, str, int]
"""A write, whether before or after it, and which of its kind."""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a few messages, in objects of one or two."""
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 2)
    monkeypatch.setattr(chunks, "_OBJECT_ROWS", 1)


def some(count: int = 8) -> list[dict[str, Any]]:
    return [message(i, stream_name=f"order-{i % 2}", position=i // 2) for i in range(1, count + 1)]


def bury(table: Table, *numbers: int) -> Act:
    """Give messages a tombstone, which is what replays look at."""
    return lambda: add_tombstones(HeldStore(table.uri), [(f"m{n}", n) for n in numbers], AT, f"purge-{numbers}")


def erase(spark: SparkSession, table: Table, *numbers: int) -> Act:
    """Purge messages with tombstones, and remove all their copies from the store."""
    ids = tuple(f"m{number}" for number in numbers)

    def act() -> None:
        rule = Rule(name="erased", match=Match(message_ids=ids), erase=True)
        purges.purge(spark, table, AT, run=f"purge-{ids}", rules=(rule,), erase_within=timedelta(0))
        assert purges.erase(spark, table, AT).erased_at == AT

    return act


def replayed(spark: SparkSession, document: RunDocument, acts: dict[Moment, Act]) -> ReplayOutcome:
    """Run a replay to its end, and act at some moments of it, all of which must come."""
    seen: list[tuple[str, str]] = []
    left = dict(acts)

    def observer(name: str, moment: str) -> None:
        seen.append((name, moment))
        act = left.pop((name, moment, seen.count((name, moment))), None)
        if act is not None:
            act()

    with observing(observer):
        outcome = run_replay(Run.of(document, spark, Silent()))
    assert outcome.complete
    assert left == {}
    return outcome


def ids(folder: Path) -> list[str]:
    return [record["messageId"] for record in records(folder)]


def test_files_have_nothing_that_was_erased_before_their_manifest(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", some())
    acts: dict[Moment, Act] = {
        # Of the first chunk, with four messages: staged, about to be sealed, sealed, about to be moved.
        ("replay-staging", "after", 1): bury(table, 1),
        ("replay-seal", "before", 1): bury(table, 2),
        ("replay-seal", "after", 1): bury(table, 3),
        ("replay-object", "before", 2): bury(table, 5),
        # Of what was moved, between two moves and before the manifest.
        ("replay-object", "after", 4): bury(table, 4),
        ("replay-manifest", "before", 1): bury(table, 8),
    }
    outcome = replayed(spark, files_replay(table, tmp_path / "out"), acts)
    assert ids(tmp_path / "out") == ["m6", "m7"]
    told = manifest(tmp_path / "out")
    assert [part["messages"] for part in told["objects"]] == [
        len(content.splitlines()) for content in objects(tmp_path / "out").values()
    ]
    assert (outcome.progress.replayed, outcome.progress.erased, outcome.progress.lost) == (2, 6, 0)
    assert told["outcome"]["progress"]["erased"] == 6


def test_an_object_is_read_again_only_if_an_erased_message_may_be_in_it(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", some(12))
    document = files_replay(table, tmp_path / "out")
    assert not run_replay(Run.of(document, spark, Silent()), Suspending(2)).complete
    first = min((tmp_path / "out").glob("part-*"))
    first.write_text("what would be refused")
    bury(table, 12)()
    assert run_replay(Run.of(document, spark, Silent())).progress.erased == 1
    assert first.read_text() == "what would be refused"


def test_runs_that_only_claim_the_store_cost_a_replay_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", some())
    bury(table, 1)()
    written: list[str] = []

    def claim() -> None:
        transaction = CommitProperties(app_transactions=[Transaction(EPOCH, 7)])
        empty_commit(Store(table.uri).opened("tombstones"), "tombstones", transaction)

    with observing(lambda name, moment: written.append(name)):
        replayed(spark, files_replay(table, tmp_path / "out"), {("replay-object", "before", 1): claim})
    assert "replay-erased" not in written
    assert ids(tmp_path / "out") == [f"m{n}" for n in range(2, 9)]


def into(table: Table, target: Table, **task: Any) -> RunDocument:
    ingest = IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere"))
    destination = StreamDestination(table=target, ingest=ingest)
    return replay_document(table, ReplayTask(**{"job_id": "job-1", **task, "destination": destination}))


def test_another_stream_takes_in_nothing_that_was_erased_and_all_else_in_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make_store(tmp_path / "store", some())
    target = Table(uri=f"file://{tmp_path}/target", owner=Owner(namespace="default", name="target"))
    acts: dict[Moment, Act] = {
        ("replay-staging", "after", 1): bury(table, 3),
        ("replay-seal", "after", 1): bury(table, 4),
        # Between two moves, and before the records are taken in.
        ("replay-records", "after", 1): bury(table, 1),
        ("replay-staging", "after", 2): bury(table, 6),
    }
    outcome = replayed(spark, into(table, target), acts)
    assert [row["message_id"] for row in stored(target.uri)] == ["m2", "m5", "m7", "m8"]
    assert (outcome.progress.replayed, outcome.progress.erased) == (4, 4)
    assert Store(target.uri).table("dead_letters").count() == 0


@pytest.mark.long
def test_into_its_own_stream_an_erased_message_becomes_no_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    """The erasure has put a record without an id in its place."""
    table = make_store(tmp_path / "store", some())
    outcome = replayed(spark, into(table, table), {("replay-staging", "after", 1): erase(spark, table, 1, 6)})
    assert Store(table.uri).table("dead_letters").count() == 0
    assert [row["message_id"] for row in stored(table.uri)] == ["m2", "m3", "m4", "m5", "m7", "m8"]
    assert (outcome.progress.replayed, outcome.progress.erased) == (6, 2)


@pytest.mark.long
def test_a_short_chunk_is_explained_though_the_version_that_it_was_staged_from_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first erasure is why the chunk is short, the second removes the version that it was staged from."""
    table = make_store(tmp_path / "store", some())
    acts: dict[Moment, Act] = {
        ("replay-frozen", "after", 1): erase(spark, table, 1),
        ("replay-staging", "after", 1): erase(spark, table, 3),
    }
    outcome = replayed(spark, files_replay(table, tmp_path / "out"), acts)
    assert ids(tmp_path / "out") == ["m2", "m4", "m5", "m6", "m7", "m8"]
    assert (outcome.progress.replayed, outcome.progress.erased, outcome.progress.lost) == (6, 2, 0)


def add_letters(table: Table, *raws: bytes) -> None:
    place = {"kind": "files", "uri": "file:///landing/a", "partition": None}
    add_dead_letters(
        table.uri,
        [
            {"raw": raw, "failed_at": AT + timedelta(seconds=i), "source": {**place, "offset": i}}
            for i, raw in enumerate(raws)
        ],
    )


def test_a_dead_letter_that_names_an_erased_message_is_not_sent_to_files(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(1)])
    bury(table, 1)()
    # The first came late, after its message was erased.
    add_letters(table, b'{"messageId":"m1","n":', b'{"messageId":"m2"', b"\xff m3", b"m4 ", b"\xff m12", b"{m5}")
    document = files_replay(table, tmp_path / "out", "JSON", origin="DeadLetters")
    acts: dict[Moment, Act] = {
        ("replay-seal", "before", 1): bury(table, 2),
        ("replay-object", "after", 1): bury(table, 3),
        ("replay-manifest", "before", 1): bury(table, 4),
    }
    outcome = replayed(spark, document, acts)
    sent = [json.loads(content) for content in objects(tmp_path / "out").values()]
    assert [letter.get("raw", "bytes") for array in sent for letter in array] == ["bytes", "{m5}"]
    assert (outcome.progress.replayed, outcome.progress.erased, outcome.progress.lost) == (2, 4, 0)


@pytest.mark.long
def test_a_redrive_leaves_out_what_names_an_erased_message(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(1), message(2), message(3)])
    bury(table, 1)()
    every = [b'{"messageId":"m%d","streamName":"order-1"}' % n for n in (1, 2, 3, 9)]
    add_letters(table, *every, b"\xff\x00 m1", b"\xff\x00 m2", b"\xff\x00 m12")
    acts: dict[Moment, Act] = {
        ("replay-staging", "after", 1): bury(table, 2),
        ("replay-records", "after", 1): bury(table, 3),
    }
    outcome = replayed(spark, into(table, table, origin="DeadLetters"), acts)
    assert [row["message_id"] for row in stored(table.uri)] == ["m1", "m2", "m3", "m9"]
    reached = outcome.progress
    assert (reached.replayed, reached.erased, reached.lost) == (2, 5, 0)
    assert (reached.stored, reached.dead_lettered, reached.duplicates) == (1, 1, 0)
