"""A claim that is one commit, after a run that has ended: in no order of two drivers does an older one write."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from messagestore_core.store.claim import holding
from messagestore_core.store.delta_log import CommitNote, count_rows, empty_commit, epoch_of
from messagestore_core.store.ended import Ended, read_ended
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import FencedError, HeldStore, observing
from messagestore_core.store.folder import check_folder
from messagestore_core.store.layout import LAST_RUN
from messagestore_core.store.scan import scan_in
from messagestore_core.store.schemas import AUDIT, EVERY_TABLE, FILES, TABLES, UTC
from support.long import few
from support.stores import OWNER, START, add_rows

OpenAt = Callable[[int | None], HeldStore]


@pytest.fixture
def store(folder: Path, tmp_path: Path) -> OpenAt:
    """One store of one message, opened and checked under any epoch."""
    copy = shutil.copytree(folder, tmp_path / "store")

    def opened(epoch: int | None) -> HeldStore:
        store = HeldStore(f"file://{copy}", owner=OWNER, epoch=epoch)
        check_folder(store)
        return store

    return opened


def run(store: HeldStore, *, ends: bool = True) -> None:
    with holding([store], f"run-{store.epoch}"):
        if ends:
            store.end(Ended())


def epochs(store: OpenAt) -> dict[str, int | None]:
    return {name: epoch_of(store(None).table(name)) for name in TABLES}


def claimed(store: OpenAt) -> set[str]:
    """The tables with the newest epoch."""
    found = epochs(store)
    return {name for name, epoch in found.items() if epoch == found["messages"]}


def test_after_a_run_that_has_ended_a_claim_is_one_commit(store: OpenAt) -> None:
    run(store(1))
    assert claimed(store) == set(TABLES)
    before = {name: store(None).table(name).version() for name in TABLES}
    run(store(2))
    assert epochs(store) == dict.fromkeys(TABLES, 1) | {"messages": 2}
    assert {name: store(None).table(name).version() for name in TABLES} == before | {"messages": before["messages"] + 1}
    run(store(3))
    assert claimed(store) == {"messages"}


def test_after_a_run_that_has_not_ended_every_table_is_claimed(store: OpenAt) -> None:
    run(store(1))
    run(store(2), ends=False)
    run(store(3))
    assert claimed(store) == set(TABLES)


def test_a_late_record_of_an_earlier_run_is_ignored(store: OpenAt) -> None:
    run(store(1))
    said = store(None).objects().read(LAST_RUN)
    assert said is not None
    run(store(2))
    store(None).objects().write(LAST_RUN, said)
    run(store(3))
    assert claimed(store) == set(TABLES)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b'{"tables":{"../canary":{"id":"1","version":0}}}', b"{}" + b" " * (1 << 20)],
    ids=["empty", "cut short", "deep", "of another table", "too long"],
)
def test_a_record_of_the_last_run_that_no_run_writes_is_ignored(store: OpenAt, content: bytes) -> None:
    run(store(1))
    store(None).objects().write(LAST_RUN, content)
    assert read_ended(store(None)) is None
    run(store(2))
    assert claimed(store) == set(TABLES)


def unopened(store: HeldStore, during: Callable[[], None] = lambda: None) -> set[str]:
    """The tables that a run doesn't open, by what it reads of all; each must have what a run without an epoch reads."""
    with holding([store], f"run-{store.epoch}"):
        during()
        found = {name for name in TABLES if store.is_empty(name)}
        for name in TABLES:
            assert count_rows(store, name) == scan_in(store, name).read_all().num_rows == rows_in(store.uri, name)
        store.end(Ended())
    return found


def rows_in(uri: str, name: str) -> int:
    return int(DeltaTable(f"{uri}/{name}").to_pyarrow_table().num_rows)


def row_of(name: str) -> pa.Table:
    given = {field.name: _VALUES[field.type] for field in TABLES[name] if not field.nullable}
    return pa.Table.from_pylist([given], schema=TABLES[name])


_VALUES = {pa.string(): "a", pa.int64(): 1, pa.int32(): 1, UTC: START, pa.binary(): b"a", pa.bool_(): True}
WITHOUT_ROWS = {"dead_letters", "heads", "pending_updates", "tombstones", "audit", "offsets", "files"}


