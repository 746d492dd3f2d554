"""A replay sends exactly its selection, through crashes, suspensions, and changes of the store."""

import json
import shutil
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.replay import ReplayOutcome, Selection, Sequences
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.predicate import Predicate, compile_predicate
from messagestore_core.progress import Silent
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks, freeze
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.rows import matching
from support import purges
from support.external_writes import observing
from support.long import few
from support.purges import purge
from support.replays import Crash, Suspending, files_replay, manifest, objects, records, sent
from support.stores import START, Row, add_dead_letters, add_messages, change_rows, make_store, message, remove_rows

Moment = tuple[str, str]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 2)
    monkeypatch.setattr(chunks, "_OBJECT_ROWS", 1)


def writes(spark: SparkSession, document: RunDocument) -> list[Moment]:
    """Run to the end; return all moments of its external writes."""
    seen: list[Moment] = []
    with observing(lambda name, moment: seen.append((name, moment))):
        assert run_replay(Run.of(document, spark, Silent())).complete
    return seen


def crash_at(spark: SparkSession, document: RunDocument, number: int) -> Moment | None:
    """Run until the n-th moment; return it, or None if the run ended before."""
    seen: list[Moment] = []

    def observer(name: str, moment: str) -> None:
        seen.append((name, moment))
        if len(seen) > number:
            raise Crash

    with observing(observer):
        try:
            run_replay(Run.of(document, spark, Silent()))
        except Crash:
            return seen[-1]
    return None


def ten(stream: int = 3) -> list[Row]:
    return [message(i, stream_name=f"order-{i % stream}", position=i // stream) for i in range(1, 11)]


def test_one_crash_after_another_at_every_write_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ten())
    task: dict[str, Any] = {"select": Selection(statuses=("RECEIVED",), limit=5), "mark_headers": {"x": "{run}"}}
    whole = files_replay(table, tmp_path / "whole", **task)
    expected = Counter(writes(spark, whole))
    document = files_replay(table, tmp_path / "out", **task)
    # Each run reaches one moment at which no earlier run has crashed.
    crashed: set[Moment] = set()
    left: Counter[Moment] = Counter(expected)

    def observer(name: str, moment: str) -> None:
        if left[name, moment] > 0:
            left[name, moment] -= 1
            crashed.add((name, moment))
            raise Crash

    with observing(observer):
        while True:
            try:
                outcome = run_replay(Run.of(document, spark, Silent()))
                break
            except Crash:
                continue
    assert crashed == set(expected)
    assert outcome.progress.replayed == 5
    assert objects(tmp_path / "out") == objects(tmp_path / "whole")
    assert sent(tmp_path / "out") == list(range(1, 6))
    assert manifest(tmp_path / "out")["objects"] == manifest(tmp_path / "whole")["objects"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*objects(tmp_path / "whole"), "manifest.json"}


STORES = st.lists(
    st.fixed_dictionaries(
        {
            "stream_name": st.sampled_from(["a-1", "a-2", "b-1"]),
            "sequence_id": st.sampled_from([None, "s1", "s2"]),
            "sequence_number": st.integers(1, 4),
            "status": st.sampled_from(["RECEIVED", "COMPLETED"]),
        }
    ),
    min_size=1,
    max_size=9,
)
SELECTIONS = st.builds(
    Selection,
    categories=st.sampled_from([(), ("a",)]),
    statuses=st.sampled_from([(), ("RECEIVED",)]),
    sequences=st.sampled_from([None, Sequences(ids=("s1",))]),
    limit=st.sampled_from([None, 3]),
)


def selected(rows: list[Row], selection: Selection, order: str) -> list[Row]:
    """The rows to be sent, selected in plain Python."""
    taken = [
        row
        for row in rows
        if (not selection.categories or row["category"] in selection.categories)
        and (not selection.statuses or row["status"] in selection.statuses)
        and (not selection.sequences or row["sequence_id"] in selection.sequences.ids)
    ]
    if order == "Sequence":
        taken.sort(key=lambda row: (row["sequence_id"] is None, row["sequence_id"] or "", row["sequence_number"] or 0))
    return taken[: selection.limit]


@pytest.mark.long
@given(
    rows=STORES,
    selection=SELECTIONS,
    order=st.sampled_from(["PerStream", "Global", "Sequence", "None"]),
    crashes=st.lists(st.integers(0, 40), min_size=1, max_size=2),
)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_replay_sends_its_selection_once_and_in_order_whatever_crashes(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    selection: Selection,
    order: str,
    crashes: list[int],
) -> None:
    folder = tmp_path_factory.mktemp("law5")
    full = [
        message(i, **{**row, "sequence_number": None if row["sequence_id"] is None else row["sequence_number"]})
        for i, row in enumerate(rows, 1)
    ]
    table = make_store(folder / "store", full[::2], full[1::2])
    document = files_replay(table, folder / "out", select=selection, order=order)
    for number in crashes:
        crash_at(spark, document, number)
    assert run_replay(Run.of(document, spark, Silent())).complete
    expected = [row["global_position"] for row in selected(full, selection, order)]
    found = sent(folder / "out")
    if order == "None":
        assert sorted(found) == sorted(expected)
    else:
        assert found == expected
    assert manifest(folder / "out")["outcome"]["progress"]["replayed"] == len(expected)


def test_a_suspended_replay_continues_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out")
    control = Suspending(1)
    outcome = run_replay(Run.of(document, spark, Silent()), control)
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.percent) == (False, 4, 40)
    assert outcome.progress.last_global_position == 4
    assert sent(tmp_path / "out") == [1, 2, 3, 4]
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not run_replay(Run.of(document, spark, Silent()), Suspending(0)).complete
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.percent) == (True, 10, 100)
    assert sent(tmp_path / "out") == list(range(1, 11))


