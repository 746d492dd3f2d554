"""Whatever strangers have written, a terminal has nothing to interpret."""

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from messagestore.message import Message
from messagestore_operator.cli.console import PlainConsole, TerminalConsole
from messagestore_operator.cli.main import app
from messagestore_operator.cli.messages import print_messages, print_more
from messagestore_operator.cli.output import Output
from messagestore_operator.cli.yaml_text import yaml_text
from messagestore_operator.manifests.yaml_tree import read_documents
from support.resources import smallest_stream

HOSTILE = "a\x1b[2J\x07\x7f\x9b31m\u202etxt\u2066\u200b\U000e0041é\r\nb"
"""Escape sequences of both kinds, DEL, changes of direction, invisible characters, line breaks."""
START = datetime(2026, 1, 5, tzinfo=UTC)
runner = CliRunner()


def shows_nothing_but_text(printed: str) -> bool:
    return all(line.replace("\t", " ").isprintable() for line in printed.split("\n"))


def hostile_message(payload: bytes, content_type: str | None = None) -> Message:
    return Message(
        message_id=HOSTILE,
        stream_name=HOSTILE,
        category=HOSTILE,
        status="RECEIVED",
        inserted_at=START,
        type=HOSTILE,
        position=0,
        global_position=1,
        time=START,
        payload=payload,
        content_type=content_type,
        metadata=json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False),
    )


PAYLOADS = [
    pytest.param(json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False).encode(), None, id="document"),
    pytest.param(HOSTILE.encode(), "text/plain", id="text"),
    pytest.param(b'{"a":1,\r\n\t"b":2}', None, id="white space"),
]


@pytest.mark.parametrize("form", list(Output))
@pytest.mark.parametrize(("payload", "content_type"), PAYLOADS)
def test_messages_have_no_escape_sequences_in_any_format(
    form: Output, payload: bytes, content_type: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    print_messages([hostile_message(payload, content_type)], form)
    print_more([hostile_message(payload, content_type)], form)
    assert shows_nothing_but_text(capsys.readouterr().out)


@pytest.mark.parametrize(("payload", "content_type"), PAYLOADS[:2])
def test_a_parser_reads_the_same_text(
    payload: bytes, content_type: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    given = hostile_message(payload, content_type)
    print_messages([given], Output.JSON)
    (from_json,) = json.loads(capsys.readouterr().out)
    print_messages([given], Output.YAML)
    (from_yaml,) = YAML(typ="safe").load(capsys.readouterr().out)["messages"]

    assert (from_json["messageId"], from_yaml["messageId"]) == (HOSTILE, HOSTILE)
    assert from_yaml["payload"] == payload.decode()
    assert from_json["payload"] == (payload.decode() if content_type else json.loads(payload))


def test_problems_of_manifests_are_one_plain_line_each(tmp_path: Path) -> None:
    manifest = smallest_stream()
    manifest["spec"][HOSTILE] = {HOSTILE: HOSTILE}
    manifest["spec"]["table"]["uri"] = HOSTILE
    file = tmp_path / "hostile\x1b[2J.yaml"
    file.write_text(json.dumps(manifest))

    for command in ("validate", "run"):
        result = runner.invoke(app, [command, "-f", str(file)])

        assert result.exit_code == 2
        assert shows_nothing_but_text(result.stderr)
        assert all(line.startswith((str(tmp_path), "warning: ")) for line in result.stderr.splitlines())


def test_errors_of_a_store_are_plain(tmp_path: Path) -> None:
    for command in ("get", "stats", "dead-letters", "repair"):
        result = runner.invoke(app, [command, str(tmp_path / HOSTILE)])

        assert result.exit_code == 1
        assert shows_nothing_but_text(result.stdout + result.stderr)


@pytest.mark.parametrize("kind", [PlainConsole, TerminalConsole])
def test_a_run_says_plain_lines(kind: type[PlainConsole | TerminalConsole]) -> None:
    stream = StringIO()
    console = kind(stream)
    console.say(HOSTILE)
    assert shows_nothing_but_text(stream.getvalue())
    assert r"\x9b31m" in stream.getvalue()


@pytest.mark.parametrize("text", ["y", "N", "yes", "No", "ON", "off", "true", "0100", "1_0", "~", ""])
def test_a_text_in_yaml_is_one_to_kubectl_too(text: str) -> None:
    (document,), problems = read_documents("printed", yaml_text({"ids": [text], text or "empty": text}))
    assert (document.data, problems) == ({"ids": [text], text or "empty": text}, [])