def test_tables_that_a_run_left_without_rows_are_not_opened(store: OpenAt) -> None:
    assert unopened(store(1)) == set()
    assert unopened(store(2)) == WITHOUT_ROWS
    assert unopened(store(3)) == WITHOUT_ROWS


@pytest.mark.parametrize("name", ["pending_updates", "audit"])
def test_a_table_with_rows_is_opened(store: OpenAt, name: str) -> None:
    unopened(store(1))
    second = store(2)
    assert unopened(second, lambda: add_rows(second, name, row_of(name))) == WITHOUT_ROWS - {name}
    assert unopened(store(3)) == WITHOUT_ROWS - {name}


def test_a_table_that_somebody_wrote_since_is_opened(store: OpenAt) -> None:
    unopened(store(1))
    add_rows(HeldStore(store(None).uri), "audit", row_of("audit"))
    assert unopened(store(2)) == WITHOUT_ROWS - {"audit"}
    DeltaTable(f"{store(None).uri}/audit").alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(TableRefusedError, match="appendOnly"):
        store(3)


def test_what_a_run_wrote_between_the_check_and_the_claim_is_read(store: OpenAt) -> None:
    unopened(store(1))
    late, between = store(3), store(2)
    assert unopened(between, lambda: add_rows(between, "audit", row_of("audit"))) == WITHOUT_ROWS - {"audit"}
    assert unopened(late) == set()


def test_a_table_whose_last_commit_was_replaced_is_opened(store: OpenAt) -> None:
    unopened(store(1))
    entry = next(Path(store(None).uri.removeprefix("file://")).glob("audit/_delta_log/*1.json"))
    entry.write_bytes(entry.read_bytes() + b"\n")
    assert unopened(store(2)) == WITHOUT_ROWS - {"audit"}


def test_a_release_with_other_columns_opens_every_table(store: OpenAt, monkeypatch: pytest.MonkeyPatch) -> None:
    unopened(store(1))
    more = AUDIT.append(pa.field("more", pa.string()))
    monkeypatch.setitem(EVERY_TABLE, "audit", more)
    held = store(2)
    with holding([held], "run-2"):
        assert not held.is_empty("audit")


def test_the_end_of_a_run_without_an_epoch_counts_for_nothing(store: OpenAt) -> None:
    run(store(None))
    run(store(1))
    assert claimed(store) == set(TABLES)


def test_a_second_run_of_the_same_epoch_removes_the_record_of_the_first(store: OpenAt) -> None:
    run(store(1))
    run(store(1), ends=False)
    assert store(None).objects().read(LAST_RUN) is None
    run(store(2))
    assert claimed(store) == set(TABLES)


def test_a_claim_whose_answer_was_lost_is_made_on_every_table(store: OpenAt, monkeypatch: pytest.MonkeyPatch) -> None:
    run(store(1))
    lost = ["messages"]

    def unheard(table: DeltaTable, *given: object) -> None:
        empty_commit(table, *given)
        if lost:
            raise CommitFailedError(f"the answer for {lost.pop()} was lost")

    monkeypatch.setattr("messagestore_core.store.claim.empty_commit", unheard)
    run(store(2))
    assert claimed(store) == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_a_stalled_run_that_claimed_by_one_commit_writes_no_table_after_its_successor(store: OpenAt, name: str) -> None:
    run(store(1))
    stalled = store(2)

    def wake() -> None:
        with holding([stalled], "run-2"):
            begun = stalled.open_to_write(name)
            run(store(3))
            with pytest.raises(CommitFailedError):
                write(stalled, name, begun)
            stalled.open_to_write(name)

    with pytest.raises(FencedError):
        wake()


def test_reading_a_table_lets_no_commit_pass_that_began_before_a_newer_claim(store: OpenAt) -> None:
    held = store(1)

    def read_before_the_commit() -> None:
        with holding([held], "run-1"):
            begun = held.open_to_write("files")
            run(store(2))
            assert epoch_of(held.table("files")) == 2
            with pytest.raises(CommitFailedError):
                write(held, "files", begun)
            held.open_to_write("files")

    with pytest.raises(FencedError):
        read_before_the_commit()