def test_the_selection_stays_as_it_was_while_the_store_grows_and_is_purged(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out")
    run_replay(Run.of(document, spark, Silent()), Suspending(1))
    add_messages(table.uri, [message(11)])
    remove_rows(table.uri, "messages", "global_position IN (6, 7)")
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert sent(tmp_path / "out") == list(range(1, 11))
    assert outcome.selection.messages == outcome.progress.replayed == 10
    add_messages(table.uri, [message(12)])
    assert run_replay(Run.of(document, spark, Silent())) == outcome


RECORDED = "stream_name RLIKE 'order-[12]'"
"""What an earlier release took for a predicate."""


def by_an_earlier_release(monkeypatch: pytest.MonkeyPatch, meant: str) -> None:
    """A release that takes RECORDED, which means ``meant``."""

    def takes(text: str, *columns: Any) -> Predicate:
        return compile_predicate(text.replace(RECORDED, meant), *columns)

    monkeypatch.setattr(matching, "compile_predicate", takes)


@pytest.mark.parametrize("order", few(["PerStream", "Sequence", "None"], "Sequence"))
@pytest.mark.parametrize(
    ("meant", "expected"),
    [("stream_name <> 'order-0'", [1, 2, 4, 5, 7, 8, 10]), ("length(stream_name) > 0", list(range(1, 11)))],
    ids=["some", "all"],
)
def test_a_selection_by_a_predicate_that_is_refused_today_is_sent_as_it_was_frozen(
    spark: SparkSession, tmp_path: Path, order: str, meant: str, expected: list[int]
) -> None:
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out", select=Selection(where=RECORDED), order=order)
    with pytest.MonkeyPatch.context() as earlier:
        by_an_earlier_release(earlier, meant)
        assert not run_replay(Run.of(document, spark, Silent()), Suspending(1)).complete
    add_messages(table.uri, [message(11, stream_name="order-1", position=9)])
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed) == (True, len(expected))
    assert sorted(sent(tmp_path / "out")) == expected


