"""Subscriptions: rounds behind a cursor, each message once, whatever happens between two writes."""

import json
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask, Reset, Selection, StartPoint, Subscription
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import observing
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks
from messagestore_jobs.replay.job import run_replay
from support.long import few
from support.purges import purge
from support.replays import AT, Crash, Suspending, crash, files_replay, objects, replay_document, sent
from support.stores import add_messages, make_store, message, stored

BEGINNING = Subscription(start=StartPoint(at="Beginning"))


def messages(*positions: int) -> list[dict[str, Any]]:
    return [message(n, stream_name=f"c{n % 2}-1") for n in positions]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Five messages."""
    return make_store(tmp_path / "store", messages(1, 2, 3, 4, 5))


def arrive(table: Table, *positions: int) -> None:
    add_messages(table.uri, messages(*positions), next_global_position=max(positions) + 1)


def subscription(table: Table, folder: Path, start: Subscription = BEGINNING, **task: Any) -> RunDocument:
    return files_replay(table, folder, **{"subscription": start, **task})


def send(spark: SparkSession, document: RunDocument, control: Any = None) -> ReplayOutcome:
    return run_replay(Run.of(document, spark, Silent()), control)


def cursor(table: Table) -> dict[str, Any]:
    (path,) = Path(table.uri.removeprefix("file://")).glob("_cursors/*/cursor.json")
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def state(outcome: ReplayOutcome) -> tuple[int, int, int]:
    """The cursor's position, the rounds, and the messages sent in all of them."""
    return outcome.cursor.global_position, outcome.cursor.rounds, outcome.cursor.sent


def leftovers(table: Table, folder: Path) -> list[str]:
    """What is left of rounds' own state."""
    store = Path(table.uri.removeprefix("file://"))
    return [path.name for path in [*store.glob("_replays/*"), *folder.glob("_replay-*")]]


