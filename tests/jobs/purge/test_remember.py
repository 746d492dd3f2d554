"""Purged ids are remembered where a stream asks for that: a late copy of a purged message is a duplicate."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestCounts, UpdateCounts
from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.progress import Silent
from messagestore_core.store.handle import Store
from messagestore_core.store.id_index import read_manifest
from messagestore_core.store.layout import INDEX
from messagestore_core.store.schemas import REMEMBERED
from messagestore_core.store.storage import Storage
from messagestore_core.store.tombstones import first_day
from messagestore_jobs.context import Run
from messagestore_jobs.index import changes, store_index
from messagestore_jobs.replay.job import run_replay
from support.external_writes import observing
from support.indexes import OFTEN
from support.ingests import START, lines, record
from support.kept import Kept
from support.lifecycles import Updated, update
from support.long import few
from support.maintenance import maintain
from support.purges import CrashError, crash_before_any_but, purge
from support.replays import replay_document
from support.stores import make_store, message

DAY = timedelta(days=1)
NEXT = START + DAY
REMEMBER = 30 * DAY
OLD: dict[str, Any] = {"rules": (Rule(name="old", max_age=DAY / 4),)}
"""Of a run on the day after, it takes all of the first day."""
ROWS: dict[str, Any] = {"rules": (Rule(name="some", match=Match(message_ids=("m1", "m2"))),)}
TASKS = {"whole days": OLD, "rows": ROWS}


@dataclass
class Remembering(Updated):
    """A stream whose purged ids are remembered."""

    remember_purged: timedelta | None = REMEMBER

    def again(self, *ids: str, at: datetime, **settings: Any) -> IngestCounts:
        """The counts of a run to which messages with these ids come."""
        self.arrive(f"{self.arrived}.jsonl", lines(*map(record, ids)))
        return self.run(at, **settings).counts

    def purge(self, at: datetime = NEXT, **task: Any) -> None:
        purge(self.spark, self.table, at, **(task or OLD))

    def kept(self) -> int:
        """How many purged ids the table has."""
        return int(Store(self.table.uri).table(REMEMBERED).count())


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept[Remembering]:
    folder = tmp_path_factory.mktemp("remembering")
    stream = Remembering(spark, folder / "now")
    stream.again("m1", "m2", "m3", at=START)
    return Kept.of(stream, folder / "kept")


@pytest.fixture
def stream(kept: Kept[Remembering]) -> Remembering:
    return kept.again()


@pytest.mark.parametrize("name", few(TASKS, "rows"))
def test_a_purged_message_that_comes_again_is_a_duplicate(stream: Remembering, name: str) -> None:
    stream.purge(**TASKS[name])
    left = stream.ids()
    assert stream.again("m1", "m2", "new", at=NEXT) == IngestCounts(received=3, stored=1, duplicates=2)
    assert stream.ids() == [*left, "new"]


def test_a_purged_message_that_comes_after_the_remembered_time_is_new(stream: Remembering) -> None:
    stream.purge()
    assert stream.again("m1", at=NEXT + REMEMBER - timedelta(microseconds=1)).duplicates == 1
    assert stream.again("m2", at=NEXT + REMEMBER).stored == 1


def test_without_remembered_ids_a_purged_message_that_comes_again_is_new(stream: Remembering) -> None:
    stream.remember_purged = None
    stream.purge()
    assert stream.kept() == 0
    assert stream.again("m1", at=NEXT).stored == 1


@pytest.mark.long
def test_another_length_counts_for_what_was_purged_before(stream: Remembering) -> None:
    stream.purge()
    stream.remember_purged = DAY
    assert stream.again("m1", at=NEXT + DAY).stored == 1
    stream.remember_purged = 999_999 * DAY
    assert stream.again("m2", at=NEXT + DAY).duplicates == 1
    stream.remember_purged = None
    assert stream.again("m3", at=NEXT + DAY).stored == 1


def test_an_id_counts_from_its_last_purge(stream: Remembering) -> None:
    stream.purge()
    later = NEXT + REMEMBER
    assert stream.again("m1", at=later).stored == 1
    stream.purge(later + DAY)
    assert stream.again("m1", "m2", at=later + 2 * DAY) == IngestCounts(received=2, stored=1, duplicates=1)


def test_a_window_decides_for_messages_that_are_there_and_not_for_purged_ones(stream: Remembering) -> None:
    window = {"deduplication_window": DAY}
    stream.purge(**ROWS)
    counts = stream.again("m1", "m3", at=START + 2 * DAY, **window)
    assert (counts.duplicates, counts.stored) == (1, 1)
    # The newer m3 leaves, the older one stays.
    newer = {"rules": (Rule(name="newer", match=Match(message_ids=("m3",), where="position > 2")),)}
    stream.purge(START + 2 * DAY, **newer)
    assert stream.ids() == ["m3"]
    assert stream.again("m3", at=START + 4 * DAY, **window).stored == 1


@pytest.mark.long
def test_a_replay_into_the_stream_stores_a_purged_message_again(stream: Remembering) -> None:
    stream.purge()
    source = make_store(stream.folder / "source", [message(1)])
    to = StreamDestination(table=stream.table, ingest=stream.document().task)
    again = replay_document(source, ReplayTask(job_id="job", destination=to)).model_copy(update={"at": NEXT})
    assert run_replay(Run.of(again, stream.spark, Silent())).progress.replayed == 1
    assert stream.ids() == ["m1"]
    assert stream.again("m1", "m2", at=NEXT).duplicates == 2


def test_a_status_update_of_a_purged_message_is_stale_and_does_not_wait(stream: Remembering) -> None:
    stream.purge(**ROWS)
    stream.tell(update("m1", "COMPLETED"), update("m3", "COMPLETED"), update("unknown", "COMPLETED"))
    assert stream.told(NEXT).counts == UpdateCounts(received=3, applied=1, stale=1)
    assert stream.pending() == [("unknown", "COMPLETED")]


@pytest.mark.long
def test_a_status_update_that_waits_is_stale_once_its_message_was_purged(stream: Remembering) -> None:
    stream.tell(update("m4", "COMPLETED"))
    assert stream.told(START).pending == 1

    def killed(name: str, moment: str) -> None:
        if (name, moment) == ("messages", "after"):
            raise CrashError

    with pytest.raises(CrashError), observing(killed):
        stream.again("m4", at=START)
    stream.purge()
    report = stream.told(NEXT)
    assert (report.counts, report.pending) == (UpdateCounts(stale=1), 0)


def test_an_erased_message_has_a_tombstone_and_no_other_hash(stream: Remembering) -> None:
    erased = Rule(name="erased", match=Match(message_ids=("m1",)), erase=True)
    stream.purge(rules=(*OLD["rules"], erased), erase_within=timedelta(0))
    assert stream.kept() == 2
    assert stream.again("m1", "m2", "m3", at=NEXT).duplicates == 3


def test_maintenance_forgets_days_that_are_over(stream: Remembering) -> None:
    stream.purge()
    stream.again("m4", at=NEXT)
    stream.purge(NEXT + DAY)
    maintain(stream.spark, stream.table, NEXT + REMEMBER)
    assert stream.kept() == 4
    maintain(stream.spark, stream.table, NEXT + REMEMBER + DAY / 2)
    assert (stream.kept(), first_day(Store(stream.table.uri))) == (1, (NEXT + DAY).date())
    assert stream.again("m4", at=NEXT + REMEMBER).duplicates == 1
    stream.remember_purged = None
    maintain(stream.spark, stream.table, NEXT + REMEMBER + DAY / 2)
    assert stream.kept() == 0


LOST = {"by Spark": (0, "purged-*"), "here": (100_000, "*")}
"""How many rows are few enough to be read here, and which files are lost."""


@pytest.mark.long
@pytest.mark.parametrize("made", LOST)
def test_an_index_that_is_lost_is_made_anew(stream: Remembering, monkeypatch: pytest.MonkeyPatch, made: str) -> None:
    few_rows, lost = LOST[made]
    monkeypatch.setattr(changes, "FEW_ROWS", few_rows)
    for name, value in OFTEN.items():
        monkeypatch.setattr(store_index, name, value)
    stream.purge()
    assert stream.again("m1", "a", at=NEXT).duplicates == 1
    stream.purge(NEXT + DAY)
    assert stream.again("m2", "a", "b", at=NEXT + DAY).duplicates == 2
    assert sum(one.count for one in read_manifest(Store(stream.table.uri).objects(INDEX)).purged) == 4
    for path in (stream.folder / "store" / INDEX).glob(lost):
        path.unlink()
    assert stream.again("m3", "a", "c", at=NEXT + DAY).duplicates == 2


@pytest.mark.parametrize("name", few(TASKS))
def test_a_purge_that_is_killed_at_any_write_forgets_no_id(stream: Remembering, name: str) -> None:
    writes: list[str] = []
    crashed: list[str] = []
    for _ in range(20):
        try:
            with observing(noting(writes)), observing(crash_before_any_but(crashed)):
                stream.purge(**TASKS[name])
            break
        except CrashError:
            gone = {"m1", "m2", "m3"} - set(stream.ids())
            assert not gone or "purged-ids" in writes
    assert {"purged-ids", "heads", "freeze-plan"} <= set(crashed)
    assert stream.again("m1", "m2", at=NEXT).duplicates == 2


def noting(writes: list[str]) -> Callable[[str, str], None]:
    return lambda name, moment: writes.append(name) if moment == "after" else None


def test_a_store_of_an_earlier_release_gets_the_table_once_it_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    stream = Remembering(spark, tmp_path, remember_purged=None)
    stream.again("m1", "m2", at=START)
    there = Store(stream.table.uri).existing_tables()
    stream.remember_purged = REMEMBER
    assert stream.again("m1", at=START).duplicates == 1
    store = Store.of(stream.table, Storage())
    assert (REMEMBERED in there, store.existing_tables()) == (False, store.tables)
