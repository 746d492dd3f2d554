"""A purge that is killed at any external write, and continued."""

import json
import shutil
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Archive, Hold, Match, Rule, Scrub, StreamPosition
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import local_path
from messagestore_core.store.purges import find_plans
from messagestore_core.store.schemas import HISTORY, TABLES
from messagestore_core.store.tombstones import erased_positions, open_erased
from messagestore_jobs.context import Run
from messagestore_jobs.index import changes
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.replay.job import run_replay
from support.crash import crash_run
from support.external_writes import observing
from support.indexes import Ingested
from support.long import few
from support.maintenance import maintain
from support.purges import (
    CrashError,
    archived_positions,
    crash_at,
    crash_before_any_but,
    erase,
    erase_document,
    files_below,
    purge,
    purge_document,
)
from support.replays import files_replay, sent
from support.stores import (
    START,
    add_dead_letters,
    add_history,
    add_messages,
    change_rows,
    heads_of,
    history_of,
    make_store,
    message,
    positions,
    stored,
)

DAY = timedelta(days=1)
NOW = START + 3 * DAY

DELETE: dict[str, Any] = {
    "rules": (
        Rule(name="old", max_age=2 * DAY + DAY / 2),
        Rule(name="truncated", truncate_before=StreamPosition(stream_name="order-1", position=7)),
        Rule(name="erased", match=Match(message_ids=("m1", "m8")), erase=True),
    ),
    "dead_letters_max_age": DAY,
    "erase_within": timedelta(0),
}
DAYS: dict[str, Any] = {"rules": (Rule(name="old", max_age=DAY), Rule(name="older", max_age=2 * DAY))}
SCRUB: dict[str, Any] = {
    "rules": (Rule(name="all", max_messages_per_stream=0),),
    "action": "Scrub",
    "scrub": Scrub(payload_paths=("$.n",), error=True),
}
TASKS = {"delete": DELETE, "whole days": DAYS, "scrub": SCRUB}
LONG = {"archive-files", "claim-check-rewrite", "delete-rows", "history-rows", "history-scrub", "scrub-rows"}
"""Writes by Spark, which a kill can hit in the middle."""
WRITES = {
    "delete": [
        "freeze-rows",
        "freeze-plan",
        "archive-clear",
        "archive-files",
        "archive-seal",
        "tombstone-key",
        "tombstones",
        "heads",
        "delete-days",
        "delete-rows",
        "history-days",
        "history-rows",
        "claim-check-delete",
        "delete-dead-letters",
        "audit-purge",
        "forget-plan",
        "forget-rows",
        *["erase-vacuum", "erase-renew", "erase-checkpoint", "erase-log"] * len((*TABLES, HISTORY)),
        "audit-erase",
    ],
    "whole days": [
        "freeze-plan",
        "archive-clear",
        "archive-files",
        "archive-seal",
        "heads",
        "delete-days",
        "history-days",
        "audit-purge",
        "forget-plan",
        "forget-rows",
    ],
    "scrub": [
        "freeze-rows",
        "freeze-plan",
        "archive-clear",
        "archive-files",
        "archive-seal",
        "history-scrub",
        "claim-check-rewrite",
        "scrub-rows",
        "claim-check-delete",
        "audit-scrub",
        "forget-plan",
        "forget-rows",
    ],
}


