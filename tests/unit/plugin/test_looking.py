"""What is told of a resource, in every state that it may have, before the operator has seen it too."""

import io
import json
import re
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import pytest
import typer

from messagestore_operator.cli.output import print_drawn
from messagestore_operator.plugin.dead_letters import counted
from messagestore_operator.plugin.facts import failing, ready, runs
from messagestore_operator.plugin.find import STREAM, kind_of, missing, wanted_kind
from messagestore_operator.plugin.kubectl import Kubectl, KubectlError, error_of
from messagestore_operator.plugin.options import UserError, telling
from messagestore_operator.plugin.retention import holds_of, previews
from messagestore_operator.plugin.runs import logs, used
from messagestore_operator.plugin.status import claims, details, print_overview, tree
from support.resource_states import NOW, State, states

ALL = states()
each = pytest.mark.parametrize("state", ALL, ids=lambda state: state.title)
Document = dict[str, Any]


def state(title: str) -> Document:
    (found,) = [one.document for one in ALL if one.title == title]
    return json.loads(json.dumps(found))


def told(document: Document, capsys: pytest.CaptureFixture[str], *there: Document, found: Any = ()) -> str:
    print_drawn(tree(document, details(document, [document, *there], found), NOW))
    return capsys.readouterr().out


@each
def test_each_state_is_told_as_a_tree(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    printed = told(state.document, capsys)
    assert printed.startswith(f"{state.kind} messaging/")
    assert ready(state.document).message in printed
    assert "\x1b" not in printed
    json.dumps(details(state.document, [], None))


@each
def test_status_calls_a_resource_failing_where_argo_cd_shows_it_degraded(state: State) -> None:
    """The health that Argo CD shows, but for what is tried again by itself."""
    assert failing(state.document) or state.health != "Degraded"
    assert not failing(state.document) or state.health in ("Degraded", "Progressing")


def test_a_resource_without_a_status_is_reported_as_not_reconciled_yet(capsys: pytest.CaptureFixture[str]) -> None:
    for title in ("MessageStream-idle", "RetentionPolicy-purged", "ReplayJob-running"):
        document = state(title)
        del document["status"]
        assert "the operator has not looked at it yet" in told(document, capsys)
        assert (runs(document), previews(document), counted(document)) == ([], [], [])


def test_a_reason_has_its_meaning_and_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    document = state("MessageStream-stalled")
    document["status"]["conditions"][0] |= {"reason": "SecretMissing", "message": "there is no Secret lake-access"}
    printed = told(document, capsys)
    assert "A Secret that the resource names isn't in its namespace." in printed
    assert "Create the Secret, with label messagestore.dev/use" in printed


def test_a_reason_of_another_release_is_told_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    document = state("MessageStream-idle")
    document["status"]["conditions"][0] |= {"reason": "OfTomorrow"}
    assert "Ready True OfTomorrow" in told(document, capsys)


def test_control_characters_of_resources_never_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    document = state("MessageStream-failing")
    document["status"]["conditions"][0]["message"] = "red \x1b[31m [bold]text[/bold]\nline"
    printed = told(document, capsys)
    assert "\x1b" not in printed
    assert "[bold]text[/bold]\\nline" in printed


def test_a_stream_tells_who_uses_it(capsys: pytest.CaptureFixture[str]) -> None:
    printed = told(
        state("MessageStream-idle"), capsys, state("RetentionPolicy-awaiting-approval"), state("ReplayJob-running")
    )
    assert "policy orders-90-days: AwaitingApproval\n" in printed
    assert "replay orders-again: Running\n" in printed


def test_a_preview_that_is_approved_waits_for_its_run_and_for_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    document = state("RetentionPolicy-awaiting-approval")
    (preview,) = previews(document)
    assert not preview["approved"]
    assert "messages, waits for approval" in told(document, capsys)
    document["metadata"]["annotations"] = {"messagestore.dev/approved-preview": preview["id"]}
    (preview,) = previews(document)
    assert preview["approved"]
    assert "messages, approved" in told(document, capsys)


def test_resources_of_other_namespaces_use_other_streams(capsys: pytest.CaptureFixture[str]) -> None:
    policy = state("RetentionPolicy-awaiting-approval")
    policy["metadata"]["namespace"] = "shop"
    assert "used by" not in told(state("MessageStream-idle"), capsys, policy)


def test_an_overview_begins_with_those_that_need_somebody(capsys: pytest.CaptureFixture[str]) -> None:
    found = [state("MessageStream-idle"), state("ReplayJob-running"), state("MessageStream-stalled")]
    found[2]["metadata"]["name"] = "refunds"
    print_overview(found, NOW, wide=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["RESOURCE", "READY", "PHASE", "REASON", "SINCE", "MESSAGE"]
    assert lines[1].startswith("stream/refunds")
    assert "the folder holds something else" in lines[1]


def test_an_overview_of_several_namespaces_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = [state("MessageStream-idle"), state("MessageStream-idle")]
    found[1]["metadata"]["namespace"] = "shop"
    print_overview(found, NOW, wide=False)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.startswith("NAMESPACE")
    assert [line.split()[0] for line in lines] == ["messaging", "shop"]


def lease(table: str, holder: str | None, namespace: str = "messaging") -> Document:
    about = {"name": "messagestore-1", "annotations": {"messagestore.dev/table": f"{namespace}  {table}"}}
    return {"metadata": about, "spec": {"holderIdentity": holder} if holder else {}}


def test_a_run_that_is_launched_holds_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    document = state("MessageStream-running")
    mine = lease("s3a://lake/orders", "messaging/run-2")
    assert "holds table s3a://lake/orders" in told(document, capsys, found=[mine])
    others = [lease("s3a://lake/orders", "messaging/run-9"), lease("s3a://lake/orders", None)]
    assert claims(document, [document], others) == []


def test_a_run_that_waits_tells_who_has_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    document = state("MessageStream-running")
    del document["status"]["currentRun"]["launchedAt"]
    document["spec"]["table"]["uri"] = "s3://lake/orders/"
    others = [
        lease("s3a://lake/orders", "messaging/purge-9"),
        lease("s3a://lake/orders", "shop/purge-1", "shop"),
        lease("s3a://lake/other", "messaging/purge-2"),
    ]
    printed = told(document, capsys, found=others)
    assert "waits for table s3a://lake/orders, which run messaging/purge-9 has" in printed
    assert "purge-1" not in printed
    assert "purge-2" not in printed


def test_runs_are_listed_once_those_in_progress_first() -> None:
    document = state("MessageStream-running")
    document["status"]["recentRuns"].append({"name": "run-0", "state": "Failed", "finishedAt": "2026-01-04T00:00:00Z"})
    assert [(run.run, run.current) for run in runs(document)] == [("run-2", True), ("run-1", False), ("run-0", False)]


def test_a_policy_lists_the_runs_of_its_streams() -> None:
    (run,) = runs(state("RetentionPolicy-purged"))
    assert (run.run, run.stream, run.task, run.state) == ("run-1", "orders", "purge", "Succeeded")


def test_a_cost_counts_what_was_measured() -> None:
    document = state("MessageStream-running")
    document["status"]["recentRuns"] = [
        {"name": "run-1", "state": "Succeeded", "cpuSeconds": 36.0, "bytesWritten": 1024},
        {"name": "run-0", "state": "Succeeded"},
    ]
    del document["status"]["lastRun"]
    found = used(document, 0.04048)
    assert (found["runs"], found["measured"], found["cpuSeconds"], found["bytesWritten"]) == (3, 1, 36.0, 1024)
    assert found["cpuDollars"] == pytest.approx(0.000405)


def test_dead_letters_are_counted_by_reason_the_rest_together() -> None:
    document = state("MessageStream-idle")
    table = document["status"]["table"]
    assert [(one["reason"], one["count"]) for one in counted(document)] == [("not counted by reason yet", 1)]
    table |= {"deadLetters": 5, "deadLettersByReason": [{"reason": "Unparseable", "count": 3}]}
    found = counted(document)
    assert [(one["reason"], one["count"]) for one in found] == [("Unparseable", 3), ("others", 2)]
    assert found[0]["source"] == "s3a://landing/orders/"


def test_holds_say_whether_they_still_hold() -> None:
    document = state("MessageStream-idle")
    ended, later = (NOW - timedelta(days=1)).isoformat(), (NOW + timedelta(days=1)).isoformat()
    document["spec"]["holds"] = [
        {"name": "audit", "match": {"categories": ["invoice"], "types": []}},
        {"name": "case-1", "until": ended},
        {"name": "case-2", "until": later},
    ]
    found = holds_of(document, NOW)
    assert [(one["name"], one["state"]) for one in found] == [
        ("audit", "holds"),
        ("case-1", "ended"),
        ("case-2", "holds"),
    ]
    assert found[0]["match"] == {"categories": ["invoice"]}


@pytest.mark.parametrize("text", ["stream", "Streams", "mst", "MessageStream", "messagestreams.messagestore.dev"])
def test_a_kind_is_known_by_all_its_names(text: str) -> None:
    assert kind_of(text) == "MessageStream"


def test_a_kind_or_name_that_is_not_there_has_a_likely_one() -> None:
    with pytest.raises(UserError, match='no such kind: polcy; did you mean "policy"'):
        kind_of("polcy")
    payments, everywhere = Kubectl("payments"), Kubectl("payments", everywhere=True)
    said = str(missing(payments, "MessageStream", "ordres", ["orders", "refunds"]))
    assert said == 'no such stream "ordres" in namespace payments; did you mean "orders"?'
    assert str(missing(payments, "ReplayJob", "x", ["orders"])) == 'no such replay "x" in namespace payments'
    assert str(missing(everywhere, "ReplayJob", "x", [])) == 'no such replay "x" in any namespace'


@pytest.mark.parametrize(
    ("denied", "role"),
    [
        ('cannot get resource "messagestreams" in API group', "…-look"),
        ('cannot get resource "pods/log" in API group ""', "…-look"),
        ('cannot patch resource "replayjobs" in API group', "…-act"),
        ('cannot patch resource "retentionpolicies" in API group', "…-act, or to approve …-approve"),
    ],
)
def test_a_refusal_says_which_role_is_missing(capsys: pytest.CaptureFixture[str], denied: str, role: str) -> None:
    with pytest.raises(typer.Exit), telling():
        raise KubectlError("Forbidden", f'things are forbidden: User "ann" {denied}')
    assert capsys.readouterr().err.replace("\n", " ").strip().endswith(f"that takes ClusterRole {role}")


@pytest.mark.parametrize(
    ("said", "reason", "message"),
    [
        ('Error from server (NotFound): messagestreams "a" not found\n', "NotFound", 'messagestreams "a" not found'),
        ('Error from server (Forbidden): error when creating "STDIN": no', "Forbidden", "no"),
        ("E1128 11:00:00 1 memcache.go:265] x\nThe connection was refused\n", "", "The connection was refused"),
        ("error: context was not found", "", "context was not found"),
        ("", "", "kubectl failed and said nothing"),
    ],
)
def test_errors_of_kubectl_are_told_in_its_words(said: str, reason: str, message: str) -> None:
    error = error_of(said)
    assert (error.reason, str(error)) == (reason, message)


def test_a_narrow_terminal_gets_whole_words_in_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    document = state("RetentionPolicy-awaiting-approval")
    print_drawn(tree(document, details(document, [document], None), NOW))
    printed = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert printed != screen.getvalue()
    assert all(len(line) <= 40 for line in printed.splitlines())
    assert "AwaitingApproval" in printed


def test_a_name_without_a_kind_is_refused() -> None:
    assert (wanted_kind("streams", "orders"), wanted_kind("all", None), wanted_kind(None, None)) == (STREAM, None, None)
    with pytest.raises(UserError, match="also give its kind"):
        wanted_kind("all", "orders")


class Logs(Kubectl):
    """A cluster that has the pods of some runs."""

    left: tuple[str, ...] = ()

    def get(self, plural: str, name: str) -> Document:
        own = {"name": "orders-ingest-3", "launchedAt": "2026-01-05T11:00:00Z"}
        ended = [{"name": f"orders-ingest-{n}", "finishedAt": f"2026-01-05T1{n - 1}:00:00Z"} for n in (1, 2)]
        status = {"currentRun": own, "recentRuns": ended}
        return {"kind": "MessageStream", "metadata": {"name": "orders", "namespace": "shop"}, "status": status}

    def lines(self, *arguments: str, stdin: str | None = None) -> Generator[str]:
        if arguments[1] not in self.left:
            raise KubectlError("NotFound", "pods not found")
        yield f"log of {arguments[1]}"


@pytest.mark.parametrize(
    ("left", "shown"),
    [
        (("orders-ingest-3-driver", "orders-ingest-2-driver"), "log of orders-ingest-3-driver\n"),
        (("orders-ingest-2-driver",), "log of orders-ingest-2-driver\n"),
    ],
)
def test_the_log_of_the_last_run_is_shown_while_the_current_one_has_no_driver(
    left: tuple[str, ...], shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Logs, "left", left)
    print_logs(Logs("shop"))
    assert capsys.readouterr().out == shown


def test_without_any_pod_each_that_was_looked_for_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="no log is left"):
        print_logs(Logs("shop"))
    assert [line.split()[3] for line in capsys.readouterr().err.splitlines()] == [
        *("orders-ingest-3-driver", "orders-ingest-2-driver")
    ]


def print_logs(kubectl: Kubectl) -> None:
    logs.__wrapped__(kubectl, "stream", "orders", follow=False, run=None, tail=-1)