def test_a_held_store_follows_its_own_commits_and_finds_what_came_between(store: OpenAt) -> None:
    held = store(1)
    with holding([held], "run-1"):
        before = held.table("files").version()
        assert held.transaction("files", "batch") is None
        add_rows(held, "files", FILES.empty_table(), None, Transaction("batch", 1))
        assert held.transaction("files", "batch") == 1
        assert held.table("files").version() == before + 1
        DeltaTable(f"{held.uri}/files").alter.set_table_description("by others")
        # Not looked for before the next commit, which finds it.
        assert held.table("files").version() == before + 1
        write(held, "files", held.open_to_write("files"))
        assert held.table("files").version() == before + 3
        add_rows(HeldStore(held.uri), "files", FILES.empty_table())
        DeltaTable(f"{held.uri}/files").alter.set_table_properties({"delta.appendOnly": "true"})
        with pytest.raises(TableRefusedError, match="appendOnly"):
            held.open_to_write("files")


def write(store: HeldStore, name: str, table: DeltaTable) -> None:
    empty_commit(
        table, name, store.commit_properties(CommitNote(run=f"run-{store.epoch}") if name == "messages" else None)
    )


class Driver:
    """A run that goes on step by step, and may stall for any time between two."""

    def __init__(self, store: OpenAt, epoch: int, chosen: random.Random) -> None:
        self.epoch, self._chosen, self._store = epoch, chosen, store(epoch)
        self._holding = holding([self._store], f"run-{epoch}")
        self._tables: dict[str, DeltaTable] = {}
        self.claimed = self.over = False

    def claim(self) -> None:
        self._holding.__enter__()
        self.claimed = True

    def open(self) -> None:
        """Open a table, to write it at some later time."""
        name = self._chosen.choice(list(TABLES))
        self._tables[name] = self._store.open_to_write(name)

    def read(self) -> None:
        self._store.table(self._chosen.choice(list(self._tables or TABLES)))

    def add(self) -> None:
        """Add a row."""
        name = self._chosen.choice(["audit", "pending_updates", "files"])
        add_rows(self._store, name, row_of(name))

    def count(self) -> None:
        """Read what may not be opened; a run that was overtaken may read what was there before."""
        name = self._chosen.choice(list(TABLES))
        found, there = count_rows(self._store, name), rows_in(self._store.uri, name)
        assert found <= there
        self._store.refuse_older_than(self._store.newest_epoch())
        assert found == there

    def write(self) -> None:
        name = self._chosen.choice(list(self._tables or TABLES))
        write(self._store, name, self._tables.pop(name, None) or self._store.open_to_write(name))

    def end(self) -> None:
        self._store.end(Ended())
        self.over = True

    def step(self) -> str | None:
        """Go on; return what was done, None if it was refused."""
        steps = ["open", "read", "write", "write", "add", "count", "count", "end"]
        name = self._chosen.choice(steps) if self.claimed else "claim"
        try:
            getattr(self, name)()
        except (FencedError, CommitFailedError):
            # A run whose claim is refused doesn't begin.
            self.over = not self.claimed
            return None
        return name


@pytest.mark.parametrize("seed", few(range(100), 0, 1, 2, 3))
def test_a_driver_never_writes_once_a_newer_one_has_claimed_the_store(store: OpenAt, seed: int) -> None:
    chosen = random.Random(seed)
    run(store(1))
    drivers, newest = [Driver(store, 2, chosen)], 1
    for _ in range(25):
        if chosen.random() < 0.25 or all(driver.over for driver in drivers):
            drivers.append(Driver(store, len(drivers) + 2, chosen))
        # The last two mostly go on; others were stalled for long.
        driver = chosen.choice([*drivers, *drivers[-2:], *drivers[-2:]])
        done = None if driver.over else driver.step()
        assert done not in ("claim", "write", "add", "end") or driver.epoch >= newest, (driver.epoch, done, newest)
        newest = max(newest, driver.epoch) if done == "claim" else newest
    assert epoch_of(store(None).table("messages")) == newest


def test_a_claim_is_told_as_one_write(store: OpenAt) -> None:
    run(store(1))
    told: list[str] = []
    with observing(lambda name, moment: told.append(f"{moment} {name}")):
        run(store(2))
    assert told == ["before claim", "after claim", "before ended", "after ended"]