def test_each_round_sends_what_came_behind_the_cursor(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    document, folder = subscription(table, tmp_path / "out"), tmp_path / "out"
    assert state(send(spark, document)) == (5, 1, 5)
    idle = send(spark, document)
    assert (state(idle), idle.selection.messages, idle.complete) == ((5, 1, 5), 0, True)
    arrive(table, 6, 7)
    assert state(send(spark, document)) == (7, 2, 7)
    assert sent(folder) == [1, 2, 3, 4, 5, 6, 7]
    assert sorted(path.name for path in folder.iterdir()) == [
        *("manifest-00000001.json", "manifest-00000002.json"),
        *("part-00000000.jsonl", "part-00000001.jsonl"),
    ]
    assert leftovers(table, folder) == []
    rows = [row for row in read_audit(Store(table.uri)) if row["action"] == "Replay"]
    assert [row["counts"]["replayed"] for row in rows] == [5, 2]


def test_no_name_comes_twice_though_a_reader_removes_at_once_what_it_has_read(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    document, folder = subscription(table, tmp_path / "out"), tmp_path / "out"

    def read(name: str, moment: str) -> None:
        if (name, moment) == ("replay-manifest", "after"):
            for path in [*folder.glob("part-*"), *folder.glob("manifest-*")]:
                path.unlink()

    with observing(read):
        send(spark, document)
    arrive(table, 6)
    send(spark, document)
    assert list(objects(folder)) == ["part-00000001.jsonl"]


@pytest.mark.parametrize("crashed", ["cursor", "replay-ended", "replay-remove-state"])
def test_a_round_is_sent_once_though_its_reader_removes_it_before_a_crash(
    spark: SparkSession, tmp_path: Path, table: Table, crashed: str
) -> None:
    document, folder = subscription(table, tmp_path / "out"), tmp_path / "out"
    read = list[int]()

    def reader(name: str, moment: str) -> None:
        if moment == "after" and name == "replay-manifest":
            read.extend(sent(folder))
            for path in [*folder.glob("part-*"), *folder.glob("manifest-*")]:
                path.unlink()
        if moment == "before" and read and name == crashed:
            raise Crash

    with observing(reader), pytest.raises(Crash):
        send(spark, document)
    arrive(table, 6)
    assert state(send(spark, document)) == (6, 2, 6)
    assert (read, sent(folder), list(objects(folder))) == ([1, 2, 3, 4, 5], [6], ["part-00000001.jsonl"])
    assert leftovers(table, folder) == []


STARTS = {
    "at the beginning": (StartPoint(at="Beginning"), [1, 2, 3, 4, 5, 6]),
    "now": (StartPoint(at="Now"), [6]),
    "at a message": (StartPoint(global_position=4), [4, 5, 6]),
    "at the next message": (StartPoint(global_position=6), [6]),
    "behind the next message": (StartPoint(global_position=7), []),
    "before all were stored": (StartPoint(inserted_at=AT - timedelta(days=9999)), [1, 2, 3, 4, 5, 6]),
    "after all were stored": (StartPoint(inserted_at=AT + timedelta(days=9999)), []),
}


@pytest.mark.parametrize("start", few(STARTS, "now", "at a message", "after all were stored"))
def test_a_subscription_begins_at_its_start(spark: SparkSession, tmp_path: Path, table: Table, start: str) -> None:
    point, expected = STARTS[start]
    document = subscription(table, tmp_path / "out", Subscription(start=point))
    send(spark, document)
    arrive(table, 6)
    send(spark, document)
    assert sent(tmp_path / "out") == expected


def test_a_selection_passes_over_the_others_and_may_change(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    even, odd = (Selection(categories=(name,)) for name in ("c0", "c1"))
    assert state(send(spark, subscription(table, tmp_path / "out", select=even))) == (5, 1, 2)
    arrive(table, 6, 7, 8)
    outcome = send(spark, subscription(table, tmp_path / "out", select=odd))
    assert (state(outcome), sent(tmp_path / "out")) == ((8, 2, 3), [2, 4, 7])
    arrive(table, 10)
    passed = send(spark, subscription(table, tmp_path / "out", select=odd))
    assert (state(passed), sent(tmp_path / "out")) == ((10, 2, 3), [2, 4, 7])


def test_a_subscription_reports_its_lag(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    document = subscription(table, tmp_path / "out", select=Selection(categories=("c1",)))

    def arriving(name: str, moment: str) -> None:
        if (name, moment) == ("replay-manifest", "before"):
            arrive(table, 6, 7, 9)

    with observing(arriving):
        outcome = send(spark, document)
    (oldest,) = {row["inserted_at"] for row in stored(table.uri) if row["global_position"] == 7}
    lag = outcome.cursor.lag
    assert (lag.records, lag.oldest_pending_time, lag.as_of) == (2, oldest, AT)
    again = send(spark, document)
    assert (again.cursor.lag.records, again.cursor.lag.oldest_pending_time) == (0, None)


def test_a_paused_round_is_continued(
    spark: SparkSession, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 0.1)
    document = subscription(table, tmp_path / "out")
    paused = send(spark, document, Suspending(2))
    assert (paused.complete, sent(tmp_path / "out"), state(paused)) == (False, [1, 2], (0, 0, 0))
    arrive(table, 6)
    assert state(send(spark, document)) == (6, 2, 6)
    assert sent(tmp_path / "out") == [1, 2, 3, 4, 5, 6]


def test_a_changed_selection_counts_behind_what_a_paused_round_has_sent(
    spark: SparkSession, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 0.1)
    send(spark, subscription(table, tmp_path / "out"), Suspending(3))
    outcome = send(spark, subscription(table, tmp_path / "out", select=Selection(categories=("c1",))))
    assert (state(outcome), sent(tmp_path / "out")) == ((5, 2, 4), [1, 2, 3, 5])
    manifests = [json.loads((tmp_path / "out" / f"manifest-0000000{n}.json").read_text()) for n in (1, 2)]
    names = [[one["name"] for one in manifest["objects"]] for manifest in manifests]
    assert names == [[f"part-0000000{n}.jsonl" for n in (0, 1, 2)], ["part-00000003.jsonl"]]


@pytest.mark.parametrize("change", [{"mark_headers": {"x": "1"}}, {"select": Selection()}], ids=["mark", "all"])
def test_nothing_is_missed_where_a_changed_spec_cuts_a_round_short(
    spark: SparkSession, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 0.1)
    before = {} if "mark_headers" in change else {"select": Selection(categories=("c0", "c1"))}
    send(spark, subscription(table, tmp_path / "out", **before), Suspending(3))
    outcome = send(spark, subscription(table, tmp_path / "out", **change))
    assert (state(outcome), sent(tmp_path / "out")) == ((5, 2, 5), [1, 2, 3, 4, 5])
    assert (outcome.progress.missed, cursor(table)["missed"]) == (0, 0)
    assert state(send(spark, subscription(table, tmp_path / "out", **change))) == (5, 2, 5)


def test_a_reset_acts_once_for_each_value(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    folder = tmp_path / "out"
    send(spark, subscription(table, folder))
    back = Subscription(start=BEGINNING.start, reset=Reset(value="4", to=StartPoint(global_position=4)))
    again = send(spark, subscription(table, folder, back))
    assert (state(again), sent(folder)) == ((5, 2, 7), [1, 2, 3, 4, 5, 4, 5])
    assert (again.cursor.resets, again.cursor.reset) == (1, "4")
    assert state(send(spark, subscription(table, folder, back))) == (5, 2, 7)
    assert state(send(spark, subscription(table, folder))) == (5, 2, 7)
    assert state(send(spark, subscription(table, folder, back))) == (5, 3, 9)
    rows = [row for row in read_audit(Store(table.uri)) if row["action"] == "Reset"]
    assert [json.loads(row["rules"])["resetTo"] for row in rows] == ["4", "4"]
    assert rows[0]["counts"] == {"globalPositionBefore": 5, "globalPositionAfter": 3}


def test_a_reset_gives_up_a_paused_round(
    spark: SparkSession, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 0.1)
    send(spark, subscription(table, tmp_path / "out"), Suspending(2))
    to_now = Subscription(start=BEGINNING.start, reset=Reset(value="Now", to=StartPoint(at="Now")))
    assert state(send(spark, subscription(table, tmp_path / "out", to_now))) == (5, 1, 0)
    arrive(table, 6)
    assert state(send(spark, subscription(table, tmp_path / "out", to_now))) == (6, 2, 1)
    assert leftovers(table, tmp_path / "out") == []


def test_a_reset_beyond_the_store_is_refused(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    send(spark, subscription(table, tmp_path / "out"))
    far = Subscription(start=BEGINNING.start, reset=Reset(value="9", to=StartPoint(global_position=9)))
    with pytest.raises(RunFailedError, match=r"reset-to 9 lies past the store.s last global position 5;") as refused:
        send(spark, subscription(table, tmp_path / "out", far))
    assert (refused.value.reason, cursor(table)["globalPosition"]) == ("CursorAhead", 5)


def test_a_resource_made_again_goes_on(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    first = send(spark, subscription(table, tmp_path / "out", job_id="default.again.11111111"))
    arrive(table, 6)
    again = send(spark, subscription(table, tmp_path / "out", job_id="default.again.22222222"))
    assert (first.cursor.taken_up, again.cursor.taken_up, sent(tmp_path / "out")) == (False, True, [1, 2, 3, 4, 5, 6])
    idle = send(spark, subscription(table, tmp_path / "out", job_id="default.again.22222222"))
    assert not idle.cursor.taken_up


def test_a_store_made_again_has_no_cursor(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    send(spark, subscription(table, tmp_path / "out"))
    left = (tmp_path / "store" / "_cursors").rename(tmp_path / "left")
    shutil.rmtree(tmp_path / "store")
    made_again = make_store(tmp_path / "store", messages(1, 2))
    left.rename(tmp_path / "store" / "_cursors")
    assert state(send(spark, subscription(made_again, tmp_path / "other"))) == (2, 1, 2)


def test_a_store_laid_back_from_a_copy_is_refused_until_a_reset(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    folder = tmp_path / "out"
    send(spark, subscription(table, folder))
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    arrive(table, 6)
    send(spark, subscription(table, folder))
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "copy").rename(tmp_path / "store")
    arrive(table, 6, 7)
    with pytest.raises(RunFailedError, match="round 2") as refused:
        send(spark, subscription(table, folder))
    assert refused.value.reason == "CursorAhead"
    reset = Subscription(start=BEGINNING.start, reset=Reset(value="6", to=StartPoint(global_position=6)))
    assert state(send(spark, subscription(table, folder, reset))) == (7, 3, 7)
    assert sent(folder) == [1, 2, 3, 4, 5, 6, 6, 7]


def test_a_cursor_beyond_the_stores_last_position_is_refused(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    send(spark, subscription(table, tmp_path / "out"))
    cursors = tmp_path / "store" / "_cursors" / "default.again" / "cursor.json"
    cursors.write_text(json.dumps({**cursor(table), "globalPosition": 9}))
    with pytest.raises(RunFailedError, match="last global position is 5") as refused:
        send(spark, subscription(table, tmp_path / "out"))
    assert refused.value.reason == "CursorAhead"


def test_a_folder_of_others_is_refused(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    send(spark, subscription(table, tmp_path / "out"))
    arrive(table, 6)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(RunFailedError) as refused:
        send(spark, subscription(table, tmp_path / "out"))
    assert refused.value.reason == "DestinationNotEmpty"


def test_another_subscriptions_folder_is_refused(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    send(spark, subscription(table, tmp_path / "out"))
    document = subscription(table, tmp_path / "out")
    resource = document.resource.model_copy(update={"name": "other"})
    with pytest.raises(RunFailedError) as refused:
        send(spark, document.model_copy(update={"resource": resource}))
    assert refused.value.reason == "DestinationNotEmpty"


def test_a_second_run_of_a_subscription_ends_the_first(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    document = subscription(table, tmp_path / "out")
    moved = False

    def moving(name: str, moment: str) -> None:
        nonlocal moved
        if (name, moment) == ("replay-manifest", "before") and not moved:
            moved = True
            path = tmp_path / "store" / "_cursors" / "default.again" / "cursor.json"
            path.write_text(json.dumps({**cursor(table), "run": "another"}))

    with observing(moving), pytest.raises(RunFailedError) as refused:
        send(spark, document)
    assert refused.value.reason == "Fenced"
    assert state(send(spark, document)) == (5, 1, 5)
    assert sent(tmp_path / "out") == [1, 2, 3, 4, 5]


def test_unsent_messages_that_were_purged_and_those_that_were_erased_are_counted_apart(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    folder = tmp_path / "out"
    send(spark, subscription(table, folder))
    arrive(table, 6, 7, 8, 9)
    purge(spark, table, AT, rules=(Rule(name="r", match=Match(message_ids=("m6", "m7"))),), mode="Enforce")
    removal = Rule(name="e", match=Match(message_ids=("m8",)), erase=True)
    purge(spark, table, AT, rules=(removal,), mode="Enforce", run="purge-2")
    outcome = send(spark, subscription(table, folder))
    assert (outcome.cursor.missed, outcome.cursor.erased, sent(folder)) == (2, 1, [1, 2, 3, 4, 5, 9])
    (row,) = [row for row in read_audit(Store(table.uri)) if row["counts"].get("missed")]
    assert (row["action"], row["counts"]["missed"], row["counts"]["replayed"]) == ("Replay", 2, 1)


def with_expiry(tmp_path: Path) -> Table:
    """Messages 1 to 4, of which 2 has expired, and 3 does an hour later."""
    expiry = {2: AT, 3: AT + timedelta(hours=1), 4: AT + timedelta(days=1)}
    rows = [{**row, "expires_at": expiry.get(n)} for n, row in enumerate(messages(1, 2, 3, 4), 1)]
    return make_store(tmp_path / "expiring", rows)


def test_the_expired_are_skipped_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    table = with_expiry(tmp_path)
    outcome = send(spark, subscription(table, tmp_path / "out", skip_expired=True))
    assert (sent(tmp_path / "out"), state(outcome)) == ([1, 3, 4], (4, 1, 3))
    assert (outcome.progress.expired, outcome.cursor.expired, outcome.progress.failed) == (1, 1, 0)
    assert (outcome.progress.erased, outcome.progress.lost, outcome.progress.percent) == (0, 0, 100)
    (row,) = [row for row in read_audit(Store(table.uri)) if row["action"] == "Replay"]
    assert row["counts"]["expired"] == 1
    send(spark, files_replay(table, tmp_path / "once"))
    assert sent(tmp_path / "once") == [1, 2, 3, 4]


@pytest.mark.parametrize("form", few(["JSONLines", "JSON"], "JSON"))
def test_expiry_is_judged_when_a_chunk_is_sent(spark: SparkSession, tmp_path: Path, form: str) -> None:
    document = files_replay(with_expiry(tmp_path), tmp_path / "out", form, skip_expired=True)
    crash(lambda: send(spark, document), "replay-seal", "after", 1)
    outcome = send(spark, document.model_copy(update={"at": AT + timedelta(hours=1)}))
    assert (outcome.progress.replayed, outcome.progress.expired) == (2, 2)
    content = b"".join(objects(tmp_path / "out").values())
    found = json.loads(content) if form == "JSON" else [json.loads(line) for line in content.splitlines()]
    assert [record["globalPosition"] for record in found] == [1, 4]


def into_stream(table: Table, target: Path, start: Subscription = BEGINNING) -> RunDocument:
    to = Table(uri=f"file://{target}", owner=Owner(namespace="default", name="target"))
    ingest = IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere"))
    destination = StreamDestination(table=to, ingest=ingest)
    return replay_document(table, ReplayTask(job_id="job-1", subscription=start, destination=destination))


def test_a_subscription_sends_into_a_stream(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    document, target = into_stream(table, tmp_path / "target"), f"file://{tmp_path}/target"
    send(spark, document)
    arrive(table, 6, 7)
    assert state(send(spark, document)) == (7, 2, 7)
    assert [row["message_id"] for row in stored(target)] == [f"m{n}" for n in range(1, 8)]
    assert leftovers(table, tmp_path / "none") == []
    assert not list((tmp_path / "target" / "_replays").glob("*"))


WRITES = (
    "cursor",
    "replay-frozen",
    "replay-staging",
    "replay-seal",
    "replay-object",
    "replay-ending",
    "replay-manifest",
    "audit-replay",
)


@pytest.mark.parametrize("kind", few(WRITES, "replay-manifest"))
def test_killed_before_or_after_any_write_each_message_is_sent_once(
    spark: SparkSession, tmp_path: Path, table: Table, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 0.1)
    document, folder = subscription(table, tmp_path / "out"), tmp_path / "out"
    for moment in ("before", "after"):
        for at in (1, 2):
            crash(lambda: send(spark, document), kind, moment, at)
    arrive(table, 6, 7)
    send(spark, document)
    assert Counter(sent(folder)) == Counter(range(1, 8))
    assert cursor(table)["globalPosition"] == 7
    assert leftovers(table, folder) == []
    rows = [row for row in read_audit(Store(table.uri)) if row["action"] == "Replay"]
    assert sum(row["counts"]["replayed"] for row in rows) == 7
