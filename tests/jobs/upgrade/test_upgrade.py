"""This release opens, continues and reads a store that an earlier release wrote, with unfinished work.

`make_store.py` says what is in it, README.md how to make it again.
"""

import fcntl
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from messagestore.errors import StoreUnreadableError
from messagestore.reader import Reader
from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestCounts, Lifecycle
from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import DeleteTask, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.delta_log import last_note, table_state
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import TABLES, properties
from messagestore_jobs.driver.execute import execute
from support.crash import forget_tables
from support.external_writes import UnheardError, unheard
from support.ingests import START, lines, record, write_file
from support.lifecycles import update
from support.local_runs import tree
from support.long import few
from support.purges import archived_positions
from support.replays import sent
from support.stores import positions

FOLDER = Path("/tmp/messagestore-upgrade")
STORE = f"file://{FOLDER}/store"
MARKER = FOLDER / "store" / "_messagestore.json"
RECEIVED = list(range(2, 21, 2))
DONE = [1, 5, 9, 11, 13, 15, 17, 19]
"""Of twenty messages the third was erased, and the seventh is held; the purge removes the other odd ones."""
CHANGED = [("m2", "RECEIVED", "PROCESSING"), ("m4", "RECEIVED", "PROCESSING")]
"""The first updates of the store, which come with this release."""


STORES = ["store.tar.gz", "store-2.tar.gz", "store-3.tar.gz"]


