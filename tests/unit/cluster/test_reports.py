"""Reports are untrusted input: limited in size, checked, and accepted only about their own run."""

import json

import pytest

from messagestore_core.contract.run_report import RunReport
from messagestore_operator.cluster.reports import MAX_BYTES, Reports, newest, read_report

RUN = "orders-ingest-1"


def _text(sequence: int = 1, run: str = RUN, **more: object) -> str:
    report = {"run": run, "sequence": sequence, "state": "Running", "startedAt": "2026-03-01T06:30:00Z", **more}
    return json.dumps(report)


def test_a_report_of_the_run_is_read() -> None:
    reading = read_report(_text(7), RUN)
    assert (reading.report.sequence, reading.problem) == (7, None)


@pytest.mark.parametrize("text", [None, ""])
def test_before_the_first_report_there_is_neither_one_nor_a_problem(text: str | None) -> None:
    assert read_report(text, RUN) == read_report(None, RUN)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "can't be read"),
        ("[1]", "can't be read"),
        (_text(state="Perfect"), "state"),
        (_text(run="orders-ingest-2"), "another run"),
        (_text(padding="x" * MAX_BYTES), "longer than"),
        (_text(executorsRefused={"since": "2026-03-01T06:30:00", "message": "m"}), "since"),
        (7, "no text"),
        ("\ud800", "can't be read"),
    ],
    ids=["no-json", "no-object", "unknown-state", "another-run", "too-long", "no-zone", "number", "surrogate"],
)
def test_a_text_that_is_no_report_of_the_run_is_a_problem_and_not_used(text: object, words: str) -> None:
    reading = read_report(text, RUN)
    assert reading.report is None
    assert words in str(reading.problem)


def test_the_problem_does_not_repeat_what_the_driver_wrote() -> None:
    assert "hunter2" not in str(read_report(_text(state="hunter2"), RUN).problem)


def test_of_a_newer_images_report_what_is_known_is_read() -> None:
    progress = {"step": "ingest", "newer": 1}
    assert read_report(_text(progress=progress, newer="x"), RUN) == read_report(_text(progress={"step": "ingest"}), RUN)


def _report(sequence: int) -> RunReport:
    found = read_report(_text(sequence), RUN).report
    assert found is not None
    return found


def test_the_report_with_the_highest_sequence_wins() -> None:
    assert newest(_report(3), None, _report(5), _report(4)) == _report(5)
    assert newest(None, None) is None


def test_a_config_map_is_parsed_once_for_each_version_of_it() -> None:
    reports = Reports()

    def config_map(version: str, text: str) -> dict[str, object]:
        return {"metadata": {"uid": "u", "resourceVersion": version}, "data": {"report.json": text}}

    first = reports.of(config_map("1", _text(1)), RUN)
    assert reports.of(config_map("1", "not looked at"), RUN) is first
    later = reports.of(config_map("2", _text(2)), RUN).report
    assert later.sequence == 2
