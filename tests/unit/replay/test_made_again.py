"""Replays that are made again under their names, and what they find of earlier ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.destinations import FilesDestination, StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayOutcome, ReplayProgress, ReplayTask, Selection
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Frozen, digest
from messagestore_jobs.replay.begin import delivery_of
from messagestore_jobs.replay.freeze import nothing_selected
from messagestore_jobs.replay.job import of_its_own
from support.replays import AT, replay_document
from support.stores import make_store, message

NO_SPARK: Any = None
DONE = ReplayOutcome(selection=nothing_selected(), progress=ReplayProgress(percent=100), complete=True)
FIRST, OTHER = Selection(statuses=("FAILED",)), Selection(statuses=("RECEIVED",))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_store(tmp_path / "store", [message(1)])


def run_of(table: Table, to: Any, select: Selection = FIRST, request_digest: str | None = "first") -> Run:
    """A run of replay `again`, under the id that its state has."""
    task = ReplayTask(job_id="again", request_digest=request_digest, select=select, destination=to)
    return of_its_own(Run.of(replay_document(table, task), NO_SPARK, Silent()))


def id_of(run: Run) -> str:
    task = run.document.task
    return task.job_id


def frozen_by(run: Run) -> Frozen:
    task = run.document.task
    done = {"selection": nothing_selected(), "listed": False, "end": None, "splits": ()}
    return Frozen(task=digest(task, run.store.uri), request_digest=task.request_digest, run="run-1", at=AT, **done)


def to_stream(tmp_path: Path) -> StreamDestination:
    source = FilesSource(uri=f"file://{tmp_path}/landing", format="JSONLines")
    target = make_store(tmp_path / "target", [])
    return StreamDestination(table=target, ingest=IngestTask(source_id="own", source=source))


def to_files(tmp_path: Path) -> FilesDestination:
    return FilesDestination(uri=f"file://{tmp_path}/out")


DESTINATIONS = pytest.mark.parametrize("destination", [to_files, to_stream])


@DESTINATIONS
@pytest.mark.parametrize("ended", [True, False])
def test_the_first_replay_of_a_name_has_the_name_as_its_id_and_a_different_one_an_id_of_its_own(
    tmp_path: Path, table: Table, destination: Any, ended: bool
) -> None:
    to = destination(tmp_path)
    first = run_of(table, to)
    assert id_of(first) == "again"
    if ended:
        delivery_of(first).end(frozen_by(first), [], DONE, lambda: True)
    else:
        delivery_of(first).state.freeze(frozen_by(first))
    assert id_of(run_of(table, to)) == "again"
    assert (delivery_of(run_of(table, to)).ended() is not None) == ended
    other = run_of(table, to, OTHER, "other")
    assert id_of(other).startswith("again.")
    assert delivery_of(other).ended() is None
    assert delivery_of(other).state.frozen(other.document.task, table.uri) is None
    # In a cluster ids differ, and so does nothing that a resource may change.
    assert id_of(run_of(table, to, OTHER, None)) == "again"


@DESTINATIONS
def test_a_replay_of_a_store_that_was_made_again_has_a_new_id(tmp_path: Path, table: Table, destination: Any) -> None:
    to = destination(tmp_path)
    first = run_of(table, to)
    delivery_of(first).end(frozen_by(first), [], DONE, lambda: True)
    shutil.rmtree(tmp_path / "store")
    assert id_of(run_of(make_store(tmp_path / "store", [message(1)]), to)).startswith("again.")


def test_a_replay_that_has_begun_in_a_cluster_does_not_go_on_with_another_store(tmp_path: Path, table: Table) -> None:
    to = to_files(tmp_path)
    first = run_of(table, to, request_digest=None)
    delivery_of(first).state.freeze(frozen_by(first))
    shutil.rmtree(tmp_path / "store")
    again = run_of(make_store(tmp_path / "store", [message(1)]), to, request_digest=None)
    with pytest.raises(RunFailedError, match="another selection, order, mark, table or store"):
        delivery_of(again).state.frozen(again.document.task, table.uri)


def forget(uri: str, name: str) -> None:
    """Make a document as an earlier release wrote it."""
    objects = Objects(uri, Storage())
    content = json.loads(objects.read(name) or b"")
    del content["asked"]
    objects.write(name, json.dumps(content).encode())


def test_a_replay_of_an_earlier_release_stays_ended_or_continues(tmp_path: Path, table: Table) -> None:
    to = to_stream(tmp_path)
    first = run_of(table, to)
    delivery_of(first).state.freeze(frozen_by(first))
    forget(f"{to.table.uri}/_replays/again/state", "frozen.json")
    assert id_of(run_of(table, to)) == "again"
    assert id_of(run_of(table, to, OTHER, "other")).startswith("again.")
    delivery_of(first).end(frozen_by(first), [], DONE, lambda: True)
    forget(f"{to.table.uri}/_replays/again", "ended.json")
    # It didn't note what it had sent.
    assert id_of(run_of(table, to, OTHER, "other")) == "again"


def test_a_manifest_of_an_earlier_release_says_what_was_sent(tmp_path: Path, table: Table) -> None:
    to = to_files(tmp_path)
    first = run_of(table, to)
    delivery_of(first).end(frozen_by(first), [], DONE, lambda: True)
    forget(to.uri, "manifest.json")
    assert id_of(run_of(table, to)) == "again"
    other = run_of(table, to, OTHER, "other")
    assert id_of(other).startswith("again.")
    with pytest.raises(RunFailedError, match="it holds what replay again has sent") as refused:
        delivery_of(other).check()
    assert refused.value.reason == "DestinationNotEmpty"