@pytest.fixture(scope="module", params=few(STORES, STORES[0]), ids=["format 1", "format 2", "format 3"])
def unpacked(request: pytest.FixtureRequest) -> Iterator[str]:
    """The store, in the folder where it was made; only one test run on a machine has that folder at a time."""
    with Path(f"{FOLDER}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unpack(request.param)
        yield request.param
        shutil.rmtree(FOLDER)


def unpack(archive: str) -> None:
    """The store as the earlier release left it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    with tarfile.open(Path(__file__).with_name(archive)) as store:
        store.extractall(FOLDER, filter="data")


@pytest.fixture(scope="module")
def read(spark: SparkSession, unpacked: str) -> dict[str, Any]:
    """What a reader, a preview and a replay find before any other run, and which files they change."""
    before = tree(FOLDER / "store")
    with Reader(STORE) as reader:
        found: dict[str, Any] = {
            "ids": [message.message_id for message in reader.get_messages(batch_size=-1)],
            "dead letters": sorted(letter.reason for letter in reader.dead_letters()),
            "history": reader.history("m2"),
        }
    found["preview"] = run(spark, "purge", None, mode="DryRun").outcome
    found["replay"] = run(spark, "replay", None).outcome
    after = tree(FOLDER / "store")
    found["changed"] = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return found


@pytest.fixture(scope="module")
def upgraded(spark: SparkSession, read: dict[str, Any]) -> dict[str, Any]:
    """The outcomes of runs that write, one after the other."""
    arrive()
    write_file(FOLDER / "updates" / "a.jsonl", lines(*(update(name, to) for name, _, to in CHANGED)), START)
    updates = Lifecycle(source_id="updates", source=FilesSource(uri=f"file://{FOLDER}/updates"))
    return {
        "ingest": run(spark, "ingest", 6, lifecycle=updates).outcome,
        "history": history(),
        "purge": run(spark, "purge", 7).outcome,
        "redrive": run(spark, "redrive", 8).outcome,
    }


def history() -> list[tuple[str, str, str]]:
    """The changes of the updated messages, as readers see them."""
    with Reader(STORE) as reader:
        rows = [row for name, *_ in CHANGED for row in reader.history(name)]
    return [(row.message_id, row.from_status, row.to_status) for row in rows]


def arrive() -> None:
    """Land an erased message, an existing one, and a new one."""
    write_file(FOLDER / "landing" / "b.jsonl", lines(record("m3"), record("m4"), record("m21")), START)


def run(spark: SparkSession, name: str, epoch: int | None, **task: Any) -> RunReport:
    """Do a run with the task of the earlier release."""
    report = attempt(spark, name, epoch, **task)
    assert report.error is None
    return report


def attempt(spark: SparkSession, name: str, epoch: int | None, **task: Any) -> RunReport:
    document = document_of(name, epoch, **task)
    return execute(document, lambda: spark, Silent(), 0, lambda: START)


def document_of(name: str, epoch: int | None, **task: Any) -> RunDocument:
    """The document of the earlier release, for this one."""
    said = json.loads((FOLDER / "documents" / f"{name}.json").read_bytes())
    # Each release writes the document's tables for its own jobs.
    if said["task"]["kind"] == "replay" and said["task"]["destination"]["kind"] == "stream":
        said["task"]["destination"]["table"].pop("adopt", None)
    table = {"uri": said["table"]["uri"], "owner": said["table"]["owner"], "epoch": epoch}
    said["table"] = {**table, "keepsHistory": True}
    document = RunDocument.model_validate(said)
    table = document.table
    changed = document.task.model_copy(update=task)
    if isinstance(changed, ReplayTask) and isinstance(changed.destination, StreamDestination):
        to = changed.destination.model_copy(update={"table": table})
        changed = changed.model_copy(update={"destination": to})
    return document.model_copy(update={"run": f"{name}-{epoch}", "task": changed})


def test_a_reader_finds_all_of_an_earlier_releases_store_and_does_not_upgrade_it(read: dict[str, Any]) -> None:
    assert read["ids"] == [f"m{number}" for number in range(1, 21) if number != 3]
    assert read["dead letters"] == ["PayloadTooLarge", "Unparseable"]
    assert read["history"] == []
    assert (read["preview"].preview.messages, read["preview"].preview.held) == (len(DONE), 1)
    # The audit has rows about a preview and a replay.
    assert {name.partition("/")[0] for name in read["changed"]} == {"audit"}


def test_a_replay_that_was_under_way_sends_what_it_froze(read: dict[str, Any]) -> None:
    assert (read["replay"].complete, read["replay"].progress.replayed) == (True, len(RECEIVED))
    assert sent(FOLDER / "sent") == RECEIVED


def test_the_first_run_that_writes_upgrades_the_store_and_does_its_work(upgraded: dict[str, Any]) -> None:
    assert upgraded["ingest"].counts == IngestCounts(received=3, stored=1, duplicates=2)
    assert upgraded["ingest"].totals == IngestCounts(received=25, stored=21, duplicates=2, dead_lettered=2)
    assert_is_in_this_releases_form()


def assert_is_in_this_releases_form() -> None:
    assert json.loads(MARKER.read_text())["formatVersion"] == 4
    for name, schema in TABLES.items():
        table = DeltaTable(f"{STORE}/{name}")
        assert {field.name for field in table.schema().fields} == set(schema.names)
        assert properties(name).items() <= table.metadata().configuration.items()
        assert table.history(1)[0]["userMetadata"]


def test_the_history_of_an_upgraded_store_begins_with_the_first_change(upgraded: dict[str, Any]) -> None:
    assert upgraded["history"] == CHANGED


def test_a_purge_that_was_cut_off_is_carried_on(upgraded: dict[str, Any]) -> None:
    assert (upgraded["purge"].purge.purged, upgraded["purge"].purge.archived) == (len(DONE), len(DONE))
    assert archived_positions(f"file://{FOLDER}/archive") == DONE


def test_dead_letters_of_an_upgraded_store_are_redriven(upgraded: dict[str, Any]) -> None:
    assert upgraded["redrive"].complete
    assert table_state(Store(STORE)).dead_letters == 1
    with Reader(STORE) as reader:
        assert [letter.reason for letter in reader.dead_letters(redriven=False)] == ["Unparseable"]
        assert [message.message_id for message in reader.get_messages(batch_size=-1)][-2:] == ["m21", "m99"]
    assert positions(STORE) == sorted([*RECEIVED, 7, 21, 22])
    assert last_note(Store(STORE)).epoch == 8
    actions = sorted(row["action"] for row in read_audit(Store(STORE)))
    assert actions == ["Preview", "Purge", "Purge", "Redrive", "Replay", "Upgrade"]


def test_the_history_of_a_message_is_erased_with_it_in_an_upgraded_store(
    spark: SparkSession, upgraded: dict[str, Any]
) -> None:
    run(spark, "erasure", 9, rules=(Rule(name="forget-2", match=Match(message_ids=("m2",)), erase=True),))
    assert [row["message_id"] for row in DeltaTable(f"{STORE}/history").to_pyarrow_table().to_pylist()] == ["m4"]
    assert history() == CHANGED[1:]


def test_a_store_of_a_newer_release_is_refused_before_anything_is_opened(
    spark: SparkSession, upgraded: dict[str, Any]
) -> None:
    said = MARKER.read_text()
    MARKER.write_text(json.dumps({**json.loads(said), "formatVersion": 5}))
    before = tree(FOLDER / "store")
    for name, epoch in (("ingest", 10), ("purge", 10), ("replay", None)):
        refused = attempt(spark, name, epoch).error
        assert refused.reason == "TableRefused"
        assert "has format version 5, this release knows up to 4; use the release that wrote it" in refused.message
    with pytest.raises(StoreUnreadableError, match="has format version 5"):
        Reader(STORE)
    assert tree(FOLDER / "store") == before
    MARKER.write_text(said)


def test_the_history_is_deleted_with_an_upgraded_store(spark: SparkSession, upgraded: dict[str, Any]) -> None:
    assert (FOLDER / "store" / "history").exists()
    document = document_of("erasure", 10).model_copy(update={"task": DeleteTask()})
    assert execute(document, lambda: spark, Silent(), 0, lambda: START).error is None
    assert not (FOLDER / "store" / "history").exists()


@pytest.mark.long
def test_an_upgrade_is_completed_whichever_answer_is_lost(
    spark: SparkSession, unpacked: str, upgraded: dict[str, Any]
) -> None:
    unpack(unpacked)
    forget_tables(spark)
    arrive()

    def ingest() -> RunReport:
        report = attempt(spark, "ingest", 6)
        if report.error:
            raise UnheardError(report.error.message)
        return report

    report, lost = unheard(ingest)
    changes = {"upgrade", "properties"} if unpacked == "store.tar.gz" else set()
    assert {name.partition("-")[0] for name in lost} >= {"claim", "marker", *changes}
    assert report.outcome.totals == upgraded["ingest"].totals
    assert_is_in_this_releases_form()