def build(folder: Path) -> Table:
    shutil.rmtree(folder, ignore_errors=True)
    store = folder / "store"
    rows = [message(n, inserted_at=START + (n // 4) * DAY) for n in range(12)]
    rows[8] |= {"payload": None, "payload_uri": f"file://{store}/payloads/{8:020}"}
    table = make_store(store, rows)
    add_history(table.uri, rows, error="why")
    (store / "payloads").mkdir()
    (store / "payloads" / f"{8:020}").write_bytes(b'{"n":8}')
    add_dead_letters(table.uri, [{"raw": b"old", "failed_at": START}, {"raw": b"new", "failed_at": NOW}])
    return table


def state(folder: Path, table: Table) -> dict[str, Any]:
    """Everything that must be equal at the end: not times and versions."""
    rows = [{**row, "payload_uri": (row["payload_uri"] or "").rpartition("/")[2]} for row in stored(table.uri)]
    audit = [
        (row["action"], row["run"], row["refers_to"], row["counts"], row["bytes"])
        for row in read_audit(Store(table.uri))
    ]
    return {
        "rows": rows,
        "archived": archived_positions(f"file://{folder}/archive"),
        "history": history_of(table.uri),
        "heads": heads_of(Store(table.uri)),
        "tombstones": len(open_erased(Store(table.uri))),
        "audit": audit,
        "dead letters": Store(table.uri).table("dead_letters").to_pyarrow_table()["raw"].to_pylist(),
        "objects": sorted(name for name in files_below(f"{table.uri}/payloads")),
        "left over": [name for name in files_below(table.uri) if name.startswith("_purges/")],
    }


def run(spark: SparkSession, folder: Path, table: Table, task: dict[str, Any], name: str, at: datetime) -> None:
    """A purge and, if one is due by then, an erasure."""
    purge(spark, table, at, run=name, archive=Archive(uri=f"file://{folder}/archive"), **task)
    erase(spark, table, at)


SOME = ("freeze-rows", "archive-files", "tombstones", "delete-rows", "history-rows", "forget-rows", "erase-vacuum")
CRASHES: list[tuple[str, tuple[str, ...]]] = [("delete", SOME), *((action, tuple(WRITES[action])) for action in TASKS)]


@pytest.mark.parametrize(("action", "at"), few(CRASHES, CRASHES[0]))
def test_every_crash_is_carried_on_to_the_same_store(
    spark: SparkSession, tmp_path: Path, action: str, at: tuple[str, ...]
) -> None:
    task, table, writes = TASKS[action], build(tmp_path), []
    with observing(lambda name, moment: writes.append(name) if moment == "before" else None):
        run(spark, tmp_path, table, task, "purge-1", NOW)
    assert writes == WRITES[action]
    expected = state(tmp_path, table)
    assert expected["left over"] == []
    crashed = [name for name in writes if name not in at]
    table = build(tmp_path)
    while not ran_to_its_end(spark, tmp_path, table, task, crashed):
        assert len(crashed) < 3 * len(writes)
    assert set(crashed) == {*writes, "sweep-plan"}
    assert state(tmp_path, table) == expected


KILLED_AT = [
    ("delete", ("archive-files", "delete-rows", "history-rows", "forget-plan")),
    # If the plan is gone, the next run finds its rows by their folder. An erasure waits for the purge.
    (
        "delete",
        ("freeze-rows", "tombstones", "delete-days", "forget-plan", "sweep-plan", "erase-vacuum", "audit-erase"),
    ),
    ("scrub", ("history-scrub", "claim-check-rewrite", "scrub-rows", "audit-scrub")),
]
"""Each kill costs the start of a process; the test before breaks off at all writes."""


@pytest.mark.long
@pytest.mark.parametrize(("action", "writes"), KILLED_AT)
def test_a_purge_that_is_killed_at_writes_of_each_stage_ends_with_the_same_store(
    spark: SparkSession, tmp_path: Path, action: str, writes: tuple[str, ...]
) -> None:
    table, task = build(tmp_path), TASKS[action]
    run(spark, tmp_path, table, task, "purge-1", NOW)
    expected = state(tmp_path, table)
    shutil.rmtree(tmp_path / "archive")
    table = build(tmp_path)
    archive = Archive(uri=f"file://{tmp_path}/archive")
    purging = purge_document(table, NOW, run="purge-1", archive=archive, **task)
    for name in writes:
        erases = name.startswith(("erase-", "audit-erase"))
        document = erase_document(table, NOW) if erases else purging
        crash_run(spark, document, name, "within" if name in LONG else "after")
    run(spark, tmp_path, table, task, "purge-1", NOW)
    assert state(tmp_path, table) == expected


@pytest.mark.parametrize("name", few(["delete-days", "delete-rows", "index-parts", "index", "index-manifest"]))
def test_an_index_is_right_after_a_purge_that_broke_off(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(changes, "FEW_ROWS", 0)
    table, task = build(tmp_path), DELETE | {"erase_within": DAY}
    store, every = HeldStore(table.uri), [f"m{n}" for n in range(12)]
    StoreIndex(spark, store).save()

    def index_agrees() -> bool:
        return Ingested.opened(spark, store).says(every) == {row["message_id"] for row in stored(table.uri)}

    others = [*WRITES["delete"], "index-parts", "index", "index-manifest", "index-superseded"]
    crashed = [other for other in others if other != name]
    assert not ran_to_its_end(spark, tmp_path, table, task, crashed)
    assert index_agrees()
    assert ran_to_its_end(spark, tmp_path, table, task, [*crashed, "sweep-plan"])
    assert 0 < len(stored(table.uri)) < 12
    assert index_agrees()


def ran_to_its_end(spark: SparkSession, folder: Path, table: Table, task: dict[str, Any], crashed: list[str]) -> bool:
    """Start a run, killed before its first external write at which no earlier run was killed; whether it ended."""
    try:
        with observing(crash_before_any_but(crashed)):
            run(spark, folder, table, task, "purge-1", NOW)
    except CrashError:
        return False
    return True


@pytest.mark.long
def test_an_erasure_does_not_wait_for_a_scrub_that_broke_off(spark: SparkSession, tmp_path: Path) -> None:
    table = build(tmp_path)
    erased = Rule(name="erased", match=Match(message_ids=("m1",)), erase=True)
    purge(spark, table, NOW, run="purge-0", rules=(erased,), erase_within=timedelta(hours=1))
    with pytest.raises(CrashError), observing(crash_at(WRITES["scrub"].index("scrub-rows"))):
        run(spark, tmp_path, table, SCRUB, "purge-1", NOW)

    assert erase(spark, table, NOW + DAY).erased == 1

    run(spark, tmp_path, table, SCRUB, "purge-1", NOW + DAY)
    (claimed,) = files_below(f"{table.uri}/payloads")
    assert Path(local_path(f"{table.uri}/payloads/{claimed}")).read_bytes() == b'{"n":"[redacted]"}'


def test_a_later_run_carries_on_the_frozen_selection_then_makes_its_own(spark: SparkSession, tmp_path: Path) -> None:
    table = build(tmp_path)
    with pytest.raises(CrashError), observing(crash_at(WRITES["delete"].index("delete-rows"))):
        run(spark, tmp_path, table, DELETE, "purge-1", NOW)
    later = purge(
        spark, table, NOW + DAY, run="purge-2", rules=(Rule(name="old", max_age=2 * DAY + DAY / 2),),
        archive=Archive(uri=f"file://{tmp_path}/archive"),
    )  # fmt: skip
    assert [row["global_position"] for row in stored(table.uri)] == [9, 10, 11]
    assert archived_positions(f"file://{tmp_path}/archive") == [0, 2, 3, 4, 5, 6, 7]
    assert later.preview.messages == 1
    assert later.purge.purged == 9
    purges = [(row["run"], row["counts"]["purged"]) for row in read_audit(Store(table.uri)) if row["action"] == "Purge"]
    assert purges == [("purge-1", 8), ("purge-2", 1)]


def test_a_plan_by_a_predicate_that_is_refused_today_is_carried_out_as_it_was_frozen(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = build(tmp_path)
    rules = (Rule(name="some", match=Match(where="stream_name = 'order-1'")),)
    with pytest.raises(CrashError), observing(crash_at(WRITES["delete"].index("archive-clear"))):
        run(spark, tmp_path, table, {"rules": rules, "erase_within": timedelta(0)}, "purge-1", NOW)
    (plan,) = Path(local_path(table.uri)).glob("_purges/*/plan.json")
    frozen = find_plans(Store(table.uri))[0].messages
    plan.write_text(plan.read_text().replace("stream_name = 'order-1'", "stream_name RLIKE 'order-1'"))
    before = len(stored(table.uri))
    later = purge(
        spark, table, NOW, run="purge-2", rules=(Rule(name="none", statuses=("EXPIRED",)),),
        archive=Archive(uri=f"file://{tmp_path}/archive"),
    )  # fmt: skip
    assert later.purge.purged == frozen == before - len(stored(table.uri)) > 0


def test_a_purge_leaves_a_begun_one_with_another_archive_to_its_own_policy(spark: SparkSession, tmp_path: Path) -> None:
    table = build(tmp_path)
    with pytest.raises(CrashError), observing(crash_at(WRITES["delete"].index("delete-rows"))):
        run(spark, tmp_path, table, DELETE, "purge-1", NOW)
    before = state(tmp_path, table)
    with pytest.raises(RunFailedError, match=rf"archives to file://{tmp_path}/archive, .* set its archive back"):
        purge(spark, table, NOW, run="purge-2", **DELETE)
    assert state(tmp_path, table) == before


HELD_LATE = {
    # Message 0 was removed with its day before the hold came.
    "delete": ("delete-rows", ("m5", "m0"), {0, 2, 3, 4, 5, 6}, 5),
    "whole days": ("delete-days", ("m2",), set(range(8)), 2),
}
"""The write before which a purge was cut off, what is held, what was archived, and which of that stays."""


@pytest.mark.parametrize("action", few(HELD_LATE, "whole days"))
def test_a_hold_that_comes_after_the_crash_is_obeyed_and_the_archive_follows(
    spark: SparkSession, tmp_path: Path, action: str
) -> None:
    table, task, (cut, held, archived, stays) = build(tmp_path), TASKS[action], HELD_LATE[action]
    with pytest.raises(CrashError), observing(crash_at(WRITES[action].index(cut))):
        run(spark, tmp_path, table, task, "purge-1", NOW)
    assert archived_positions(f"file://{tmp_path}/archive") == sorted(archived)
    hold = Hold(name="late", match=Match(message_ids=held))
    run(spark, tmp_path, table, {**task, "holds": (hold,)}, "purge-1", NOW)
    newer = [7, 9, 10, 11] if action == "delete" else [8, 9, 10, 11]
    assert [row["global_position"] for row in stored(table.uri)] == [stays, *newer]
    assert archived_positions(f"file://{tmp_path}/archive") == sorted(archived - {stays})
    assert read_audit(Store(table.uri))[0]["counts"]["purged"] == 7


KEEPS = ("freeze-rows", "tombstones-withdrawn", "freeze-plan")
KEPT: list[tuple[str, str, tuple[str, ...]]] = [
    ("heads", "held", KEEPS),
    ("delete-rows", "held", ()),
    ("delete-days", "expired", ()),
]


@pytest.mark.parametrize(("cut", "why", "kept_at"), few(KEPT, KEPT[2]))
def test_a_message_that_a_broken_off_purge_came_to_keep_is_not_erased(
    spark: SparkSession, tmp_path: Path, cut: str, why: str, kept_at: tuple[str, ...]
) -> None:
    """A hold comes, or its status changes, after a purge was cut off; the next runs may be cut off, too."""
    table = build(tmp_path)
    with pytest.raises(CrashError), observing(crash_before_any_but([n for n in WRITES["delete"] if n != cut])):
        run(spark, tmp_path, table, DELETE, "purge-1", NOW)
    task = DELETE
    if why == "held":
        # Message 1 may have been removed with its day.
        task = {**DELETE, "holds": (Hold(name="late", match=Match(message_ids=("m1", "m8"))),)}
    else:
        change_rows(table.uri, "messages", {"status": "'EXPIRED'"}, "global_position IN (1, 8)")
    crashed = [name for name in [*WRITES["delete"], *KEEPS, "archive-sweep", "sweep-plan"] if name not in kept_at]
    for _ in kept_at:
        assert not ran_to_its_end(spark, tmp_path, table, task, crashed)
    assert ran_to_its_end(spark, tmp_path, table, task, crashed)
    removed_before = cut == "delete-rows"
    assert [n for n in (1, 8) if n in positions(table.uri)] == ([8] if removed_before else [1, 8])
    assert erased_positions(Store(table.uri)).tolist() == ([1] if removed_before else [])
    run_replay(Run.of(files_replay(table, tmp_path / "sent"), spark, Silent()))
    assert sent(tmp_path / "sent") == positions(table.uri)

    # Once nothing keeps it, it is erased like any other.
    last = {"rules": (Rule(name="erased", match=Match(message_ids=("m1", "m8", "m9")), erase=True),)}
    purge(spark, table, NOW + DAY, run="purge-2", erase_within=timedelta(0), **last)
    assert erase(spark, table, NOW + DAY).erased_at == NOW + DAY
    assert sorted(erased_positions(Store(table.uri))) == [1, 8, 9]


def test_an_erasure_does_not_wait_for_a_purge_that_is_still_to_remove_what_it_erases(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = build(tmp_path)
    erased = Rule(name="erased", match=Match(message_ids=("m0",)), erase=True)
    purge(spark, table, NOW, run="purge-0", rules=(erased,), erase_within=timedelta(hours=1))
    with pytest.raises(CrashError), observing(crash_before_any_but([n for n in WRITES["delete"] if n != "heads"])):
        run(spark, tmp_path, table, DELETE, "purge-1", NOW)

    assert erase(spark, table, NOW + DAY).erased == 1

    run(spark, tmp_path, table, DELETE, "purge-1", NOW + DAY)
    assert positions(table.uri) == [7, 9, 10, 11]
    assert sorted(erased_positions(Store(table.uri))) == [0, 1, 8]


def test_a_purge_whose_messages_all_came_under_a_hold_leaves_no_archive(spark: SparkSession, tmp_path: Path) -> None:
    table = build(tmp_path)
    old = (Rule(name="old", max_age=2 * DAY + DAY / 2),)
    with pytest.raises(CrashError), observing(crash_at(WRITES["delete"].index("heads") - 2)):
        run(spark, tmp_path, table, {"rules": old}, "purge-1", NOW)
    assert archived_positions(f"file://{tmp_path}/archive") == [0, 1, 2, 3]
    hold = Hold(name="late", match=Match(categories=("order",)))
    run(spark, tmp_path, table, {"rules": old, "holds": (hold,)}, "purge-1", NOW)
    assert len(stored(table.uri)) == 12
    assert files_below(f"file://{tmp_path}/archive") == {}


@pytest.mark.long
def test_whole_days_leave_also_when_the_purge_goes_on_after_the_tables_past_is_promised_no_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = build(tmp_path)
    with observing(crash_before_any_but(["freeze-plan"])), pytest.raises(CrashError):
        purge(spark, table, NOW, archive=Archive(uri=f"file://{tmp_path}/archive"), **DAYS)
    messages = Store(table.uri).table("messages")
    messages.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 seconds"})
    time.sleep(1.5)

    outcome = purge(spark, table, NOW, run="purge-2", archive=Archive(uri=f"file://{tmp_path}/archive"), **DAYS)

    assert outcome.purge.purged == 8
    assert sorted(row["global_position"] for row in stored(table.uri)) == [8, 9, 10, 11]
    assert archived_positions(f"file://{tmp_path}/archive") == list(range(8))


ROWS: dict[str, Any] = {"rules": (Rule(name="one", match=Match(message_ids=("m5",)), erase=True),), "erase_within": DAY}
LETTERS: dict[str, Any] = {"rules": (Rule(name="none", max_age=100 * DAY),), "dead_letters_max_age": DAY}


NO_DAYS = {"rows": (ROWS, 11, 2), "dead letters": (LETTERS, 12, 0)}


@pytest.mark.parametrize("name", few(NO_DAYS, "rows"))
def test_single_rows_leave_though_the_purge_continues_after_the_tables_past_is_gone(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    table, (task, rows, letters) = build(tmp_path), NO_DAYS[name]
    archive = Archive(uri=f"file://{tmp_path}/archive")
    with observing(crash_before_any_but(["freeze-rows", "freeze-plan"])), pytest.raises(CrashError):
        purge(spark, table, NOW, archive=archive, **task)
    later = NOW + 50 * DAY
    maintain(spark, table, later, log_retention=timedelta(0), deleted_file_retention=timedelta(0))

    purge(spark, table, later, run="purge-2", archive=archive, **task)

    assert len(stored(table.uri)) == rows
    assert Store(table.uri).table("dead_letters").to_pyarrow_table().num_rows == letters
    assert [name for name in files_below(table.uri) if name.startswith("_purges/")] == []


def halves(folder: Path) -> Table:
    """Three days of four messages, each day in two files."""
    shutil.rmtree(folder, ignore_errors=True)
    rows = [message(n, inserted_at=START + (n // 4) * DAY) for n in range(1, 13)]
    return make_store(folder / "store", rows[::2], rows[1::2])


def cut_off(spark: SparkSession, folder: Path, before: str) -> Table:
    """A purge of two whole days that broke off before a write; then others take away the version that it is of."""
    table = halves(folder)

    def crash(name: str, moment: str) -> None:
        if (name, moment) == (before, "before"):
            raise CrashError(name)

    with pytest.raises(CrashError), observing(crash):
        run(spark, folder, table, DAYS, "purge-1", NOW)
    messages = Store(table.uri).opened("messages")
    messages.optimize.compact()
    messages.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    return table


@pytest.fixture(scope="module")
def without_days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The state after a purge of two whole days."""
    folder = tmp_path_factory.mktemp("days")
    table = halves(folder)
    run(spark, folder, table, DAYS, "purge-1", NOW)
    return state(folder, table)


@pytest.mark.long
@pytest.mark.parametrize("before", ["archive-clear", "heads", "delete-days", "audit-purge"])
def test_whole_days_whose_version_others_took_away_leave_as_they_were_decided(
    spark: SparkSession, tmp_path: Path, without_days: dict[str, Any], before: str
) -> None:
    table = cut_off(spark, tmp_path, before)
    run(spark, tmp_path, table, DAYS, "purge-1", NOW)
    assert state(tmp_path, table) == without_days


@pytest.mark.long
def test_of_days_whose_version_is_gone_later_and_changed_messages_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    table = cut_off(spark, tmp_path, "heads")
    changes = {"status": "'COMPLETED'", "updated_at": f"TIMESTAMP '{NOW.isoformat()}'"}
    change_rows(table.uri, "messages", changes, "global_position = 2")
    add_messages(table.uri, [message(13, inserted_at=START)])
    run(spark, tmp_path, table, DAYS, "purge-1", NOW)
    assert [row["global_position"] for row in stored(table.uri)] == [2, 8, 9, 10, 11, 12, 13]
    assert archived_positions(f"file://{tmp_path}/archive") == [1, 3, 4, 5, 6, 7]


def test_a_purge_that_lost_the_archive_of_removed_messages_fails_until_it_is_restored(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = cut_off(spark, tmp_path, "audit-purge")
    [manifest] = (tmp_path / "archive").glob("*/_manifest.json")
    content = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(RunFailedError, match="7 of the messages that belong there have left the store") as refused:
        run(spark, tmp_path, table, DAYS, "purge-1", NOW)
    assert refused.value.reason == "ArchiveIncomplete"
    manifest.write_bytes(content)
    run(spark, tmp_path, table, DAYS, "purge-1", NOW)
    assert archived_positions(f"file://{tmp_path}/archive") == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.long
def test_a_plan_of_an_earlier_release_takes_the_last_position_from_the_log_while_it_can(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = cut_off(spark, tmp_path, "delete-days")
    [path] = (tmp_path / "store" / "_purges").glob("*/plan.json")
    plan = json.loads(path.read_text())
    assert plan.pop("lastPosition") == 12
    path.write_text(json.dumps(plan))
    messages = Store(table.uri).opened("messages")
    messages.create_checkpoint()
    entry = tmp_path / "store" / "messages" / "_delta_log" / f"{plan['versionBefore']:020}.json"
    entry.rename(tmp_path / "entry")
    with pytest.raises(RunFailedError, match="nobody can tell any more which messages it was to remove") as refused:
        run(spark, tmp_path, table, DAYS, "purge-1", NOW)
    assert refused.value.reason == "PurgeUnfinished"
    (tmp_path / "entry").rename(entry)
    run(spark, tmp_path, table, DAYS, "purge-1", NOW)
    assert [row["global_position"] for row in stored(table.uri)] == [8, 9, 10, 11, 12]
