"""What `messagestore run --dry-run` prints."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from messagestore_core.contract.base import RunError
from messagestore_operator.cli.dry_run import document_of_row, headline, lines_to, print_tried
from messagestore_operator.cli.main import app
from messagestore_operator.cli.output import BAD_INPUT, Output
from messagestore_operator.local.dry_run import Tried

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
SOURCE = {"kind": "File", "uri": "file:///landing/a.jsonl", "partition": None, "offset": 1053}
LETTER = {"records": 2, "reason": "Unparseable", "detail": "the JSON is incomplete", "source": SOURCE, "raw": b"{\xff"}
MESSAGE = {"global_position": 7, "message_id": "m-1", "stream_name": "order-1", "position": 3, "type": None, "time": AT}
INGEST = Tried(
    "MessageStream",
    "orders",
    "orders",
    {"received": 3, "stored": 1, "duplicates": 0, "deadLettered": 2},
    [LETTER],
    [{**MESSAGE, "payload": b'{"n":1}'}],
)
PURGE = Tried(
    "RetentionPolicy", "old", "orders", {"selected": 1, "held": 0, "rule a": 1}, messages=[{**MESSAGE, "rules": ["a"]}]
)


def test_a_line_says_what_a_resource_would_do_without_counts_of_nothing() -> None:
    assert headline(INGEST) == "messagestream/orders: received 3, stored 1, dead letters 2"
    assert headline(PURGE) == "retentionpolicy/old, stream orders: selected 1, rule a 1"
    nothing = Tried("ReplayJob", "r", "orders", {"selected": 0})
    assert headline(nothing) == "replayjob/r, stream orders: selected 0"
    assert headline(Tried("ReplayJob", "r", "", note="it is suspended")) == "replayjob/r: it is suspended"
    failed = Tried(
        "MessageStream", "s", "s", {"received": 1}, error=RunError(reason="SourceGone", message="it is away")
    )
    assert headline(failed) == "messagestream/s: received 1; it would fail: SourceGone: it is away"


def test_a_table_has_the_columns_that_a_sample_has(capsys: pytest.CaptureFixture[str]) -> None:
    print_tried([INGEST, PURGE], Output.TABLE)
    out, err = capsys.readouterr()
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines == [
        "messagestream/orders: received 3, stored 1, dead letters 2",
        "RECORDS REASON SOURCE DETAIL RAW",
        "2 Unparseable file:///landing/a.jsonl#1053 the JSON is incomplete {\ufffd",
        "ID STREAM POSITION TYPE TIME PAYLOAD",
        'm-1 order-1 3 2026-01-05T12:00:00Z {"n":1}',
        "retentionpolicy/old, stream orders: selected 1, rule a 1",
        "ID STREAM POSITION TYPE TIME RULES",
        "m-1 order-1 3 2026-01-05T12:00:00Z a",
    ]
    assert err == "dry run: nothing was changed\n"


@pytest.mark.parametrize("output", [Output.JSON, Output.YAML])
def test_json_and_yaml_of_a_dry_run_have_the_same_content_as_its_table(
    output: Output, capsys: pytest.CaptureFixture[str]
) -> None:
    print_tried([INGEST, PURGE], output)
    documents = yaml.safe_load(capsys.readouterr().out)
    first, second = documents if output is Output.JSON else documents["dryRun"]
    assert first["counts"] == {"received": 3, "stored": 1, "duplicates": 0, "deadLettered": 2}
    assert first["deadLetters"][0]["rawBase64"] == "e/8="
    assert first["messages"][0]["payload"] == '{"n":1}'
    assert (second["messages"][0]["rules"], second["messages"][0]["globalPosition"]) == (["a"], 7)
    assert "error" not in first


def test_a_dead_letter_to_send_again_has_its_times_as_text() -> None:
    row = {"failed_at": AT, "source": SOURCE, "stream_name": None}
    assert document_of_row(row) == {"failedAt": "2026-01-05T12:00:00Z", "source": SOURCE, "streamName": None}


def test_a_file_has_one_message_a_line_and_none_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    with lines_to(file) as each:
        assert each is not None
        each(MESSAGE)
        each({**MESSAGE, "message_id": "a\nb\x1b"})
    assert [json.loads(line)["messageId"] for line in file.read_text().splitlines()] == ["m-1", "a\nb\x1b"]
    with pytest.raises(typer.Exit) as ended, lines_to(file):
        raise AssertionError("it was opened")
    assert ended.value.exit_code == BAD_INPUT


@pytest.mark.parametrize("option", [["--payloads"], ["--list-to", "messages.jsonl"]])
def test_options_of_a_dry_run_are_refused_without_it(option: list[str]) -> None:
    result = CliRunner().invoke(app, ["run", "-f", "manifests", *option])
    assert result.exit_code == 2
    assert "need --dry-run" in result.stderr
