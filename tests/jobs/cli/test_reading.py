"""The commands that read a store."""

import hashlib
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from messagestore_operator.cli.main import app
from support.stores import START, add_dead_letters, add_messages, make_store, message
from support.waiting import scaled

runner = CliRunner()
EXACT = b'{"a":1.10,"b":1E2}'


@pytest.fixture
def store(tmp_path: Path) -> str:
    rows = [
        message(1, stream_name="order-1", position=0, payload=EXACT, metadata='{"correlationStreamName":"cart-7"}'),
        message(2, stream_name="order-2", position=0, type="closed"),
        message(3, stream_name="order-1", position=1, type="closed", status="COMPLETED"),
        message(4, stream_name="cart-7", position=0),
    ]
    return make_store(tmp_path / "store", rows).uri


def run(*arguments: str) -> Result:
    return runner.invoke(app, list(arguments))


def found(*arguments: str) -> list[int]:
    result = run("get", *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return [record["globalPosition"] for record in json.loads(result.stdout)]


def test_get_prints_a_stream_as_a_table(store: str) -> None:
    result = run("get", store, "order-1")

    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["GLOBAL", "TIME", "STREAM", "POSITION", "TYPE", "STATUS", "PAYLOAD"],
        ["1", "2026-01-05T00:00:00Z", "order-1", "0", "created", "RECEIVED", EXACT.decode()],
        ["3", "2026-01-05T00:00:00Z", "order-1", "1", "closed", "COMPLETED", '{"n":3}'],
    ]


def test_get_takes_streams_categories_ids_and_all(store: str) -> None:
    assert found(store) == [1, 2, 3, 4]
    assert found(store, "order") == [1, 2, 3]
    assert found(store, "order-1", "--position", "1") == [3]
    assert found(store, "order", "-p", "2", "-n", "1") == [2]
    assert found(store, "order", "--correlation", "cart") == [1]
    assert found(store, "order-1", "--last", "--type", "created") == [1]
    assert found(store, "--id", "m4") == [4]
    group = ("--consumer-group-size", "2", "--consumer-group-member")
    assert sorted(found(store, "order", *group, "0") + found(store, "order", *group, "1")) == [1, 2, 3]


def test_json_has_payloads_as_their_own_text(store: str) -> None:
    assert b'"payload":' + EXACT in run("get", store, "--id", "m1", "-o", "json").stdout_bytes
    assert run("get", store, "order-9", "-o", "json").stdout == "[]\n"


def test_yaml_has_payloads_as_text(store: str) -> None:
    (shown,) = YAML(typ="safe").load(run("get", store, "--id", "m1", "-o", "yaml").stdout)["messages"]

    assert (shown["messageId"], shown["payload"]) == ("m1", EXACT.decode())


def test_wide_has_ids(store: str) -> None:
    assert " m2 " in run("get", store, "order-2", "-o", "wide").stdout


def test_nothing_found_is_said_on_standard_error(store: str) -> None:
    result = run("get", store, "order-9")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no messages\n")


def test_a_version_or_a_time_reads_the_past(store: str) -> None:
    at = datetime.now(UTC).isoformat()
    add_messages(store, [message(5, stream_name="order-1", position=2)])

    assert found(store, "order-1") == [1, 3, 5]
    assert found(store, "order-1", "--at", at) == [1, 3]
    assert found(store, "order-1", "--version", "0") == []


def test_what_can_not_be_read_is_said_and_exits_with_1(tmp_path: Path, store: str) -> None:
    missing = run("get", str(tmp_path / "nowhere"), "order-1")
    no_version = run("stats", store, "--version", "99")

    assert (missing.exit_code, no_version.exit_code) == (1, 1)
    assert missing.stderr == f"error: {tmp_path}/nowhere is no message store: there is no table messages in it\n"
    assert "has no version 99: its newest is 1" in no_version.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("order", "--last"), "--last takes a stream's NAME"),
        (("order-1", "--type", "closed"), "--type goes with --last"),
        (("order-1", "--correlation", "cart"), "take a category's NAME"),
        (("order-1", "--id", "m1"), "--id names one message"),
        (("order", "--consumer-group-member", "0"), "Consumer group member and size must be specified"),
        (("order", "--correlation", "cart-7"), "Correlation must be a category (Correlation: cart-7)"),
    ],
)
def test_arguments_that_do_not_go_together_exit_with_2(store: str, arguments: tuple[str, ...], words: str) -> None:
    result = run("get", store, *arguments)

    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_a_broken_message_is_told_and_the_others_are_printed(store: str) -> None:
    digest = hashlib.sha256(b"other").hexdigest()
    add_messages(store, [message(5, stream_name="order-1", position=2, payload_sha256=digest)])

    result = run("get", store, "order-1")

    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 3
    assert result.stderr.startswith("broken: message m5 (stream order-1, global position 5): its payload is not what")


