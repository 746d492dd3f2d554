"""The operator accepts a report about its own run, and only what fits into a status."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, Lag, UpkeepDone
from messagestore_core.contract.purge import EraseOutcome, Preview, PurgeOutcome
from messagestore_core.contract.replay import DestinationState, FrozenSelection, ReplayOutcome, ReplayProgress
from messagestore_core.contract.run_report import Outcome, RunReport, Usage
from messagestore_core.contract.stores import TableState
from messagestore_operator.decide.report_checks import with_valid_reports
from messagestore_operator.decide.snapshot import AppState, ObservedRun, RunRef, Snapshot

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
RUN = ObservedRun(RunRef("default", "r-1", 1, "ingest"), AppState.RUNNING)
BEFORE_YEARS_OF_FOUR_DIGITS = datetime(999, 1, 5, 8, tzinfo=UTC)
TABLE = TableState(version=1, messages=1, dead_letters=0, bytes=1)
NEGATIVE = TABLE.model_copy(update={"messages": -1})


def report(outcome: Outcome | None = None, run: str = "r-1", **given: Any) -> RunReport:
    return RunReport(run=run, sequence=1, state="Running", started_at=NOW, outcome=outcome, **given)


def checked(said: RunReport, now: datetime = NOW) -> ObservedRun:
    (found,) = with_valid_reports(Snapshot(now=now, runs=(replace(RUN, report=said),))).runs
    return found


def ingest(received: int = 0, **upkeep: Any) -> IngestOutcome:
    done = UpkeepDone(request_id=1).model_copy(update=upkeep)
    counts = IngestCounts(received=received)
    return IngestOutcome(counts=counts, totals=counts, batches=1, table=TABLE, lag=Lag(as_of=NOW), upkeep=done)


def purge(**given: Any) -> PurgeOutcome:
    preview = Preview(id="p", table_version=1, as_of=NOW, messages=1, bytes=1).model_copy(update=given)
    return PurgeOutcome(preview=preview, table=TABLE)


def replay(messages: int = 1, replayed: int = 1) -> ReplayOutcome:
    selection = FrozenSelection(table_version=1, messages=messages, bytes=1)
    return ReplayOutcome(selection=selection, progress=ReplayProgress(replayed=replayed), complete=False)


@pytest.mark.parametrize(
    "outcome", [None, ingest(1, table_version=2, small_files=0), purge(), replay(), EraseOutcome(table=TABLE)]
)
def test_a_valid_report_is_used_unchanged(outcome: Outcome | None) -> None:
    said = report(outcome, error=RunError(reason="StorageDenied", message="m"))
    assert checked(said) == replace(RUN, report=said)


def test_a_report_that_names_another_run_is_dropped_as_a_problem() -> None:
    assert checked(report(run="r-2")) == replace(RUN, report_problem="its report names another run")


@pytest.mark.parametrize(
    "outcome",
    [
        ingest(-1),
        ingest(request_id=-1),
        ingest(table_version=-1),
        ingest(small_files=-1),
        purge(messages=-1),
        replay(messages=-1),
        replay(replayed=-1),
        EraseOutcome(table=TABLE, not_erased=("a",) * 9),
        EraseOutcome(table=NEGATIVE),
        purge().model_copy(update={"table": NEGATIVE}),
        EraseOutcome(table=TABLE, erase_due_by=BEFORE_YEARS_OF_FOUR_DIGITS),
    ],
)
def test_a_report_with_an_impossible_value_is_dropped_as_a_problem_of_one_line(outcome: Outcome) -> None:
    found = checked(report(outcome))
    assert found.report is None
    assert found.report_problem.startswith("its report has an impossible value: ")
    assert len(found.report_problem.splitlines()) == 1
    assert "NoneType" not in found.report_problem


def test_a_report_with_a_time_that_no_status_can_hold_is_dropped() -> None:
    found = checked(report(ingest(1)), now=BEFORE_YEARS_OF_FOUR_DIGITS)
    assert (found.report, found.report_problem is None) == (None, False)


def test_a_purge_that_failed_for_a_reason_that_is_no_constant_is_believed_with_another() -> None:
    found = checked(report(purge(), error=RunError(reason="not one", message="m"))).report
    assert found.error == RunError(reason="RunFailed", message="m")


def test_an_error_of_maintenance_is_told_in_one_line_of_printable_text_too() -> None:
    found = checked(report(ingest(error=RunError(reason="not one", message="a\x00b\nc")))).report
    assert found.outcome.upkeep == UpkeepDone(request_id=1, error=RunError(reason="RunFailed", message="a b c"))


def destinations(error: RunError) -> ReplayOutcome:
    return replay().model_copy(update={"destinations": (DestinationState(name="eu", error=error),)})


def test_an_error_of_a_destination_is_told_in_few_words_too() -> None:
    found = checked(report(destinations(RunError(reason="not one", message="a\nb" + "x" * 40_000)))).report
    assert found.outcome.destinations[0].error == RunError(reason="RunFailed", message=f"a b{'x' * 3997}")


@pytest.mark.parametrize(
    "said",
    [
        report(ingest().model_copy(update={"counts": IngestCounts(received=-1)})),
        report(replay().model_copy(update={"round": -1})),
        report(usage=Usage(driver_cpu_seconds=1e12, executor_cpu_seconds=1e12)),
    ],
    ids=["counts", "round", "usage"],
)
def test_what_no_ended_run_can_have_is_dropped_before_it_has_ended(said: RunReport) -> None:
    assert checked(said).report is None
