"""The rows of the audit: what was done, and who asked for it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Hold, Match
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress, ReplayTask, Selection
from messagestore_core.contract.run_document import DeleteTask, Resource, RunDocument
from messagestore_core.contract.stores import FormerOwner, Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import ACTIONS, note_holds, read_audit
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.layout import MARKER
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.delete import run_delete
from messagestore_jobs.replay.job import note_replay, redelivered
from support.external_writes import observing
from support.stores import OWNER, START, make_store, message

HELD = Hold(name="case-7", match=Match(message_ids=("m1",)))

SPARK: Any = None
"""A replay's audit needs no Spark."""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_store(tmp_path / "store", [message(1), message(2)])


def document(table: Table, task: Any, run: str = "run-1") -> RunDocument:
    by = Resource(kind="MessageStream", namespace="default", name="orders", requested_by="user:ada")
    return RunDocument(run=run, resource=by, table=table, at=START, task=task)


def ingest(table: Table, *holds: Hold, run: str = "run-1") -> RunDocument:
    task = IngestTask(source_id="landing", source=FilesSource(uri="file:///landing"), holds=holds)
    return document(table, task, run)


def told(table: Table) -> list[tuple[str, str]]:
    assert {row["requested_by"] for row in read_audit(HeldStore(table.uri))} <= {"user:ada"}
    return sorted((row["run"], row["action"]) for row in read_audit(HeldStore(table.uri)))


def test_a_hold_that_is_added_changed_or_released_is_told_once_and_names_no_message(table: Table) -> None:
    for run, holds in {"1": [HELD], "2": [HELD], "3": [HELD.model_copy(update={"until": START})], "4": []}.items():
        note_holds(HeldStore(table.uri), ingest(table, *holds, run=run))
    assert told(table) == [("1", "HoldAdded"), ("3", "HoldAdded"), ("3", "HoldReleased"), ("4", "HoldReleased")]
    rules = {row["rules"] for row in read_audit(HeldStore(table.uri))}
    assert {json.loads(text)["hold"] for text in rules} == {"case-7"}
    assert not any("m1" in text for text in rules)


def test_a_store_that_is_taken_over_and_upgraded_tells_from_whom_and_from_what(table: Table, tmp_path: Path) -> None:
    (tmp_path / "store" / MARKER).write_text(json.dumps({"formatVersion": 1, "owner": OWNER.model_dump()}))
    former = (FormerOwner(namespace="default"),)
    heir = table.model_copy(update={"owner": Owner(namespace="shop", name="heir"), "adopt_from": former})
    for _ in range(2):
        open_folder(HeldStore.of(heir, Storage()), ingest(heir))
    assert told(table) == [("run-1", "Adopt"), ("run-1", "Upgrade")]
    assert {row["rules"] for row in read_audit(HeldStore(table.uri))} == {
        '{"from":"default/orders"}',
        '{"from":1,"to":4}',
    }


def test_a_deletion_is_told_before_anything_is_deleted(table: Table) -> None:
    rows: list[dict[str, Any]] = []

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("audit-delete", "after"):
            rows.extend(read_audit(HeldStore(table.uri)))

    with observing(observer):
        run_delete(HeldStore.of(table, Storage()), document(table, DeleteTask()), Silent())
    (row,) = rows
    assert (row["action"], row["requested_by"], row["counts"]) == (
        "Delete",
        "user:ada",
        {"messages": 2, "deadLetters": 0},
    )


def test_a_replay_is_told_once_with_what_was_sent_and_its_rounds_add_up(table: Table) -> None:
    selection = FrozenSelection(table_version=1, messages=3, bytes=30)
    outcome = ReplayOutcome(selection=selection, progress=ReplayProgress(replayed=2, failed=1), complete=True)

    def sending(job: str, run: str) -> Run:
        to = FilesDestination(uri="file:///out")
        task = ReplayTask(job_id=job, select=Selection(message_ids=("secret",)), destination=to, rounds=True)
        return Run.of(document(table, task, run), SPARK, Silent())

    for job, run in (("job-1", "1"), ("job-1", "2"), ("job-2", "3"), ("other-1", "4")):
        assert note_replay(sending(job, run), outcome) == outcome
    note_replay(sending("job-3", "5"), outcome.model_copy(update={"complete": False}))
    assert told(table) == [("1", "Replay"), ("3", "Replay"), ("4", "Replay")]
    first = next(row for row in read_audit(HeldStore(table.uri)) if row["run"] == "1")
    counts = {"selected": 3, "replayed": 2, "failed": 1, "erased": 0, "lost": 0}
    assert counts.items() <= first["counts"].items()
    assert (json.loads(first["rules"])["select"], "secret" in first["rules"]) == (["messageIds"], False)
    assert redelivered(sending("job", "6")) == 4


def test_each_action_is_explained() -> None:
    page = (Path(__file__).parents[3] / "docs" / "store.md").read_text()
    table = page.partition("## Audit")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")][1:]
    assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(ACTIONS)
