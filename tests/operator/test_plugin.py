"""``kubectl messagestore`` on a real API server, by a real kubectl; no operator runs, the test writes the statuses."""

import json
from collections.abc import Iterator

import pytest
from ruamel.yaml import YAML

from support.apiserver import ApiServer
from support.plugins import Plugin, plugin_for

AT = "2026-01-05T08:20:00Z"


def ready(status: str, reason: str, message: str) -> list[dict[str, str]]:
    given = {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": AT}
    return [given]


@pytest.fixture(scope="module")
def plugin(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugin]:
    """A namespace with a stream, a failing one, a policy that waits for approval and a replay, and one more."""
    with pytest.MonkeyPatch.context() as patch:
        made = plugin_for(apiserver, "payments", tmp_path_factory.mktemp("plugin"), patch)
        run = {"name": "orders-ingest-1", "kind": "ingest", "state": "Succeeded", "startedAt": AT, "finishedAt": AT}
        table = {"messages": 3, "deadLetters": 2, "deadLettersByReason": [{"reason": "Unparseable", "count": 2}]}
        made.make(
            "MessageStream",
            "orders",
            {"phase": "Idle", "conditions": ready("True", "Ingesting", "3 stored"), "table": table, "lastRun": run},
            holds=[{"name": "case-7", "match": {"categories": ["order"]}}],
        )
        broken = ready("False", "SecretMissing", "there is no Secret lake")
        made.make("MessageStream", "refunds", {"phase": "Failing", "conditions": broken})
        waits = {
            "name": "orders",
            "awaitingApproval": True,
            "preview": {"id": "8c1f", "messages": 4, "byRule": {"old": 4}},
        }
        made.make("RetentionPolicy", "ninety-days", {"phase": "AwaitingApproval", "streams": [waits]})
        made.make("ReplayJob", "again", {"phase": "Running", "conditions": ready("False", "Running", "being sent")})
        made.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "payments-eu"}})
        made.make("MessageStream", "orders", namespace="payments-eu")
        yield made


def test_an_overview_names_the_failing_stream_first(plugin: Plugin) -> None:
    first = plugin.said("status").splitlines()[1]
    assert first.split()[:4] == ["stream/refunds", "False", "Failing", "SecretMissing"]
    assert first.endswith("there is no Secret lake")
    assert "payments-eu" in plugin.said("status", "all", "-A")
    (one,) = json.loads(plugin.said("status", "streams", "-n", "payments-eu", "-o", "json"))
    assert (one["namespace"], one["phase"], one["conditions"]) == ("payments-eu", None, [])


def test_a_resource_says_why_it_is_as_it_is(plugin: Plugin) -> None:
    said = plugin.said("status", "stream", "refunds")
    assert "Ready False SecretMissing" in said
    assert "Create the Secret." in said
    assert "policy ninety-days: AwaitingApproval" in plugin.said("status", "mst", "orders")
    shown = YAML(typ="safe").load(plugin.said("status", "policy", "ninety-days", "-o", "yaml"))
    assert (shown["kind"], shown["name"], shown["phase"]) == ("RetentionPolicy", "ninety-days", "AwaitingApproval")


def test_what_has_run_is_listed(plugin: Plugin) -> None:
    assert plugin.said("runs").splitlines()[1].split()[:4] == [
        "orders-ingest-1",
        "stream/orders",
        "ingest",
        "Succeeded",
    ]
    (run,) = json.loads(plugin.said("runs", "stream", "orders", "-o", "json"))
    assert (run["run"], run["finishedAt"]) == ("orders-ingest-1", AT)
    assert "stream/orders" in plugin.said("cost")


def test_previews_holds_and_dead_letters_are_told(plugin: Plugin) -> None:
    rows = [line.split() for line in plugin.said("preview", "ninety-days").splitlines()[1:]]
    assert [row[:4] for row in rows] == [["orders", "8c1f", "all", "4"], ["orders", "8c1f", "old", "4"]]
    assert plugin.said("holds").splitlines()[1].split()[1:4] == ["orders", "case-7", "holds"]
    assert plugin.said("dead-letters", "orders").splitlines()[1].split() == [
        *("payments", "orders", "Unparseable", "2", "s3a://landing/orders/")
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("status", "stream", "ordres"), 1, 'no such stream "ordres" in namespace payments; did you mean "orders"?'),
        (
            ("preview", "ninety-day"),
            1,
            'no such policy "ninety-day" in namespace payments; did you mean "ninety-days"?',
        ),
        (("status", "streem", "orders"), 2, 'no such kind: streem; did you mean "stream"?'),
        (("logs", "stream", "refunds"), 1, "refunds has had no run yet"),
        (("logs", "stream", "orders"), 1, "the driver's pod orders-ingest-1-driver is gone, or not made yet"),
        (("status", "--context", "nowhere"), 1, "context was not found for specified context: nowhere"),
        (("status", "--as", "stranger"), 1, 'User "stranger" cannot list resource "messagestreams"'),
        (("runs", "stream", "orders", "-o", "jsom"), 2, "jsom"),
    ],
)
def test_what_cant_be_done_is_said_in_words(plugin: Plugin, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = plugin.run(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr
