"""The commands that read a store."""

import hashlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from errno import EACCES
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from messagestore_core.bounds import LAST_MOMENT
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.schemas import AUDIT, FILES, OFFSETS
from messagestore_operator.cli import tail
from messagestore_operator.cli.interrupts import InterruptedRunError
from messagestore_operator.cli.main import app
from support.stores import (
    START,
    Row,
    add_dead_letters,
    add_history,
    add_messages,
    add_rows,
    make_store,
    message,
    stored,
)
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
    before = run("get", store, "--at", "2026-01-05T00:00:00Z").stderr
    assert re.search(r"has no version of 2026-01-05T00:00:00Z: its first is of \S+Z$", before)


def test_what_can_not_be_read_is_said_and_exits_with_1(tmp_path: Path, store: str) -> None:
    missing = run("get", str(tmp_path / "nowhere"), "order-1")
    no_version = run("stats", store, "--version", "99")

    assert (missing.exit_code, no_version.exit_code) == (1, 1)
    assert missing.stderr == f"error: {tmp_path}/nowhere is no message store: there is no table messages in it\n"
    assert "has no version 99: its newest is 1" in no_version.stderr


def test_a_folder_that_may_not_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> Iterator[Path]:
        raise PermissionError(EACCES, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    refused = run("get", str(tmp_path / "store"), "order-1")
    words = f"{tmp_path}/store can't be read: Permission denied: {tmp_path}/store/messages/_delta_log\n"
    assert (refused.exit_code, refused.stderr) == (1, f"error: {words}")


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

    table = run("dead-letters", store).stdout.splitlines()
    assert [" ".join(line.split()[1:]) for line in table] == [
        "REASON REDRIVEN SOURCE DETAIL",
        "InvalidField 2026-01-05T00:00:00Z file:///landing/a#None",
        "Unparseable file:///landing/a#None cut short",
    ]
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
        try:
            assert json.loads(following.stdout.readline())["globalPosition"] == 3
            add_messages(store, [message(5, stream_name="cart-7", position=1)])
            add_messages(store, [message(6, stream_name="order-1", position=2)])
            assert json.loads(following.stdout.readline())["globalPosition"] == 6
            following.send_signal(number)
            assert following.wait(timeout=scaled(20)) == 0
        finally:
            following.kill()


def test_tail_names_broken_messages_once_and_goes_on_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(first: int, last: int) -> list[Row]:
        return [message(number, payload_sha256="0" * 64) for number in range(first, last + 1)]

    uri = make_store(tmp_path / "store", [message(1), *broken(2, 3)]).uri
    commits = iter([broken(4, 1004), [message(1005), *broken(1006, 1006)], [message(1007)]])

    def commit(_: float) -> None:
        rows = next(commits, None)
        if rows is None:
            raise InterruptedRunError(signal.SIGINT)
        add_messages(uri, rows)

    # Threads of other tests sleep, too.
    monkeypatch.setattr(tail, "time", SimpleNamespace(sleep=commit))
    result = run("tail", uri, "-n", "1", "-o", "json")

    assert [json.loads(line)["globalPosition"] for line in result.stdout.splitlines()] == [1, 1005, 1007]
    named = re.findall(r"^broken: .*\bm(\d+)\b", result.stderr, re.MULTILINE)
    assert named == list(map(str, [3, 2, *range(4, 1005), 1006]))
    assert result.exit_code == 1


@pytest.mark.parametrize("command", ["get", "verify", "repair", "init"])
def test_an_installation_without_the_library_says_what_to_install(store: str, command: str) -> None:
    script = "import sys; sys.modules['deltalake'] = None; from messagestore_operator.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script, command, store], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == "error: deltalake is missing; in a clone of the project: pip install '.[library]'\n"


@pytest.mark.parametrize("command", ["get", "tail", "stats", "dead-letters"])
def test_help_says_what_a_command_prints(command: str) -> None:
    text = run(command, "--help").stdout

    assert "STORE" in text
    assert "Print" in text


@pytest.fixture
def failed(tmp_path: Path) -> str:
    rows = [
        message(n, status="FAILED" if n > 1 else "COMPLETED", error="it's a time-out", causation_id=f"m{n - 1}")
        for n in range(1, 6)
    ]
    return make_store(tmp_path / "failed", rows).uri


def test_messages_are_shown_by_state_page_by_page_without_payloads(failed: str) -> None:
    first = run("messages", failed, "--status", "FAILED", "--error", "it's a", "-n", "3")
    rest = run("messages", failed, "--status", "FAILED", "-n", "3", "--position", "2")

    assert [line.split()[0] for line in first.stdout.splitlines()] == ["GLOBAL", "5", "4", "3"]
    assert first.stderr == "more: --position 2\n"
    assert [line.split()[0] for line in rest.stdout.splitlines()] == ["GLOBAL", "2"]
    assert rest.stderr == ""
    assert '{"n"' not in first.stdout


def test_no_page_is_said_to_follow_the_first_message(failed: str) -> None:
    page = run("messages", failed, "-n", "2", "--position", "2")
    assert [line.split()[0] for line in page.stdout.splitlines()] == ["GLOBAL", "2", "1"]
    assert page.stderr == ""


def test_messages_as_json_have_payloads_if_they_are_asked_for(failed: str) -> None:
    bare, whole = (json.loads(run("messages", failed, "-o", "json", *more).stdout) for more in ((), ("--payloads",)))

    assert [one.get("payload") for one in bare] == [None] * 5
    assert [one["payload"] for one in whole] == [{"n": n} for n in range(5, 0, -1)]


def test_messages_are_chosen_by_a_condition(store: str) -> None:
    assert found(store, "order", "--where", "json(payload, '$.n') > 1 AND type = 'closed'") == [2, 3]
    assert found(store, "order-1", "--where", "status = 'COMPLETED'") == [3]
    assert found(store, "--where", "category = 'cart'") == [4]


def test_a_chain_is_shown_from_its_beginning(failed: str) -> None:
    chain = run("messages", failed, "--caused-by", "m2")

    assert [line.split()[0] for line in chain.stdout.splitlines()] == ["GLOBAL", "3", "4", "5"]
    assert run("messages", failed, "--caused-by", "nobody").stderr == "no messages\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("messages", "--status", "LOST"), "LOST is no status"),
        (("messages", "--where", "true) OR (true", "--error", "x"), "where: `)` at character 5"),
        (("messages", "--caused-by", "m1", "--status", "FAILED"), "leave other conditions out"),
        (("get", "--where", "now() > time"), "where: `now()` at character 1: reads the clock"),
        (("get", "--where", "true", "--id", "m1"), "--where goes with neither --id nor --last"),
    ],
)
def test_a_condition_that_is_wrong_says_why(failed: str, arguments: tuple[str, ...], why: str) -> None:
    command, *options = arguments
    result = run(command, failed, *options)

    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr


def test_an_outcome_is_told_by_exit_code_too(store: str) -> None:
    add_dead_letters(store, [{"failed_at": START, "raw": b"x", "message_id": "lost", "detail": "why"}])

    stored, aside, unseen = (run("outcome", store, one) for one in ("m2", "lost", "nobody"))

    assert (stored.exit_code, aside.exit_code, unseen.exit_code) == (0, 3, 6)
    assert " ".join(stored.stdout.splitlines()[1].split()) == "Stored position 0, globalPosition 2, status RECEIVED"
    assert "reason Unparseable, detail why, failedAt 2026-01-05T00:00:00Z" in aside.stdout
    assert json.loads(run("outcome", store, "nobody", "-o", "json", "--wait", "10ms").stdout) == [
        {"outcome": "NotSeen"}
    ]
    assert run("outcome", "/nowhere", "m1").exit_code == 1


@pytest.mark.parametrize("command", ["outcome", "history"])
def test_an_id_that_is_too_long_to_be_kept_is_not_said_to_be_unseen(store: str, command: str) -> None:
    result = run(command, store, "é" * 513)

    why = "the id has more than 1024 bytes: a record of it is a dead letter, InvalidField, without the id"
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"error: {why}")
    add_dead_letters(store, [{"failed_at": START, "raw": b"x", "message_id": "/shop#" + "n" * 1024}])
    assert run("outcome", store, "/shop#" + "n" * 1024).exit_code == 3


def test_the_history_of_a_message_is_shown_in_order(store: str) -> None:
    changed = [row for row in stored(store) if row["message_id"] == "m2"]
    add_history(store, changed, ("updates", 1), to_status="PROCESSING")
    add_history(store, changed, ("updates", 2), from_status="PROCESSING", error="why", next_retry_at=START)

    shown = run("history", store, "m2")

    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["AT", "ATTEMPT", "FROM", "TO", "NEXT", "RETRY", "ERROR"],
        ["2026-01-05T00:00:00Z", "1", "RECEIVED", "PROCESSING"],
        ["2026-01-05T00:00:00Z", "1", "PROCESSING", "FAILED", "2026-01-05T00:00:00Z", "why"],
    ]
    assert json.loads(run("history", store, "m2", "-o", "json").stdout)[1] == {
        "messageId": "m2",
        "globalPosition": 2,
        "at": "2026-01-05T00:00:00Z",
        "attempt": 1,
        "fromStatus": "PROCESSING",
        "toStatus": "FAILED",
        "nextRetryAt": "2026-01-05T00:00:00Z",
        "error": "why",
        "run": "run-1",
    }
    assert "run-1" in run("history", store, "m2", "-o", "wide").stdout
    assert run("history", store, "m2", "-o", "yaml").stdout.startswith("history:\n- messageId: m2\n")


def test_a_message_without_history_is_told_by_exit_code(store: str) -> None:
    unchanged, unseen = (run("history", store, one) for one in ("m2", "nobody"))

    assert (unchanged.exit_code, unchanged.stderr) == (0, "no changes\n")
    assert (unseen.exit_code, unseen.stderr) == (6, "no changes\n")
    assert json.loads(run("history", store, "nobody", "-o", "json").stdout) == []
    assert run("history", "/nowhere", "m2").exit_code == 1


def test_stats_count_by_parts(store: str) -> None:
    shown = run("stats", store, "--by", "type,category")

    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["TYPE", "CATEGORY", "MESSAGES", "PERCENT"],
        ["closed", "order", "2", "50.00"],
        ["created", "cart", "1", "25.00"],
        ["created", "order", "1", "25.00"],
    ]
    assert json.loads(run("stats", store, "--by", "category", "-o", "json").stdout)["summary"][0] == {
        "category": "cart",
        "messages": 1,
        "percent": 25.0,
    }
    assert run("stats", store, "--by", "colour").exit_code == 2


def test_stats_tell_the_time_between_two_messages_of_a_correlation(tmp_path: Path) -> None:
    asked = {"a": 0, "b": 0, "c": 10, "d": 10, "e": 2, None: 0}
    answered = [("a", 3), ("a", 60), ("b", 5), ("c", 17), ("d", 4)]
    sent = [("Asked", *one) for one in asked.items()] + [("Answered", *one) for one in answered]
    rows = [
        message(number, type=kind, correlation_id=correlation, time=START + timedelta(seconds=second))
        for number, (kind, correlation, second) in enumerate(sent, 1)
    ]
    uri = make_store(tmp_path / "out", rows).uri

    shown = run("stats", uri, "--between", "Asked,Answered")
    assert [" ".join(line.split()) for line in shown.stdout.splitlines()] == [
        "CORRELATIONS OPEN SHORTEST MEDIAN P95 LONGEST",
        "3 2 3 s 5 s 7 s 7 s",
    ]
    later = run("stats", uri, "--between", "Asked,Answered", "--since", "2026-01-05T00:00:02Z", "-o", "json")
    assert json.loads(later.stdout) == {
        "correlations": 1,
        "open": 2,
        "seconds": {"shortest": 7.0, "median": 7.0, "p95": 7.0, "longest": 7.0},
    }
    none = json.loads(run("stats", uri, "--between", "Answered,Nothing", "-o", "json").stdout)
    assert (none["correlations"], none["open"], none["seconds"]["median"]) == (0, 4, None)
    assert run("stats", uri, "--between", "Asked").exit_code == 2
    alone = run("stats", uri, "--since", "2026-01-05T00:00:02Z")
    assert (alone.exit_code, alone.stderr) == (2, "error: --since needs --between\n")