def test_a_payload_can_not_control_the_terminal(store: str) -> None:
    add_messages(
        store,
        [message(5, stream_name="order-9", type="\x1b[2J", payload=b"\x1b[31mred\nnext", content_type="text/plain")],
    )

    text = run("get", store, "order-9").stdout

    assert "\x1b" not in text
    assert r"\x1b[31mred\nnext" in text
    assert len(text.splitlines()) == 2


def test_stats_count_the_store(store: str) -> None:
    add_dead_letters(store, [{"raw": b"x", "failed_at": START, "reason": "InvalidField"}])

    figures = json.loads(run("stats", store, "-o", "json").stdout)

    assert figures["messages"] == 4
    assert figures["statuses"] == {"COMPLETED": 1, "RECEIVED": 3}
    assert figures["deadLetters"] == {"InvalidField": 1}
    assert figures["totals"]["stored"] == 4
    assert [(c["category"], c["messages"], c["streams"]) for c in figures["categories"]] == [
        ("cart", 1, 1),
        ("order", 3, 2),
    ]
    table = run("stats", store).stdout
    assert "1 COMPLETED, 3 RECEIVED" in table
    assert YAML(typ="safe").load(run("stats", store, "-o", "yaml").stdout) == figures


def test_stats_of_an_empty_store(tmp_path: Path) -> None:
    result = run("stats", make_store(tmp_path / "store", []).uri)

    assert result.exit_code == 0
    assert "by status      none" in result.stdout


def test_dead_letters_say_when_why_and_where(store: str) -> None:
    add_dead_letters(
        store,
        [
            {"raw": b"{", "failed_at": START, "detail": "cut short"},
            {"raw": b"\xff", "failed_at": START, "reason": "InvalidField", "redriven_at": START, "redriven_by": "r"},
        ],
    )

    def reasons(*arguments: str) -> list[str]:
        return [letter["reason"] for letter in json.loads(run("dead-letters", store, "-o", "json", *arguments).stdout)]

    assert "Unparseable   file:///landing/a#None   cut short" in run("dead-letters", store, "--open").stdout
    assert sorted(reasons()) == ["InvalidField", "Unparseable"]
    assert reasons("--reason", "Unparseable") == reasons("--open") == ["Unparseable"]
    assert reasons("--redriven") == ["InvalidField"]
    shown = YAML(typ="safe").load(run("dead-letters", store, "-o", "yaml").stdout)["deadLetters"]
    assert {letter.get("raw") or letter["rawBase64"] for letter in shown} == {"{", "/w=="}
    assert run("dead-letters", store, "--reason", "FilterError").stderr == "no dead letters\n"
    refused = run("dead-letters", store, "--reason", "Nope")
    assert refused.exit_code == 2
    assert "no dead letter has reason Nope; reasons are Unparseable, MissingField," in refused.stderr


def test_tail_begins_with_the_newest(store: str) -> None:
    lines = run("tail", store, "order", "--no-follow", "-n", "2", "-o", "json").stdout.splitlines()

    assert [json.loads(line)["globalPosition"] for line in lines] == [2, 3]
    assert run("tail", store, "--no-follow", "-n", "0", "-o", "json").stdout == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_tail_goes_on_with_what_is_committed_until_a_signal_ends_it(store: str, number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from messagestore_operator.__main__ import main; main()"]
    options = ["tail", store, "order", "-n", "1", "--interval", "50ms", "-o", "json"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        try:
            assert json.loads(following.stdout.readline())["globalPosition"] == 3
            add_messages(store, [message(5, stream_name="cart-7", position=1)])
            add_messages(store, [message(6, stream_name="order-1", position=2)])
            assert json.loads(following.stdout.readline())["globalPosition"] == 6
            following.send_signal(number)
            assert following.wait(timeout=scaled(20)) == 0
        finally:
            following.kill()


def test_an_installation_without_the_library_says_what_to_install(store: str) -> None:
    script = "import sys; sys.modules['deltalake'] = None; from messagestore_operator.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "get", store], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == "error: deltalake is missing: pip install 'message-store-operator[library]'\n"


@pytest.mark.parametrize("command", ["get", "tail", "stats", "dead-letters"])
def test_help_says_what_a_command_prints(command: str) -> None:
    text = run(command, "--help").stdout

    assert "STORE" in text
    assert "Print" in text