def test_dead_letters_by_a_predicate_that_is_refused_today_are_not_sent(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing but the predicate tells which they were."""
    table = make_store(tmp_path / "store", ten())
    add_dead_letters(table.uri, [{"raw": bytes([n]), "stream_name": "order-1", "failed_at": START} for n in range(9)])
    document = files_replay(table, tmp_path / "out", origin="DeadLetters", select=Selection(where=RECORDED))
    with pytest.MonkeyPatch.context() as earlier:
        by_an_earlier_release(earlier, "stream_name <> 'order-0'")
        assert not run_replay(Run.of(document, spark, Silent()), Suspending(1)).complete
    before = objects(tmp_path / "out")
    with pytest.raises(RunFailedError, match=r"RLIKE.*write LIKE") as refused:
        run_replay(Run.of(document, spark, Silent()))
    assert (refused.value.reason, objects(tmp_path / "out")) == ("PredicateRefused", before)


FROZEN = {"lasting": Selection(), "listed": Selection(statuses=("RECEIVED",))}


@pytest.mark.parametrize("name", few(FROZEN, "listed"))
def test_a_message_that_is_erased_during_a_replay_is_not_sent(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out", select=FROZEN[name])
    run_replay(Run.of(document, spark, Silent()), Suspending(1))
    change_rows(table.uri, "messages", {"status": "'COMPLETED'"}, "global_position = 8")
    add_messages(table.uri, [message(11)])
    erase(spark, table, 2, 6, 7)
    outcome = run_replay(Run.of(document, spark, Silent()))
    # Without a manifest 2 was not handed out yet.
    assert sent(tmp_path / "out") == [1, 3, 4, 5, 8, 9, 10]
    reached = outcome.progress
    assert (outcome.complete, reached.replayed, reached.erased, reached.percent) == (True, 7, 3, 100)


def erase(spark: SparkSession, table: Table, *numbers: int) -> None:
    """Erase messages for good: no file that held them is left."""
    rule = Rule(name="erased", match=Match(message_ids=tuple(f"m{number}" for number in numbers)), erase=True)
    at = datetime.now(UTC)
    purge(spark, table, at, run="purge-erased", rules=(rule,), erase_within=timedelta(0))
    assert purges.erase(spark, table, at).erased_at == at


# By ranges of one message each, or of some.
READ = [(order, splits) for splits in (1 << 16, 3) for order in ("PerStream", "Sequence")]


@pytest.mark.parametrize(("order", "splits"), few(READ, ("PerStream", 3)))
def test_unreadable_messages_are_named_and_fail_the_replay_at_its_end(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, splits: int
) -> None:
    """A purge removed 7 and 10, and an erasure of 8 removed the earlier versions that had them."""
    monkeypatch.setattr(freeze, "SPLITS", splits)
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out", select=Selection(where="stream_name <> 'order-0'"), order=order)
    assert not run_replay(Run.of(document, spark, Silent()), Suspending(1)).complete
    gone = Rule(name="purged", match=Match(message_ids=("m7", "m9", "m10")))
    purge(spark, table, START + timedelta(days=1), rules=(gone,))
    erase(spark, table, 3, 8)
    for _ in range(2):
        with pytest.raises(RunFailedError, match=r"2 of 7 selected messages .* global positions 7, 10") as failed:
            run_replay(Run.of(document, spark, Silent()))
        assert failed.value.reason == "MessagesLost"
        assert isinstance(failed.value.outcome, ReplayOutcome)
        reached = failed.value.outcome.progress
        assert (reached.replayed, reached.erased, reached.lost, reached.first_lost_positions) == (4, 1, 2, (7, 10))
    assert sent(tmp_path / "out") == [1, 2, 4, 5]
    assert manifest(tmp_path / "out")["outcome"]["progress"]["lost"] == 2


@pytest.mark.long
def test_a_message_with_a_tombstone_is_not_sent_though_its_bytes_are_still_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out")
    run_replay(Run.of(document, spark, Silent()), Suspending(1))
    rules = (
        Rule(name="erased", match=Match(message_ids=("m6", "m7")), erase=True),
        Rule(name="purged", match=Match(message_ids=("m9",))),
    )
    purge(spark, table, START + timedelta(days=1), rules=rules, erase_within=timedelta(days=30))
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert sent(tmp_path / "out") == [1, 2, 3, 4, 5, 8, 9, 10]
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.percent) == (True, 8, 100)


@pytest.mark.parametrize("file_format", few(["JSONLines", "JSON"]))
def test_a_message_that_is_erased_after_its_chunk_was_sealed_is_not_sent(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    """Whichever writes the run and the next runs are cut off at."""
    rows = ten()
    rows[1] |= {"payload": b'{"a":"}\\",{[",\n"b":[1.10,{}]}', "payload_size": None, "payload_sha256": None}
    table = make_store(tmp_path / "store", rows)
    document = files_replay(table, tmp_path / "out", file_format)
    seal = ("replay-seal", "after")
    crash_once(spark, document, seal)
    erase(spark, table, 1, 3, 4)
    for moment in [("replay-erased", "after"), ("replay-seal", "before"), ("replay-object", "before")]:
        crash_once(spark, document, moment)
    outcome = run_replay(Run.of(document, spark, Silent()))
    found = objects(tmp_path / "out").values()
    arrays = [json.loads(text) if file_format == "JSON" else list(map(json.loads, text.splitlines())) for text in found]
    assert [record["globalPosition"] for array in arrays for record in array] == [2, 5, 6, 7, 8, 9, 10]
    assert [part["messages"] for part in manifest(tmp_path / "out")["objects"]] == list(map(len, arrays))
    assert (outcome.progress.replayed, outcome.progress.erased, outcome.progress.percent) == (7, 3, 100)


@pytest.mark.long
def test_of_two_messages_with_one_id_the_one_that_was_not_erased_is_sent(spark: SparkSession, tmp_path: Path) -> None:
    """In a chunk that was sealed before, and in one that was not."""
    rows = ten()
    for twin, number in ((3, 2), (9, 8)):
        rows[twin - 1]["message_id"] = f"m{number}"
    table = make_store(tmp_path / "store", rows)
    document = files_replay(table, tmp_path / "out")
    crash_once(spark, document, ("replay-seal", "after"))
    rule = Rule(name="erased", match=Match(where="global_position IN (2, 9)"), erase=True)
    purge(spark, table, datetime.now(UTC), rules=(rule,), erase_within=timedelta(0))
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert sent(tmp_path / "out") == [1, 3, 4, 5, 6, 7, 8, 10]
    assert (outcome.progress.replayed, outcome.progress.erased, outcome.progress.percent) == (8, 2, 100)


def crash_once(spark: SparkSession, document: RunDocument, at: Moment) -> None:
    """Run until a moment, which must come."""

    def observer(name: str, moment: str) -> None:
        if (name, moment) == at:
            raise Crash

    with observing(observer), pytest.raises(Crash):
        run_replay(Run.of(document, spark, Silent()))


@pytest.mark.long
def test_a_chunk_of_which_nothing_is_left_is_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ten()[:4], ten()[4:8], ten()[8:])
    for file_format in ("JSONLines", "JSON"):
        document = files_replay(table, tmp_path / file_format, file_format)
        run_replay(Run.of(document, spark, Silent()), Suspending(1))
    erase(spark, table, 5, 6, 7, 8)
    for file_format in ("JSONLines", "JSON"):
        outcome = run_replay(Run.of(files_replay(table, tmp_path / file_format, file_format), spark, Silent()))
        assert (outcome.complete, outcome.progress.replayed) == (True, 6)
    assert sent(tmp_path / "JSONLines") == [1, 2, 3, 4, 9, 10]
    arrays = [json.loads(content) for content in objects(tmp_path / "JSON").values()]
    assert [record["globalPosition"] for array in arrays for record in array] == [1, 2, 3, 4, 9, 10]


def test_a_replay_sends_no_faster_than_its_rate_limit(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out", messages_per_second=4.0)
    began = time.monotonic()
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert time.monotonic() - began >= 2.5
    assert sent(tmp_path / "out") == list(range(1, 11))
    assert outcome.progress.messages_per_second is not None
    assert outcome.progress.messages_per_second <= 4.0
    assert [part["messages"] for part in manifest(tmp_path / "out")["objects"]] == [4, 4, 1, 1]


@pytest.mark.parametrize("name", ["part-00000000.jsonl", "other/file", "_replay-job-2/frozen.json", "manifest.json"])
def test_a_destination_that_holds_anything_else_is_refused_untouched(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    table = make_store(tmp_path / "store", ten())
    other = tmp_path / "out" / name
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    with pytest.raises(RunFailedError, match="is not empty") as refused:
        run_replay(Run.of(files_replay(table, tmp_path / "out"), spark, Silent()))
    assert refused.value.reason == "DestinationNotEmpty"
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == [other]


def test_another_selection_under_the_same_name_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ten())
    run_replay(Run.of(files_replay(table, tmp_path / "out"), spark, Silent()), Suspending(1))
    with pytest.raises(RunFailedError) as refused:
        run_replay(Run.of(files_replay(table, tmp_path / "out", order="Global"), spark, Silent()))
    assert refused.value.reason == "ReplayChanged"
    slower = files_replay(table, tmp_path / "out", messages_per_second=1e6)
    assert run_replay(Run.of(slower, spark, Silent())).complete


def test_a_replay_does_not_go_on_with_a_store_that_was_made_again(spark: SparkSession, tmp_path: Path) -> None:
    document = files_replay(make_store(tmp_path / "store", ten()), tmp_path / "out")
    run_replay(Run.of(document, spark, Silent()), Suspending(1))
    shutil.rmtree(tmp_path / "store")
    make_store(tmp_path / "store", ten())
    with pytest.raises(RunFailedError, match="began with another selection, order, mark, table or store") as refused:
        run_replay(Run.of(document, spark, Silent()))
    assert refused.value.reason == "ReplayChanged"


def test_a_manifest_names_no_object_that_somebody_has_removed(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out", messages_per_second=100.0)
    run_replay(Run.of(document, spark, Silent()), Suspending(1))
    (tmp_path / "out/part-00000000.jsonl").unlink()
    with pytest.raises(RunFailedError, match=r"part-00000000\.jsonl among them") as refused:
        run_replay(Run.of(document, spark, Silent()))
    assert refused.value.reason == "ObjectsMissing"
    assert not (tmp_path / "out/manifest.json").exists()


@pytest.mark.parametrize("killed", ["replay-remove-chunks", "replay-remove-state"])
def test_a_replay_that_is_killed_after_its_reader_removed_all_it_had_read_has_ended(
    spark: SparkSession, tmp_path: Path, killed: str
) -> None:
    document = files_replay(make_store(tmp_path / "store", ten()), tmp_path / "out")
    read = list[int]()

    def reader(name: str, moment: str) -> None:
        if (name, moment) == ("replay-manifest", "after"):
            read.extend(sent(tmp_path / "out"))
            for path in [*(tmp_path / "out").glob("part-*"), tmp_path / "out/manifest.json"]:
                path.unlink()
        if (name, moment) == (killed, "before"):
            raise Crash

    with observing(reader), pytest.raises(Crash):
        run_replay(Run.of(document, spark, Silent()))
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed, sorted(read)) == (True, 10, list(range(1, 11)))
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def test_a_dry_run_counts_and_writes_nothing_but_its_row_of_the_audit(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out", mode="DryRun", select=Selection(limit=4))
    written: list[str] = []
    with observing(lambda name, moment: written.append(name) if moment == "before" else None):
        outcome = run_replay(Run.of(document, spark, Silent()))
    assert written == ["audit-preview"]
    assert outcome.selection.messages == 4
    assert outcome.progress.replayed == 0
    assert not (tmp_path / "out").exists()


def test_a_store_without_messages_is_replayed_at_once(spark: SparkSession, tmp_path: Path) -> None:
    empty = make_store(tmp_path / "store", [])
    missing = Table(uri=f"file://{tmp_path}/missing", owner=empty.owner)
    for name, table in (("a", empty), ("b", missing)):
        for mode in ("DryRun", "Run"):
            outcome = run_replay(Run.of(files_replay(table, tmp_path / name, mode=mode), spark, Silent()))
            assert (outcome.complete, outcome.selection.messages, outcome.progress.replayed) == (True, 0, 0)
        assert manifest(tmp_path / name)["objects"] == []
    assert not (tmp_path / "missing").exists()
    assert records(tmp_path / "a") == []
