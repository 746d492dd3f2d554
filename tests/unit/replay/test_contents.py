"""What a replay reports about the stores that it has written to; what it sends is written here by delta-rs."""

from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.destinations import FilesDestination, StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress, ReplayTask
from messagestore_core.contract.stores import Table, TableState
from messagestore_core.progress import Silent
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Ended
from messagestore_jobs.replay import job
from support.replays import AT, replay_document
from support.stores import add_dead_letters, add_messages, change_rows, make_store, message

NO_SPARK: Any = None
SOURCE = FilesSource(uri="file:///nowhere")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A store with a message and three dead letters."""
    table = make_store(tmp_path / "store", [message(1)])
    rows = [{"raw": b"a"}, {"raw": b"b", "reason": "InvalidField"}, {"raw": b"c"}]
    add_dead_letters(table.uri, [{"failed_at": AT, **row} for row in rows])
    return table


def into(table: Table) -> StreamDestination:
    return StreamDestination(table=table, ingest=IngestTask(source_id="own", source=SOURCE))


def outcome_of(monkeypatch: pytest.MonkeyPatch, table: Table, to: Any, sent: int = 1, **task: Any) -> ReplayOutcome:
    """The outcome of a replay that sends a message, and marks the dead letter `a` in a redrive."""

    def replay(run: Run, _: Any) -> ReplayOutcome:
        if sent and isinstance(to, StreamDestination):
            add_messages(to.table.uri, [message(2)], next_global_position=3)
        if sent and task.get("origin") == "DeadLetters":
            change_rows(table.uri, "dead_letters", {"redriven_at": f"timestamp '{AT.isoformat()}'"}, "raw = X'61'")
        selection = FrozenSelection(table_version=1, messages=1, bytes=1)
        return ReplayOutcome(selection=selection, progress=ReplayProgress(replayed=sent), complete=True)

    monkeypatch.setattr(job, "_replay", replay)
    document = replay_document(table, ReplayTask(job_id="job-1", destination=to, **task))
    return job.run_replay(Run.of(document, NO_SPARK, Silent()))


def figures(state: TableState | None) -> tuple[int, int, dict[str, int] | None, int | None]:
    return state.messages, state.dead_letters, state.dead_letters_by_reason, state.last_global_position


def test_a_redrive_reports_what_both_stores_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: Table) -> None:
    outcome = outcome_of(monkeypatch, table, into(make_store(tmp_path / "copy", [])), origin="DeadLetters")
    assert figures(outcome.table) == (1, 2, {"InvalidField": 1, "Unparseable": 1}, 1)
    assert figures(outcome.target_table) == (1, 0, {}, 2)


def test_a_redrive_into_its_own_stream_reports_only_that_store(monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    outcome = outcome_of(monkeypatch, table, into(table), origin="DeadLetters")
    assert figures(outcome.table) == (2, 2, {"InvalidField": 1, "Unparseable": 1}, 2)
    assert outcome.target_table is None


def test_a_replay_of_messages_into_a_stream_reports_its_store_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: Table
) -> None:
    outcome = outcome_of(monkeypatch, table, into(make_store(tmp_path / "copy", [])))
    assert (outcome.table, figures(outcome.target_table)) == (None, (1, 0, {}, 2))


def test_a_replay_that_sends_nothing_or_writes_to_no_store_reads_no_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: Table
) -> None:
    looked: list[Any] = []
    monkeypatch.setattr(job, "table_state", lambda store, *_, **__: looked.append(store))
    for to in (
        FilesDestination(uri=f"file://{tmp_path}/out"),
        into(Table(uri=f"file://{tmp_path}/not-there", owner=table.owner)),
    ):
        outcome = outcome_of(monkeypatch, table, to, sent=int(isinstance(to, FilesDestination)))
        assert (outcome.table, outcome.target_table, looked) == (None, None, [])


def test_the_record_of_a_replays_end_has_no_figures_of_stores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: Table
) -> None:
    outcome = outcome_of(monkeypatch, table, into(make_store(tmp_path / "copy", [])))
    ended = Ended(**dict(outcome)).model_dump_json(by_alias=True)
    assert "able" not in ended.replace("tableVersion", "")
    assert Ended.model_validate_json(ended).outcome() == outcome.model_copy(update={"target_table": None})