def test_the_audit_is_shown(store: str) -> None:
    row = {"at": START, "action": "Purge", "run": "p", "actor": "RetentionPolicy/a/b", "counts": [("removed", 2)]}
    add_rows(HeldStore(store), "audit", pa.Table.from_pylist([row], AUDIT))

    assert " ".join(run("audit", store).stdout.splitlines()[1].split()) == (
        "2026-01-05T00:00:00Z Purge RetentionPolicy/a/b 2 removed"
    )
    assert json.loads(run("audit", store, "-o", "json").stdout)[0]["counts"] == {"removed": 2}
    assert run("audit", store, "--action", "Erase").stderr == "no rows\n"
    typo = run("audit", store, "--action", "purge")
    assert (typo.exit_code, typo.stderr.partition(";")[0]) == (2, "error: no row is of purge")


@pytest.mark.parametrize("command", ["audit", "dead-letters", "messages", "get"])
def test_a_maximum_of_any_size_is_no_limit(store: str, command: str) -> None:
    result = run(command, store, "-n", str(10**30))
    assert result.exit_code == 0, result.stderr


def test_retry_writes_an_update_for_each_message(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "out", [message(n, status="FAILED") for n in (1, 2)]).uri

    result = run("retry", uri, "m1", "m2", "--updates", str(tmp_path / "updates"))

    assert (result.exit_code, result.stdout) == (0, "2 updates written; the stream's next run reads them\n")
    (file,) = (tmp_path / "updates").iterdir()
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(one["messageId"], one["status"]) for one in records] == [("m1", "RETRY"), ("m2", "RETRY")]


def test_retry_writes_nothing_if_a_message_would_not_change(tmp_path: Path) -> None:
    due = message(3, status="FAILED", next_retry_at=START)
    paused = message(4, status="FAILED", next_retry_at=LAST_MOMENT)
    uri = make_store(tmp_path / "out", [message(1, status="FAILED"), message(2), due, paused]).uri
    updates = tmp_path / "updates"
    not_failed = "error: m2: its status is RECEIVED, only a message that has failed is tried again"
    unknown = "error: m5: there is no such message"

    for command, wrong in (
        ("retry", ["error: m3: it is due at 2026-01-05T00:00:00Z already"]),
        ("pause", ["error: m1: it is out of retries, and waits for none", "error: m4: it is paused already"]),
        ("resume", ["error: m1: it is not paused", "error: m3: it is not paused"]),
    ):
        result = run(command, uri, "m1", "m2", "m3", "m4", "m5", "--updates", str(updates))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.splitlines() == sorted([*wrong, not_failed, unknown])
    assert not updates.exists()


def test_an_update_is_written_once_for_an_id_that_is_given_twice(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "out", [message(1, status="FAILED")]).uri

    result = run("retry", uri, "m1", "m1", "--updates", str(tmp_path / "updates"))

    assert result.stdout == "1 update written; the stream's next run reads it\n"
    (file,) = (tmp_path / "updates").iterdir()
    assert len(file.read_text().splitlines()) == 1


def test_a_folder_that_can_not_be_written_is_told_without_pythons_words(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "out", [message(1, status="FAILED")]).uri
    (tmp_path / "file").touch()

    result = run("retry", uri, "m1", "--updates", f"{tmp_path}/file")

    why = f"error: {tmp_path}/file can't be written: File exists: {tmp_path}/file"
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, why)


