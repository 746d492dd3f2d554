"""``messagestore page`` on stores."""

import sys
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from messagestore_operator.cli.main import app
from support.stores import START, add_dead_letters, make_store, message

POLICY = """
apiVersion: messagestore.dev/v1alpha1
kind: RetentionPolicy
metadata: {name: two-days}
spec:
  streamRefs: [{name: orders}]
  trigger: {manual: {}}
  mode: Enforce
  rules: [{name: old, maxAge: P2D}]
"""


@pytest.fixture
def store(tmp_path: Path) -> str:
    rows = [message(n, inserted_at=START + n * timedelta(days=1), payload=b"private") for n in range(1, 6)]
    table = make_store(tmp_path / "store", rows)
    add_dead_letters(table.uri, [{"raw": b"<b>torn", "failed_at": START, "detail": "the JSON is incomplete"}])
    return table.uri


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["page", *arguments])


def test_a_page_of_several_stores_is_one_file_whose_path_is_printed(tmp_path: Path, store: str) -> None:
    other = make_store(tmp_path / "other", []).uri
    result = run(store, other, "-o", str(tmp_path / "page.html"))

    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path}/page.html\n"
    page = (tmp_path / "page.html").read_text()
    assert f'<h2 id="store-1">{store}</h2>' in page
    assert f'<h2 id="store-2">{other}</h2>' in page
    assert "All 5 messages." in page
    assert "No policy for this store was given by --policies." in page


def test_a_page_has_no_payloads_and_records_only_when_asked_for(tmp_path: Path, store: str) -> None:
    file = tmp_path / "page.html"
    run(store, "-o", str(file))
    without = file.read_text()
    run(store, "-o", str(file), "--payloads")

    assert "the JSON is incomplete" in without
    assert "torn" not in without
    assert "&lt;b&gt;torn" in file.read_text()
    assert "private" not in without + file.read_text()


def test_a_page_tells_what_policies_would_remove(tmp_path: Path, store: str) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    options = ("--policies", str(tmp_path / "policy.yaml"), "--at", "2026-01-09T12:00:00Z")
    result = run(store, "-o", str(tmp_path / "page.html"), *options)

    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text()
    assert "Policy two-days" in page
    assert "5 messages with 35 B of payloads" in page


def test_a_wrong_manifest_is_told_and_nothing_is_written(tmp_path: Path, store: str) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace("P2D", "soon"))
    result = run(store, "-o", str(tmp_path / "page.html"), "--policies", str(tmp_path / "policy.yaml"))

    assert result.exit_code == 2
    assert "policy.yaml:9: spec.rules[0].maxAge" in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_a_store_that_is_not_there_and_a_file_that_cannot_be_written_are_told(tmp_path: Path, store: str) -> None:
    assert run(str(tmp_path / "nothing"), "-o", str(tmp_path / "page.html")).exit_code == 1
    result = run(store, "-o", str(tmp_path / "no/page.html"))

    assert result.exit_code == 1
    assert "can't be written: No such file or directory" in result.stderr


def test_a_missing_library_for_pages_is_named(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "messagestore_operator.page.document", raising=False)
    result = run(store, "-o", str(tmp_path / "page.html"))

    assert result.exit_code == 1
    assert "jinja2 is missing; in a clone of the project: pip install '.[library,page]'" in result.stderr
