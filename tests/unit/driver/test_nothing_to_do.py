"""In no history does a look say that nothing is to do while something is."""

import os
import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Hold
from messagestore_core.contract.records import FilesSource, Translator
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.store import ended
from messagestore_core.store.claim import holding, open_epoch
from messagestore_core.store.delta_log import epoch_of, last_note
from messagestore_core.store.ended import read_ended
from messagestore_core.store.fence import FencedError, HeldStore
from messagestore_core.store.folder import check_folder
from messagestore_core.store.layout import LAST_RUN, MARKER
from messagestore_core.store.schemas import MESSAGES, TABLES
from messagestore_core.store.storage import Storage
from messagestore_jobs.driver.idle_check import PendingWork, find_work, left_to_ingests
from support.ended import end_run, ended_by
from support.ingests import RESOURCE
from support.long import few
from support.stores import OWNER, START, add_messages, add_rows, change_rows, make_store, message

STEPS = 20
ASKED: dict[str, object] = {
    "holds": (Hold(name="audit"),),
    "translators": (Translator(from_version=0),),
    "default_ttl": timedelta(days=1),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one message, to be copied."""
    folder = tmp_path_factory.mktemp("nothing") / "store"
    make_store(folder, [message(1)])
    return folder


class World:
    """A store, its source, its runs, and what they should know."""

    def __init__(self, folder: Path, store: Path, chosen: random.Random) -> None:
        self.store, self.landing, self.chosen = shutil.copytree(store, folder / "store"), folder / "landing", chosen
        self.landing.mkdir()
        self.clock, self.asked, self.epoch, self.numbers = START, dict[str, object](), 0, 1
        self.earlier = list[bytes]()
        self.stalled: HeldStore | None = None
        self.end()

    def document(self) -> RunDocument:
        task = IngestTask(source_id="landing", source=FilesSource(uri=f"file://{self.landing}"), **self.asked)
        table = Table(uri=f"file://{self.store}", owner=OWNER, epoch=self.epoch)
        return RunDocument(run=f"run-{self.epoch}", resource=RESOURCE, table=table, at=self.clock, task=task)

    def look(self) -> PendingWork:
        self.epoch += 1
        return find_work(self.document(), Storage())

    def state(self) -> tuple[object, ...]:
        """All that a run goes by, besides the clock."""
        files = sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in self.landing.iterdir())
        versions = [DeltaTable(f"{self.store}/{name}").version() for name in self.tables()]
        return files, versions, repr(sorted(self.asked.items())), (self.store / MARKER).read_bytes()

    def tables(self) -> list[str]:
        return [name for name in TABLES if (self.store / name).exists()]

    def due_at(self) -> datetime:
        """The first time at which an open message expires."""
        rows = DeltaTable(f"{self.store}/messages").to_pyarrow_table(columns=["expires_at", "status"]).to_pylist()
        open_ = [row["expires_at"] for row in rows if row["expires_at"] and row["status"] != "EXPIRED"]
        return min(open_, default=datetime.max.replace(tzinfo=UTC))

    def end(self) -> None:
        """A run does all that is to do."""
        self.epoch += 1
        if self.due_at() <= self.clock:
            due = f"expires_at <= '{self.clock:%Y-%m-%dT%H:%M:%S}Z'"
            change_rows(f"file://{self.store}", "messages", {"status": "'EXPIRED'"}, due)
        end_run(self.document())
        self.earlier.append((self.store / LAST_RUN).read_bytes())
        self.left = self.state()

    def does_another(self) -> None:
        """A run of another kind comes to its end; it may have added a message."""
        before, as_left = self.state_of_messages(self.state()), self.state_of_messages(self.left)
        self.epoch += 1
        store = HeldStore.of(self.document().table, Storage())
        check_folder(store)
        with holding([store], "another"):
            if self.chosen.random() < 0.5:
                self.numbers += 1
                rows = pa.Table.from_pylist([message(self.numbers, expires_at=self.soon())], schema=MESSAGES)
                add_rows(store, "messages", rows, last_note(store))
            store.end(left_to_ingests(store, self.clock))
        if before == as_left:
            self.left = self.state()

    def state_of_messages(self, state: tuple[Any, ...]) -> tuple[object, ...]:
        """A state without the versions of other tables, in which others have changed no row."""
        files, versions, *rest = state
        return files, versions[self.tables().index("messages")], rest

    def arrives(self) -> None:
        self.numbers += 1
        (self.landing / f"{self.numbers}.jsonl").write_bytes(b"x")

    def changes(self) -> None:
        if files := sorted(self.landing.iterdir()):
            path = self.chosen.choice(files)
            self.chosen.choice([lambda: path.write_bytes(b"yy"), lambda: os.utime(path, (1, 1)), path.unlink])()

    def is_asked_otherwise(self) -> None:
        name = self.chosen.choice(sorted(ASKED))
        self.asked = {key: value for key, value in self.asked.items() if key != name} or {name: ASKED[name]}

    def goes_on(self) -> None:
        self.clock += timedelta(minutes=self.chosen.randint(1, 90))

    def is_killed(self) -> None:
        """A run is granted the store, claims it or also writes, and is killed."""
        self.epoch += 1
        self.stalled = HeldStore.of(self.document().table, Storage())
        open_epoch(self.stalled, "killed")
        if self.chosen.random() < 0.5:
            self.adds()

    def adds(self) -> None:
        self.numbers += 1
        add_messages(f"file://{self.store}", [message(self.numbers, expires_at=self.soon())])

    def soon(self) -> datetime | None:
        """A time to expire, or none."""
        return self.chosen.choice([None, self.clock + timedelta(hours=1)])

    def is_written(self) -> None:
        """Somebody else commits to a table."""
        DeltaTable(f"{self.store}/{self.chosen.choice(self.others)}").alter.set_table_description("mine")

    others: tuple[str, ...] = tuple(TABLES)

    def wakes(self) -> None:
        """A run that was stalled wants to say at last that it has ended."""
        if self.stalled is not None:
            before = (self.store / LAST_RUN).read_bytes()
            newest = epoch_of(DeltaTable(f"{self.store}/messages"))
            try:
                self.stalled.end(ended_by(self.document(), self.stalled))
            except FencedError:
                assert newest != self.stalled.epoch
                assert (self.store / LAST_RUN).read_bytes() == before
            else:
                # It was not stalled, but slow.
                assert newest == self.stalled.epoch
                self.left = self.state()

    def is_late(self) -> None:
        """What an earlier run said arrives after what a later one said."""
        (self.store / LAST_RUN).write_bytes(self.chosen.choice([*self.earlier, b"", b"{"]))

    def is_handed_over(self) -> None:
        marker = (self.store / MARKER).read_bytes()
        (self.store / MARKER).write_bytes(marker.replace(b"orders", b"others"))
        assert self.look().outcome is None
        (self.store / MARKER).write_bytes(marker)

    def loses(self) -> None:
        """A table, or the version that a run left, is not there for some time."""
        name = self.chosen.choice(self.tables())
        newest = self.store / name / f"_delta_log/{DeltaTable(f'{self.store}/{name}').version():020d}.json"
        for path in (self.store / name, newest) if self.state() == self.left else ():
            path.rename(self.store / "gone")
            assert self.look().outcome is None
            (self.store / "gone").rename(path)


HAPPENS: tuple[Callable[[World], None], ...] = (
    World.arrives,
    World.does_another,
    World.changes,
    World.is_asked_otherwise,
    World.goes_on,
    World.goes_on,
    World.is_killed,
    World.adds,
    World.is_written,
    World.wakes,
    World.is_late,
    World.is_handed_over,
    World.loses,
)


@pytest.mark.parametrize("on_s3", [False, True], ids=["local", "as on S3"])
@pytest.mark.parametrize("seed", few(range(30), 0, 1))
def test_the_idle_check_never_finds_nothing_to_do_while_there_is_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, on_s3: bool
) -> None:
    world = World(tmp_path, folder, random.Random(seed))
    if on_s3:
        # There only commits to messages are looked for, as each run begins with one.
        monkeypatch.setattr(ended, "is_local", lambda uri: False)
        world.others = ("messages",)
    for _ in range(STEPS):
        if world.chosen.random() < 0.3:
            world.end()
            assert (world.look().outcome is None) == (world.due_at() <= world.clock)
        world.chosen.choice(HAPPENS)(world)
        before = sorted((path, path.stat().st_mtime_ns) for path in world.store.rglob("*"))
        if world.look().outcome is not None:
            assert world.state() == world.left
            assert world.due_at() > world.clock
        assert sorted((path, path.stat().st_mtime_ns) for path in world.store.rglob("*")) == before


def test_a_fenced_run_leaves_the_record_of_its_successor_alone(folder: Path, tmp_path: Path) -> None:
    world = World(tmp_path, folder, random.Random(0))
    store = HeldStore.of(world.document().table.model_copy(update={"epoch": 7}), Storage())

    def hand_on_at_the_end() -> None:
        with holding([store], "run-7"):
            with store.step("the fence was asked a moment ago"):
                open_epoch(HeldStore(store.uri, epoch=8), "run-8")
            store.end(ended_by(world.document(), store))

    with pytest.raises(FencedError):
        hand_on_at_the_end()
    said = read_ended(store)
    assert said.epoch != 7
    assert world.look().outcome is None


def test_the_record_of_the_last_run_names_no_message_and_no_file(folder: Path, tmp_path: Path) -> None:
    world = World(tmp_path, folder, random.Random(0))
    world.asked = {"holds": (Hold(name="secret-hold"),)}
    (world.landing / "secret-file.jsonl").write_bytes(b"{}")
    add_messages(f"file://{world.store}", [message(2, stream_name="secret-1", message_id="secret-2")])
    world.end()
    assert b"secret" not in (world.store / LAST_RUN).read_bytes()