def test_a_folder_that_no_updates_were_read_from_is_warned_of(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "out", [message(n, status="FAILED") for n in (1, 2, 3)]).uri
    updates, typo = str(tmp_path / "updates"), str(tmp_path / "update")
    asked = "is it spec.lifecycle.source.files.uri?"

    def warned(message_id: str, folder: str) -> str:
        result = run("retry", uri, message_id, "--updates", folder)
        assert result.exit_code == 0
        return result.stderr

    assert warned("m1", updates) == f"warning: no run has read updates from {updates} yet; {asked}\n"
    note_updates(uri, FILES, uri=f"file://{updates}/a.jsonl", size=1, modified_at=START)
    assert warned("m2", updates) == ""
    last = f"the last were from file://{updates}/a.jsonl"
    assert warned("m2", typo) == f"warning: no run has read updates from {typo} yet, {last}; {asked}\n"
    note_updates(uri, OFFSETS, at=START + timedelta(hours=1), topic="status", topic_id="i", partition=0, latest=1)
    assert "yet, the last were from topic status;" in warned("m3", updates)


def note_updates(store: str, schema: pa.Schema, **of: object) -> None:
    """Note that a batch of status updates was planned."""
    row = {"source_id": "updates-1", "batch": 1, "at": START, "start": 0, "end": 1, **of}
    add_rows(HeldStore(store), "files" if schema is FILES else "offsets", pa.Table.from_pylist([row], schema))


def test_the_paused_are_listed(tmp_path: Path) -> None:
    due = message(1, status="FAILED", next_retry_at=START)
    paused = message(2, status="FAILED", next_retry_at=LAST_MOMENT)
    uri = make_store(tmp_path / "out", [due, paused]).uri

    result = run("messages", uri, "--where", "next_retry_at > TIMESTAMP '9000-01-01T00:00:00Z'")

    assert result.exit_code == 0, result.stderr
    assert [line.split()[2] for line in result.stdout.splitlines()[1:]] == ["m2"]


def test_a_message_is_paused_resumed_and_tried_at_a_time(tmp_path: Path) -> None:
    due = message(3, status="FAILED", next_retry_at=START)
    paused = message(4, status="FAILED", next_retry_at=LAST_MOMENT)
    uri = make_store(tmp_path / "out", [due, paused]).uri
    updates = ("--updates", str(tmp_path / "updates"))

    for arguments in (
        ("retry", uri, "m3", "m4", "--at", "2999-02-01T00:00:00Z"),
        ("pause", uri, "m3"),
        ("resume", uri, "m4"),
    ):
        assert run(*arguments, *updates).exit_code == 0
    records = [json.loads(line) for file in (tmp_path / "updates").iterdir() for line in file.read_text().splitlines()]
    assert sorted((one["status"], one["messageId"]) for one in records) == [
        ("PAUSE", "m3"),
        ("RESUME", "m4"),
        ("RETRY", "m3"),
        ("RETRY", "m4"),
    ]
    assert {one["time"] for one in records if one["status"] == "RETRY"} == {"2999-02-01T00:00:00Z"}


def test_a_policy_for_single_messages_is_valid_and_waits_for_approval(store: str, tmp_path: Path) -> None:
    policy = run("retention-for", store, "m1", "m2", "--erase")
    manifest = YAML(typ="safe").load(policy.stdout)

    assert policy.exit_code == 0
    assert (manifest["spec"]["approval"], manifest["spec"]["streamRefs"]) == ("Required", [{"name": "orders"}])
    assert manifest["spec"]["rules"][0]["match"]["messageIds"] == ["m1", "m2"]
    (tmp_path / "policy.yaml").write_text(policy.stdout)
    assert run("validate", "-f", str(tmp_path / "policy.yaml")).exit_code == 0
    assert run("retention-for", store, "m9").stderr == "error: m9: there is no such message\n"
