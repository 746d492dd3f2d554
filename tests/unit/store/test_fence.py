"""The fence, on local tables: which run may write a store, and the error of a run that may not."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pyarrow as pa
import pytest
from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.store import claim, fence
from messagestore_core.store.claim import holding, open_epoch
from messagestore_core.store.delta_log import CommitNote, empty_commit, epoch_of, last_note
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import FencedError, HeldStore, observing
from messagestore_core.store.layout import LOG
from messagestore_core.store.notes import TablesNote
from messagestore_core.store.objects import local_path
from messagestore_core.store.schemas import TABLES, checkpoint_interval
from support.stores import make_store, message, stored

HANDED_ON = r"has been handed to a newer run \(epoch 6, this run has 5\); nothing more was written"
ONE_MESSAGE = IngestCounts(received=1, stored=1)

StoreAt = Callable[[int | None], HeldStore]


@pytest.fixture
def store(folder: Path, tmp_path: Path) -> StoreAt:
    """One store of one message, opened under any epoch."""
    copy = shutil.copytree(folder, tmp_path / "store")
    return lambda epoch: HeldStore(f"file://{copy}", epoch=epoch)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The fence's clock."""
    now = [0.0]
    monkeypatch.setattr(fence, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def epochs(store: HeldStore) -> dict[str, int | None]:
    return {name: epoch_of(store.table(name)) for name in TABLES}


def versions(store: HeldStore) -> dict[str, int]:
    return {name: store.table(name).version() for name in TABLES}


def append_nothing(table: DeltaTable, store: HeldStore) -> None:
    empty_commit(table, "messages", store.commit_properties(CommitNote(run="run-5")))


def test_a_claim_puts_its_epoch_into_every_table_once_and_changes_nothing_else(store: StoreAt) -> None:
    before = versions(store(5))
    writes: list[tuple[str, str]] = []
    with observing(lambda name, moment: writes.append((name, moment))):
        open_epoch(store(5), "run-5")
    assert writes == [("claim", "before"), ("claim", "after")]
    assert epochs(store(5)) == dict.fromkeys(TABLES, 5)
    assert versions(store(5)) == {name: version + 1 for name, version in before.items()}
    assert last_note(store(5)).model_copy(update={"tables": None}) == CommitNote(
        run="run-5", epoch=5, totals=ONE_MESSAGE
    )
    assert [row["message_id"] for row in stored(store(5).uri)] == ["m1"]
    claimed = versions(store(5))
    open_epoch(store(5), "run-5")
    assert versions(store(5)) == claimed


def test_a_newer_claim_takes_the_store_and_an_older_one_is_refused(store: StoreAt) -> None:
    open_epoch(store(5), "run-5")
    open_epoch(store(6), "run-6")
    with pytest.raises(FencedError, match=HANDED_ON) as caught:
        open_epoch(store(5), "run-5")
    assert caught.value.reason == "Fenced"
    assert epochs(store(5)) == dict.fromkeys(TABLES, 6)


@pytest.mark.parametrize("first", [0, 1])
def test_a_log_has_a_checkpoint_in_each_interval_whichever_commits_are_claims(store: StoreAt, first: int) -> None:
    log, interval = Path(local_path(store(5).path("messages", LOG))), checkpoint_interval("messages")
    while store(5).version("messages") % 2 != first:
        append_by_spark(store(5))
    for epoch in range(5, 5 + interval):
        open_epoch(store(epoch), f"run-{epoch}")
        append_by_spark(store(epoch))
    checkpoints = [int(path.name[:20]) for path in sorted(log.glob("*.checkpoint.parquet"))]
    assert checkpoints == list(range(interval, store(5).version("messages") + 1, interval))


def append_by_spark(store: HeldStore) -> None:
    """A commit that has a checkpoint where one by Spark has."""
    table = store.opened("messages")
    rows = pa.schema(table.schema().to_arrow()).empty_table()
    properties = store.carrying_on("messages", table, "run")
    hooks = PostCommitHookProperties(create_checkpoint=False)
    write_deltalake(table, rows, mode="append", commit_properties=properties, post_commithook_properties=hooks)
    if table.version() % checkpoint_interval("messages") == 0:
        table.create_checkpoint()


def test_a_claim_passes_over_tables_that_a_deletion_took(store: StoreAt) -> None:
    shutil.rmtree(local_path(store(5).path("audit")))
    open_epoch(store(5), "run-5")
    assert epoch_of(store(5).table("messages")) == 5
    with pytest.raises(TableNotFoundError):
        store(5).table("audit")


class Behind(HeldStore):
    """A store that sees `messages` this many times as before its last commit."""

    times = 0

    def opened(self, name: str, version: int | None = None) -> DeltaTable:
        if name == "messages" and self.times:
            self.times -= 1
            return super().opened(name, 0)
        return super().opened(name, version)


def test_a_claim_is_made_again_if_a_commit_came_in_between(store: StoreAt, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = Behind(store(5).uri, epoch=5)
    behind.times = 3
    open_epoch(behind, "run-5")
    assert (behind.times, last_note(store(5)).totals) == (0, ONE_MESSAGE)
    monkeypatch.setattr(claim, "_ATTEMPTS", 3)
    behind.epoch, behind.times = 6, 3
    words = "/messages; its epoch can't be set"
    with pytest.raises(RunFailedError, match=words) as caught:
        open_epoch(behind, "run-6")
    assert caught.value.reason == "RunFailed"


def test_a_commit_is_refused_that_was_begun_before_a_newer_claim(store: StoreAt) -> None:
    open_epoch(store(5), "run-5")
    table = store(5).open_to_write("messages")
    append_nothing(table, store(5))
    table = store(5).open_to_write("messages")
    open_epoch(store(6), "run-6")
    with pytest.raises(CommitFailedError):
        append_nothing(table, store(5))
    with pytest.raises(FencedError, match=HANDED_ON):
        store(5).open_to_write("messages")
    assert store(6).open_to_write("messages").version() == table.version() + 1
    assert store(None).open_to_write("messages").version() == table.version() + 1


def test_a_commit_carries_the_epoch_and_its_note_names_it(store: StoreAt) -> None:
    one = store(5)
    append_nothing(one.open_to_write("messages"), one)
    assert epoch_of(store(5).table("messages")) == 5
    note = last_note(store(5))
    assert (note.run, note.epoch, list(note.tables or {})) == ("run-5", 5, ["messages"])
    assert store(None).commit_properties().app_transactions is None


def test_a_commit_that_changes_no_row_carries_on_the_totals_of_messages_and_no_totals_of_others(store: StoreAt) -> None:
    properties = store(5).carrying_on("messages", store(5).table("messages"), "run-5")
    assert properties.custom_metadata == {
        "userMetadata": CommitNote(run="run-5", epoch=5, totals=ONE_MESSAGE, tables={}).json_text()
    }
    others = store(5).carrying_on("heads", store(5).table("heads"), "run-5")
    assert others.custom_metadata == {"userMetadata": TablesNote(epoch=5, tables={}).json_text()}
    assert [(one.app_id, one.version) for one in others.app_transactions or []] == [("messagestore-epoch", 5)]


def test_a_run_holds_each_of_its_stores_under_its_epoch(store: StoreAt, tmp_path: Path) -> None:
    other = HeldStore(make_store(tmp_path / "other", [message(2)]).uri, epoch=3)
    with holding([store(5), other], "run-5"):
        assert (epochs(store(5)), epochs(other)) == (dict.fromkeys(TABLES, 5), dict.fromkeys(TABLES, 3))


def test_a_run_without_an_epoch_writes_only_what_no_operator_hands_out(store: StoreAt, tmp_path: Path) -> None:
    with holding([store(None), HeldStore(f"file://{tmp_path}/none")], "by-hand"):
        assert epochs(store(None)) == dict.fromkeys(TABLES)
    open_epoch(store(5), "run-5")
    words = r"is written by the runs of an operator \(its newest epoch is 5\), and this run has no epoch"
    with pytest.raises(FencedError, match=words), holding([store(None)], "by-hand"):
        pytest.fail("it may not write")


def test_an_older_run_does_not_begin(store: StoreAt) -> None:
    open_epoch(store(6), "run-6")
    with pytest.raises(FencedError, match=HANDED_ON), holding([store(5)], "run-5"):
        pytest.fail("it may not write")


def hold(store: HeldStore, *steps: Callable[[], object]) -> None:
    """Do these steps one after the other, as one run."""
    with holding([store], f"run-{store.epoch}"):
        for step in steps:
            step()


def fail(error: Exception) -> NoReturn:
    raise error


def test_an_error_after_the_store_was_handed_on_becomes_a_fenced_error(store: StoreAt) -> None:
    refusal = ValueError("the log store refused it")
    with pytest.raises(FencedError, match=HANDED_ON) as caught:
        hold(store(5), lambda: open_epoch(store(6), "run-6"), lambda: fail(refusal))
    assert caught.value.__cause__ is refusal


def test_other_errors_and_fenced_errors_are_left_unchanged(store: StoreAt) -> None:
    for error in (ValueError("bad input"), FencedError("by itself")):
        with pytest.raises(type(error)) as caught:
            hold(store(5), lambda error=error: fail(error))
        assert caught.value is error
    itself = FencedError("by itself")
    with pytest.raises(FencedError) as caught:
        hold(store(5), lambda: open_epoch(store(6), "run-6"), lambda: fail(itself))
    assert caught.value is itself


def test_an_unreadable_store_does_not_hide_the_first_error(store: StoreAt) -> None:
    open_epoch(store(5), "run-5")
    following = store(5).table("messages").version() + 1
    torn = Path(local_path(store(5).path("messages", "_delta_log", f"{following:020d}.json")))
    with pytest.raises(ValueError, match="bad input"):
        hold(store(5), lambda: torn.write_text("torn"), lambda: fail(ValueError("bad input")))


def test_no_object_is_written_a_second_after_the_store_was_handed_on(store: StoreAt, clock: list[float]) -> None:
    wrote, held = [], store(5)

    def write_at(now: float) -> None:
        clock[0] = now
        with held.step("object"):
            wrote.append(now)

    # At 0.9 the last check of the store is less than a second old.
    with pytest.raises(FencedError, match=HANDED_ON):
        hold(
            held, lambda: write_at(0), lambda: open_epoch(store(6), "run-6"), lambda: write_at(0.9), lambda: write_at(1)
        )
    assert wrote == [0, 0.9]
    with pytest.raises(RuntimeError, match="was not claimed"):
        write_at(2)
    assert wrote == [0, 0.9]


def test_a_write_that_is_done_is_not_checked_again(store: StoreAt, clock: list[float]) -> None:
    held = store(5)

    def handed_on_meanwhile() -> None:
        with held.step("object"):
            open_epoch(store(6), "run-6")
            clock[0] = 1

    hold(held, handed_on_meanwhile)
