"""What is decided before a change is sent."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from messagestore_operator.api import RetentionPolicy, parse_resource
from messagestore_operator.cli.main import app as messagestore
from messagestore_operator.cli.retention_for import removal
from messagestore_operator.plugin.act import redrive_of
from messagestore_operator.plugin.main import app as plugin
from messagestore_operator.plugin.options import UserError, ask
from messagestore_operator.plugin.removal import approval, waiting
from messagestore_operator.plugin.replay import rate_of, reset_value


def preview(stream: str, number: str, *, waits: bool = True, approved: bool = False) -> dict[str, Any]:
    return {"stream": stream, "id": number, "awaitingApproval": waits, "approved": approved}


@pytest.mark.parametrize(
    ("others", "number"),
    [
        ([preview("refunds", "b", waits=False)], None),
        ([preview("refunds", "b", approved=True)], None),
        ([preview("refunds", "8c2e")], "8c1"),
        ([preview("refunds", "8c2e")], "8c1f"),
    ],
)
def test_the_only_waiting_preview_of_those_meant_is_approved(others: list[dict[str, Any]], number: str | None) -> None:
    assert waiting([*others, preview("orders", "8c1f")], "old", None, number)["stream"] == "orders"


@pytest.mark.parametrize(
    ("found", "stream", "number", "words"),
    [
        ([], None, None, "no preview of policy old waits for approval"),
        ([preview("orders", "a", waits=False)], None, None, "no preview of policy old waits"),
        (
            [preview("orders", "a"), preview("refunds", "b")],
            None,
            None,
            "choose one by --stream or --preview: a of stream orders, b",
        ),
        (
            [preview("orders", "8c1f"), preview("refunds", "8c2e"), preview("returns", "9d20")],
            None,
            "8c",
            "begin with 8c, give more of the id: 8c1f of stream orders, 8c2e of stream refunds$",
        ),
        ([preview("orders", "8c1f")], None, "", "what waits: 8c1f of stream orders"),
        ([preview("orders", "a")], None, "b", "what waits: a of stream orders"),
        ([preview("orders", "a")], "refunds", None, "what waits: a of stream orders"),
    ],
)
def test_one_of_several_previews_is_not_approved_without_being_named(
    found: list[dict[str, Any]], stream: str | None, number: str | None, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        waiting(found, "old", stream, number)


def policy(approved: str, by: str | None, *streams: dict[str, Any]) -> dict[str, Any]:
    given = {"messagestore.dev/approved-preview": approved, "messagestore.dev/approved-by": by}
    return {"metadata": {"annotations": given}, "status": {"streams": list(streams)}}


def of_stream(name: str, number: str, *, waits: bool = True) -> dict[str, Any]:
    return {"name": name, "awaitingApproval": waits, "preview": {"id": number}}


def test_an_approval_keeps_the_own_ones_that_wait_for_their_runs_and_no_others() -> None:
    found = policy(
        "a, c,outdated", "vera", of_stream("orders", "a"), of_stream("refunds", "b"), of_stream("x", "c", waits=False)
    )
    assert approval(found, "b", "vera") == {
        "messagestore.dev/approved-preview": "a,b",
        "messagestore.dev/approved-by": "vera",
    }
    # Once more, it stays.
    assert approval(found, "a", "vera")["messagestore.dev/approved-preview"] == "a"


@pytest.mark.parametrize("by", ["walt", None])
def test_nobody_approves_what_another_has_approved_by_the_way(by: str | None) -> None:
    found = policy("a", by, of_stream("orders", "a"), of_stream("refunds", "b"))
    with pytest.raises(UserError, match=f"{by or 'somebody'} has approved a of stream orders, whose run has not ended"):
        approval(found, "b", "vera")
    assert approval(found, "a", "vera")["messagestore.dev/approved-by"] == "vera"
    assert approval({"metadata": {}}, "b", "vera")["messagestore.dev/approved-preview"] == "b"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_person_is_asked_and_may_say_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    ask("Delete it?", yes=False)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    with pytest.raises(typer.Abort):
        ask("Delete it?", yes=False)
    ask("Delete it?", yes=True)


def test_a_script_that_gives_no_yes_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UserError, match=r"Delete it\? Nobody is there to ask: give --yes"):
        ask("Delete it?", yes=False)


def test_a_redrive_of_a_stream_with_a_long_dotted_name_has_a_name_that_kubernetes_accepts() -> None:
    stream = "a" * 39 + ".b"

    name = redrive_of(stream, [], None, datetime(2026, 1, 2, tzinfo=UTC))["metadata"]["name"]

    assert name == "a" * 39 + "-redrive-20260102-000000"


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "fast", "9" * 5000, "\u0663"])
def test_a_rate_is_a_number_that_the_operator_reads(text: str) -> None:
    with pytest.raises(UserError, match="the rate is a number of messages a second, or none"):
        rate_of(text)
    assert (rate_of("none"), rate_of("12")) == (None, {"messagesPerSecond": 12})


@pytest.mark.parametrize("to", ["9" * 16, "9" * 5000, "\u0663", "2026-01-05"])
@pytest.mark.parametrize("destination", [None, "eu"])
def test_a_cursor_is_moved_only_to_what_the_operator_reads(to: str, destination: str | None) -> None:
    replay = {"metadata": {"name": "on"}, "spec": {"start": {"at": "Now"}, "destinations": [{"name": "eu"}]}}
    with pytest.raises(UserError, match="is not Beginning, Now or a position, so it must be a time by RFC 3339"):
        reset_value(replay, to, destination)
    assert reset_value(replay, "7", destination) == ("7" if destination is None else '{"eu": 7}')


@pytest.mark.parametrize(
    ("before", "handled", "destination", "value"),
    [
        ("4711", "4711", "eu", None),
        ('{"eu": 4711}', '{"eu": 4711}', None, None),
        ('{"eu": 4711}', '{"eu": 4711}', "us", {"eu": 4711, "us": 4711}),
        ('{"eu": 7, "gone": 8}', '{"eu": 7, "gone": 8}', "eu", {"eu": 4711}),
        ("Beginning", "", "eu", {"eu": 4711, "us": "Beginning"}),
        ("Beginning", "Beginning", "eu", {"eu": 4711}),
        ("", "4711", None, None),
    ],
)
def test_a_reset_by_name_keeps_what_waits_and_is_refused_where_nothing_would_move(
    before: str, handled: str, destination: str | None, value: dict[str, Any] | None
) -> None:
    replay = {
        "metadata": {"name": "on", "annotations": {"messagestore.dev/reset-to": before}},
        "spec": {"start": {"at": "Now"}, "destinations": [{"name": "eu"}, {"name": "us"}]},
        "status": {"lastHandledReset": handled},
    }
    if value is None:
        with pytest.raises(UserError, match="last: remove annotation"):
            reset_value(replay, "4711", destination)
    else:
        assert json.loads(reset_value(replay, "4711", destination)) == value


def test_ids_that_no_single_rule_holds_are_given_to_several() -> None:
    ids = [f"m{number}" for number in range(2001)]
    policy = parse_resource(removal("default", "orders", ids, erase=True))
    assert isinstance(policy, RetentionPolicy)
    rules = policy.spec.rules
    assert [(rule.name, len(rule.match.message_ids), rule.erase) for rule in rules if rule.match] == [
        ("chosen", 1000, True),
        ("chosen-2", 1000, True),
        ("chosen-3", 1, True),
    ]
    assert [one for rule in rules if rule.match for one in rule.match.message_ids] == ids


@pytest.mark.parametrize("ids", [["m"] * 64_001, ["m" * 500] * 1_900])
@pytest.mark.parametrize("command", ["retention-for", "delete"])
def test_more_ids_than_a_policy_and_its_runs_hold_are_refused_before_anything_is_asked(
    command: str, ids: list[str]
) -> None:
    app = messagestore if command == "retention-for" else plugin
    result = CliRunner().invoke(app, [command, "/nowhere", *ids], env={"PATH": ""})
    assert result.exit_code == 2
    assert "make several policies" in " ".join(result.output.split())
