"""Runs under way while the operator changes: what an earlier release wrote is read, and newer fields are told.

documents.json and reports.json are of commit 17d0c355, made by its own code. They never change.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from messagestore_core.contract.ingest import IngestOutcome
from messagestore_core.contract.run_document import RunDocument
from messagestore_jobs.driver.main import main, unreadable
from messagestore_operator.cluster.reports import read_report
from messagestore_operator.decide.causes import last_line

HERE = Path(__file__).parent
DOCUMENTS: dict[str, dict[str, Any]] = json.loads((HERE / "documents.json").read_text())
REPORTS: dict[str, dict[str, Any]] = json.loads((HERE / "reports.json").read_text())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_run_reads_an_earlier_operators_document_and_loses_nothing_of_it(name: str) -> None:
    read = RunDocument.model_validate(DOCUMENTS[name]).model_dump(mode="json", by_alias=True)
    assert _lost(DOCUMENTS[name], read) == []


@pytest.mark.parametrize("name", REPORTS)
def test_the_operator_reads_an_earlier_runs_report_and_loses_nothing_of_it(name: str) -> None:
    reading = read_report(json.dumps(REPORTS[name]), "run")
    assert reading.problem is None
    assert _lost(REPORTS[name], reading.report.model_dump(mode="json", by_alias=True)) == []
    if isinstance(reading.report.outcome, IngestOutcome):
        assert reading.report.outcome.last_batch is None


def _lost(wanted: Any, kept: Any, path: str = "") -> list[str]:
    """The paths of what is not kept."""
    if isinstance(wanted, dict):
        return [lost for key in wanted for lost in _lost(wanted[key], (kept or {}).get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and len(wanted) == len(kept or []):
        return [lost for one, other in zip(wanted, kept, strict=True) for lost in _lost(one, other, path)]
    return [] if wanted == kept else [path]


@pytest.mark.parametrize("name", REPORTS)
def test_the_operator_reads_a_newer_runs_report_without_what_it_does_not_know(name: str) -> None:
    known = read_report(json.dumps(REPORTS[name]), "run")
    assert read_report(json.dumps(_with_newer_fields(REPORTS[name])), "run") == known


def _with_newer_fields(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_newer_fields(one) for one in value]
    if not isinstance(value, dict):
        return value
    # Keys of counts by reason are no fields.
    newer = {"newerField": {"of": "another release"}} if "kind" in value or "version" in value else {}
    return {**{key: _with_newer_fields(one) for key, one in value.items()}, **newer}


@pytest.mark.parametrize("path", [("task",), ("table",), ("task", "source")])
def test_a_run_refuses_a_newer_operators_document_and_says_which_field_it_does_not_know(path: tuple[str, ...]) -> None:
    newer = json.loads(json.dumps(next(iter(DOCUMENTS.values()))))
    part = newer
    for key in path:
        part = part[key]
    part["newerField"] = "hunter2"
    with pytest.raises(ValidationError) as refused:
        RunDocument.model_validate_json(json.dumps(newer))
    words = unreadable(refused.value)
    assert last_line(words) == words
    assert "newerField of the run document: operator and image are of different releases" in words
    assert "hunter2" not in words


def test_a_driver_with_a_newer_document_ends_with_the_field_in_its_termination_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document, log = tmp_path / "run.json", tmp_path / "termination-log"
    document.write_text(json.dumps({**next(iter(DOCUMENTS.values())), "newerField": 1}))
    monkeypatch.setenv("MESSAGESTORE_RUN_DOCUMENT", str(document))
    monkeypatch.setenv("MESSAGESTORE_TERMINATION_LOG", str(log))
    assert main() == 2
    words = "this image doesn't know newerField of the run document: operator and image are of different releases"
    assert (log.read_text(), capsys.readouterr().err) == (words, f"{words}\n")
    document.unlink()
    assert main() == 2
    assert log.read_text().startswith("the run document can't be read: [Errno 2]")
