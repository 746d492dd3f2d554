"""``kubectl messagestore`` on a real API server, by a real kubectl; no operator runs, the test writes the statuses."""

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from messagestore_operator.plugin.kubectl import Kubectl
from support.apiserver import ApiServer
from support.documents import RUN_BY_PLUGIN, run_script
from support.helm import rendered
from support.plugins import MERGE, Plugin, plugin_for
from support.waiting import wait_until

AT = "2026-01-05T08:20:00Z"


def ready(status: str, reason: str, message: str) -> list[dict[str, str]]:
    given = {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": AT}
    return [given]


@pytest.fixture(scope="module")
def plugin(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugin]:
    """A namespace with a stream, a failing one, a policy that waits, one at work, a replay; another namespace."""
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
        selects = [{**ready("True", "Running", "run thirty-days-1 evaluates the rules")[0], "type": "Reconciling"}]
        made.make("RetentionPolicy", "thirty-days", {"phase": "Previewing", "conditions": selects})
        made.make("ReplayJob", "again", {"phase": "Running", "conditions": ready("False", "Running", "being sent")})
        made.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "payments-eu"}})
        made.make("MessageStream", "orders", namespace="payments-eu")
        yield made
        # Operators of other tests serve all namespaces.
        made.forget("payments", "payments-eu")


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
    assert "Create the Secret, with label messagestore.dev/use" in said
    assert "policy ninety-days: AwaitingApproval" in plugin.said("status", "mst", "orders")
    shown = YAML(typ="safe").load(plugin.said("status", "policy", "ninety-days", "-o", "yaml"))
    assert (shown["kind"], shown["name"], shown["phase"]) == ("RetentionPolicy", "ninety-days", "AwaitingApproval")


def test_runs_lists_the_runs_of_a_resource(plugin: Plugin) -> None:
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
        (
            ("preview", "ninety-days", "ordres"),
            1,
            'no such stream "ordres" in namespace payments; did you mean "orders"?',
        ),
        (
            ("preview", "ninety-days", "refunds"),
            1,
            "policy ninety-days has made no preview of stream refunds yet; trigger",
        ),
        (("preview", "thirty-days"), 1, "policy thirty-days has made no preview yet: run thirty-days-1 evaluates the"),
        (("status", "streem", "orders"), 2, 'no such kind: streem; did you mean "stream"?'),
        (("logs", "stream", "refunds"), 1, "refunds has had no run yet"),
        (("logs", "stream", "orders"), 1, "the driver's pod orders-ingest-1-driver is gone, or not made yet"),
        (
            ("status", "stream", "orders", "-A"),
            2,
            "payments, payments-eu",
        ),
        (("status", "--context", "nowhere"), 1, "context was not found for specified context: nowhere"),
        (("status", "--as", "stranger"), 1, 'User "stranger" cannot list resource "messagestreams"'),
        (("holds", "--as", "stranger"), 1, "that takes ClusterRole …-look"),
        *(
            ((*command, "-n", "paiments"), 1, 'no such namespace "paiments"; did you mean "payments"?')
            for command in (
                *(("status",), ("runs",), ("cost",), ("holds",), ("dead-letters",), ("report",)),
                *(("trigger", "stream", "orders"), ("approve", "ninety-days"), ("messages", "orders")),
            )
        ),
        (("report", "--kubeconfig", "/dev/null"), 1, "there is nothing to report, as it can't be read: versions of K"),
        (("status", "--kubeconfig", "/dev/null"), 1, "the kubeconfig has no current context: choose one by --context"),
        (("runs", "stream", "orders", "-o", "jsom"), 2, "jsom"),
    ],
)
def test_a_question_that_cannot_be_answered_ends_with_a_readable_error(
    plugin: Plugin, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = plugin.run(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_the_commands_of_the_page_about_operating_work_in_order(plugin: Plugin) -> None:
    """Word for word, by kubectl, which finds the plugin in PATH."""
    (headings,) = RUN_BY_PLUGIN.values()
    found, redriven, approved, slowed, written = (plugin.follow("docs/operate.md", heading) for heading in headings)
    assert "stream/refunds" in found
    assert "Create the Secret, with label messagestore.dev/use" in found
    assert "-redrive-" in redriven
    assert "preview 8c1f of stream orders is approved" in approved
    assert slowed.splitlines()[-1] == "replay again: goes on"
    assert written.startswith("report.tar.gz: ")
    assert annotations(plugin, "RetentionPolicy", "ninety-days") == {PREVIEW: "8c1f", BY: "tester"}
    plugin.annotate("RetentionPolicy", "ninety-days", {PREVIEW: None, BY: None})


REQUESTED, PREVIEW, BY = (f"messagestore.dev/{name}" for name in ("run-requested", "approved-preview", "approved-by"))
RESET = "messagestore.dev/reset-to"


@pytest.fixture
def job(plugin: Plugin) -> Iterator[str]:
    """A subscription with two destinations, which the test may change."""
    files = [{"name": one, "files": {"uri": f"s3a://out/{one}"}} for one in ("eu", "us")]
    given = {"start": {"at": "Beginning"}, "trigger": {"manual": {}}, "destinations": files, "destination": None}
    plugin.make("ReplayJob", "relay", {"lastHandledReset": "Now"}, **given)
    yield "relay"
    plugin.server.request("DELETE", plugin.path("ReplayJob", "relay"))


def annotations(plugin: Plugin, kind: str, name: str) -> dict[str, str]:
    found: dict[str, str] = plugin.read(kind, name)["metadata"].get("annotations", {})
    return found


def test_a_run_is_requested_by_each_new_value(plugin: Plugin) -> None:
    values = set()
    for _ in range(2):
        assert plugin.said("trigger", "stream", "orders") == "stream orders: a run is requested\n"
        values.add(annotations(plugin, "MessageStream", "orders")[REQUESTED])
    assert len(values) == 2


def test_a_resource_is_suspended_and_resumed(plugin: Plugin) -> None:
    assert plugin.said("suspend", "policy", "ninety-days") == "policy ninety-days: is suspended\n"
    assert plugin.read("RetentionPolicy", "ninety-days")["spec"]["suspend"] is True
    assert "it is suspended, and runs once it is resumed" in plugin.said("trigger", "policy", "ninety-days")
    assert plugin.said("resume", "policy", "ninety-days") == "policy ninety-days: goes on\n"
    assert plugin.read("RetentionPolicy", "ninety-days")["spec"]["suspend"] is False


def test_an_approval_sets_both_annotations_in_the_own_name(plugin: Plugin) -> None:
    asked = plugin.run("approve", "ninety-days")
    assert (asked.exit_code, annotations(plugin, "RetentionPolicy", "ninety-days").get(PREVIEW)) == (2, None)
    assert "4 messages of stream orders, 0 B (4 by rule old), are removed or scrubbed; 0 are held" in asked.stderr
    dry = json.loads(plugin.said("approve", "ninety-days", "--dry-run", "-o", "json"))
    assert dry["metadata"]["annotations"][PREVIEW] == "8c1f"
    assert PREVIEW not in annotations(plugin, "RetentionPolicy", "ninety-days")
    said = plugin.said("approve", "ninety-days", "--yes")
    assert said == "policy ninety-days: preview 8c1f of stream orders is approved\n"
    given = annotations(plugin, "RetentionPolicy", "ninety-days")
    assert (given[PREVIEW], given[BY]) == ("8c1f", "tester")


def interrupted(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Do something else between what the next command reads and what it writes."""
    patch, left = Kubectl.patch, [meanwhile]

    def patch_later(*given: Any, **more: Any) -> Any:
        while left:
            left.pop()()
        return patch(*given, **more)

    monkeypatch.setattr(Kubectl, "patch", patch_later)


def test_two_approvals_at_the_same_moment_are_both_kept(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [{"name": name, "awaitingApproval": True, "preview": {"id": f"{name}-1"}} for name in ("orders", "refunds")]
    plugin.make("RetentionPolicy", "both", {"streams": waits})
    interrupted(monkeypatch, lambda: plugin.said("approve", "both", "--stream", "orders", "--yes"))
    plugin.said("approve", "both", "--stream", "refunds", "--yes")
    assert annotations(plugin, "RetentionPolicy", "both") == {PREVIEW: "orders-1,refunds-1", BY: "tester"}


def test_dead_letters_are_redriven_by_a_replay_into_their_stream(plugin: Plugin) -> None:
    made = json.loads(plugin.said("redrive", "orders", "--reason", "Unparseable", "-o", "json"))
    spec = plugin.read("ReplayJob", made["metadata"]["name"])["spec"]
    assert (spec["origin"], spec["destination"]["stream"], spec["select"]["reasons"]) == (
        *("DeadLetters", {"name": "orders"}, ["Unparseable"]),
    )
    assert "(dry run: nothing was changed)" in plugin.said("redrive", "refunds", "--dry-run")


def test_single_messages_are_deleted_by_a_policy_that_waits_for_approval(plugin: Plugin) -> None:
    made = json.loads(plugin.said("delete", "orders", "o-1", "o-2", "--erase", "-o", "json"))
    policy = plugin.read("RetentionPolicy", made["metadata"]["name"])
    assert (policy["spec"]["mode"], policy["spec"]["approval"]) == ("Enforce", "Required")
    (rule,) = policy["spec"]["rules"]
    assert (rule["match"]["messageIds"], rule["erase"]) == (["o-1", "o-2"], True)
    assert REQUESTED in policy["metadata"]["annotations"]


def test_a_replay_is_paused_slowed_and_goes_on(plugin: Plugin, job: str) -> None:
    assert plugin.said("replay", "rate", job, "50") == "replay relay: sends at most 50 messages a second\n"
    assert plugin.read("ReplayJob", job)["spec"]["rateLimit"] == {"messagesPerSecond": 50}
    plugin.said("replay", "rate", job, "none")
    plugin.said("replay", "pause", job)
    spec = plugin.read("ReplayJob", job)["spec"]
    assert ("rateLimit" in spec, spec["suspend"]) == (False, True)
    plugin.said("replay", "resume", job)
    assert plugin.read("ReplayJob", job)["spec"]["suspend"] is False


def test_a_replay_that_has_ended_is_neither_paused_nor_slowed(plugin: Plugin) -> None:
    plugin.make("ReplayJob", "done", {"phase": "Succeeded"})
    for arguments in (("replay", "pause", "done"), ("suspend", "replay", "done"), ("replay", "rate", "done", "50")):
        result = plugin.run(*arguments)
        assert (result.exit_code, result.stderr) == (1, "error: replay done has ended: its whole selection was sent\n")
    spec = plugin.read("ReplayJob", "done")["spec"]
    assert (spec["suspend"], "rateLimit" in spec) == (False, False)
    plugin.server.request("DELETE", plugin.path("ReplayJob", "done"))


def test_a_cursor_is_moved_for_all_destinations_or_one(plugin: Plugin, job: str) -> None:
    plugin.said("replay", "reset", job, "4711", "--yes")
    assert annotations(plugin, "ReplayJob", job)[RESET] == "4711"
    plugin.said("replay", "reset", job, "Beginning", "--destination", "us", "--yes")
    assert json.loads(annotations(plugin, "ReplayJob", job)[RESET]) == {"us": "Beginning", "eu": 4711}
    plugin.said("replay", "reset", job, "7", "--destination", "eu", "--yes")
    assert json.loads(annotations(plugin, "ReplayJob", job)[RESET]) == {"us": "Beginning", "eu": 7}


def test_two_cursors_moved_at_the_same_moment_are_both_moved(
    plugin: Plugin, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(monkeypatch, lambda: plugin.said("replay", "reset", job, "7", "--destination", "us", "--yes"))
    plugin.said("replay", "reset", job, "9", "--destination", "eu", "--yes")
    assert json.loads(annotations(plugin, "ReplayJob", job)[RESET]) == {"us": 7, "eu": 9}


def test_a_replay_is_cancelled_by_its_deletion(plugin: Plugin, job: str) -> None:
    assert "dry run" in plugin.said("replay", "cancel", job, "--dry-run")
    assert plugin.run("replay", "cancel", job).exit_code == 2
    plugin.read("ReplayJob", job)
    plugin.said("replay", "cancel", job, "--yes")
    assert plugin.server.request("GET", plugin.path("ReplayJob", job)).status == 404


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trigger", "replay", "again"), "replay again has no trigger: it sends its selection once"),
        (("resume", "stream", "orders"), "stream orders is not suspended"),
        (("redrive", "orders", "--reason", "Bad"), 'Unsupported value: "Bad"'),
        (("approve", "ninety-days", "--preview", "0000", "--yes"), "what waits: 8c1f of stream orders"),
        (("replay", "rate", "relay", "fast"), "fast: the rate is a number of messages a second, or none"),
        (("replay", "reset", "again", "Now", "--yes"), "replay again has no start"),
        (
            ("replay", "reset", "relay", "Now", "--yes"),
            "was reset to Now last: remove annotation messagestore.dev/reset-to",
        ),
        (("replay", "reset", "relay", "noon", "--yes"), "noon: is not Beginning, Now or a position"),
        (("replay", "reset", "relay", "7", "--destination", "asia", "--yes"), "no destination asia; it has: eu, us"),
        (("replay", "pause", "rely"), 'did you mean "relay"?'),
        (("delete", "order", "o-1"), 'did you mean "orders"?'),
    ],
)
def test_a_change_that_cannot_be_made_ends_with_a_readable_error(
    plugin: Plugin, arguments: tuple[str, ...], words: str
) -> None:
    result = plugin.run(*arguments)
    assert result.exit_code in (1, 2)
    assert words in result.stderr
    assert "Traceback" not in result.stderr


LOOK = (
    ("status",),
    ("status", "stream", "orders"),
    ("runs",),
    ("cost",),
    ("preview", "ninety-days"),
    ("holds",),
    ("dead-letters",),
)
ACT = (
    ("trigger", "stream", "orders"),
    ("suspend", "stream", "orders"),
    ("redrive", "orders"),
    ("replay", "pause", "relay"),
    ("replay", "rate", "relay", "5"),
    ("replay", "reset", "relay", "7"),
    ("replay", "cancel", "relay"),
    ("delete", "orders", "o-9"),
)
APPROVE = (("approve", "ninety-days"),)


@pytest.fixture(scope="module")
def users(plugin: Plugin) -> Iterator[None]:
    """A user of each of the chart's ClusterRoles, in one namespace; no release has roles of these names."""
    group, version = "rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
    roles = rendered("--show-only", "templates/user-roles.yaml")
    for role in roles:
        name = role["metadata"]["name"] = f"plugin-{role['metadata']['name'].rpartition('-')[2]}"
        made = plugin.server.request("POST", f"{version}/clusterroles", role)
        assert made.accepted, made.body
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name.rpartition("-")[2]}],
        }
        path = f"{version}/namespaces/{plugin.namespace}/rolebindings"
        assert plugin.server.request("POST", path, binding).accepted
    yield
    for role in roles:
        plugin.server.request("DELETE", f"{version}/clusterroles/{role['metadata']['name']}")


@pytest.mark.usefixtures("users", "job")
@pytest.mark.parametrize(
    ("user", "allowed", "refused"),
    [("look", LOOK, ACT + APPROVE), ("act", ACT, ()), ("approve", APPROVE, ACT)],
)
def test_each_role_allows_its_own_task_and_no_other(
    plugin: Plugin, user: str, allowed: tuple[tuple[str, ...], ...], refused: tuple[tuple[str, ...], ...]
) -> None:
    wait_until(lambda: plugin.run(*allowed[0], "--as", user).exit_code in (0, 2), 30, lambda: "the role holds")
    for command in allowed:
        dry = () if command in LOOK else ("--dry-run",)
        plugin.said(*command, *dry, "--as", user)
    for command in refused:
        result = plugin.run(*command, "--dry-run", "--as", user)
        assert (result.exit_code, "Traceback" in result.stderr) == (1, False), command
        assert f'User "{user}" cannot ' in result.stderr
        assert "; that takes ClusterRole …-" in result.stderr


READ = (
    ("messages", "orders"),
    ("message", "orders", "o-1"),
    ("history", "orders", "o-1"),
    ("verify", "orders"),
    ("preview", "ninety-days", "--list"),
    ("page", "orders"),
)


@pytest.fixture
def restricted(plugin: Plugin) -> Iterator[None]:
    """The namespace enforces the restricted Pod Security Standard."""
    path, label = f"/api/v1/namespaces/{plugin.namespace}", "pod-security.kubernetes.io/enforce"
    assert plugin.server.request("PATCH", path, {"metadata": {"labels": {label: "restricted"}}}, MERGE).accepted
    yield
    assert plugin.server.request("PATCH", path, {"metadata": {"labels": {label: None}}}, MERGE).accepted


@pytest.mark.usefixtures("users", "restricted")
@pytest.mark.parametrize("command", READ, ids=lambda command: command[0])
def test_the_role_for_reading_makes_a_pod_under_the_restricted_standard_and_deletes_it(
    plugin: Plugin, command: tuple[str, ...]
) -> None:
    """Pods don't run here: none has a node."""
    here = ("--image", "spark:1", "--start", "0s")
    wait_until(lambda: " cannot " not in plugin.run(*command, *here, "--as", "read").stderr, 30, lambda: "it holds")
    result = plugin.run(*command, *here, "--as", "read")
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.search(r"error: pod orders-read-\w+ does not run after 0 s: Pending", result.stderr)
    pods = plugin.server.request("GET", f"/api/v1/namespaces/{plugin.namespace}/pods").body["items"]
    assert not [one for one in pods if "-read-" in one["metadata"]["name"]]


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("user", ["look", "act", "approve"])
def test_another_role_makes_no_pod_for_reading_and_is_told_which_role_can(plugin: Plugin, user: str) -> None:
    for command in READ:
        result = plugin.run(*command, "--image", "spark:1", "--as", user)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f'User "{user}" cannot ' in result.stderr
        assert "to read a store takes ClusterRole …-read in its namespace" in result.stderr


@pytest.mark.usefixtures("users")
def test_the_role_for_reading_allows_no_other_task(plugin: Plugin) -> None:
    for command in (*ACT, *APPROVE):
        result = plugin.run(*command, "--dry-run", "--as", "read")
        assert (result.exit_code, "; that takes ClusterRole …-" in result.stderr) == (1, True), command
    assert "no run is there to take the image from" in plugin.run("messages", "orders", "--as", "read").stderr


@pytest.mark.usefixtures("users")
def test_the_role_for_looking_in_one_namespace_allows_no_view_of_all_namespaces(plugin: Plugin) -> None:
    assert "at the cluster scope" in plugin.run("status", "-A", "--as", "look").stderr
    assert "pod orders-ingest-1-driver is gone" in plugin.run("logs", "stream", "orders", "--as", "look").stderr


SECRET, PAYLOAD = "s3cr3t-0815", "a-message-of-somebody"


def make_what_must_not_leave(plugin: Plugin) -> None:
    """Secrets and payloads in each object near a run, beside what a report is to have."""
    server, core = plugin.server, f"/api/v1/namespaces/{plugin.namespace}"
    labels = {"app.kubernetes.io/managed-by": "message-store-operator", "messagestore.dev/run": "refunds-ingest-1"}
    about = {"name": "refunds-ingest-1", "labels": labels, "annotations": {"note": SECRET}}
    run = {"run.json": PAYLOAD, "report.json": json.dumps({"run": "refunds-ingest-1", "state": "Succeeded"})}
    container = {"name": "driver", "image": "spark:1", "env": [{"name": "KEY", "value": SECRET}], "args": [PAYLOAD]}
    pod = {"metadata": {**about, "name": "refunds-ingest-1-driver"}, "spec": {"containers": [container]}}
    event = {
        "metadata": {"name": "one"},
        "involvedObject": {"apiVersion": "messagestore.dev/v1alpha1", "kind": "MessageStream", "name": "orders"},
        "reason": "StorageDenied",
        "message": f"refused secretKey={SECRET}",
    }
    event["involvedObject"]["namespace"] = plugin.namespace
    others = {**event, "metadata": {"name": "two"}, "involvedObject": {"namespace": plugin.namespace, "kind": "Pod"}}
    for collection, body in (
        ("secrets", {"metadata": {"name": "lake"}, "stringData": {"secretKey": SECRET}}),
        ("configmaps", {"metadata": about, "data": run}),
        ("configmaps", {"metadata": {"name": "of-others"}, "data": {"report.json": PAYLOAD}}),
        ("pods", pod),
        ("events", event),
        ("events", {**others, "message": PAYLOAD}),
    ):
        answer = server.request("POST", f"{core}/{collection}", body)
        assert answer.accepted, answer.body
    application = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": about,
        "spec": {"type": "Python", "sparkVersion": "4", "driver": {}, "executor": {}, "mainApplicationFile": PAYLOAD},
    }
    path = f"/apis/sparkoperator.k8s.io/v1beta2/namespaces/{plugin.namespace}/sparkapplications"
    answer = server.request("POST", path, application)
    assert answer.accepted, answer.body


def test_a_report_has_what_helps_and_no_secrets_or_payloads(plugin: Plugin, tmp_path: Path) -> None:
    make_what_must_not_leave(plugin)
    file = tmp_path / "report.tar.gz"
    said = json.loads(plugin.said("report", "--file", str(file), "-o", "json"))
    with tarfile.open(file) as archive:
        texts = {
            one.name.partition("/")[2]: (archive.extractfile(one) or io.BytesIO()).read().decode() for one in archive
        }
    assert sorted(said["files"]) == sorted(texts)
    assert {path.partition("/")[2] for path in texts if path.startswith("payments/")} >= {
        "MessageStream/orders.json",
        "RetentionPolicy/ninety-days.json",
        "reports/refunds-ingest-1.json",
        "applications.json",
        "events.json",
        "pods.json",
    }
    assert "StorageDenied" in texts["payments/events.json"]
    assert json.loads(texts["versions.json"])["kinds"][0] == "messagestreams.messagestore.dev"
    assert texts["problems.txt"] == ""
    for path, text in texts.items():
        assert SECRET not in text, path
        assert PAYLOAD not in text, path
    assert f"{file} is there already" in plugin.run("report", "--file", str(file)).stderr


@pytest.mark.usefixtures("users")
def test_a_report_made_with_the_role_for_looking_lacks_only_the_operators_namespace(
    plugin: Plugin, tmp_path: Path
) -> None:
    said = json.loads(plugin.said("report", "--file", str(tmp_path / "mine"), "--as", "look", "-o", "json"))
    assert "payments/MessageStream/orders.json" in said["files"]
    assert [one.partition(":")[0] for one in said["problems"]] == [
        *("the operator's pods", "the operator's settings", "Leases of tables"),
    ]


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("dead-l", ["dead-letters"]),
        ("status s", ["stream"]),
        ("status stream re", ["refunds"]),
        ("preview nine", ["ninety-days"]),
        ("replay ''", ["pause", "resume", "rate", "cancel", "reset"]),
        ("replay pause --namespace payments rel", ["relay"]),
        ("replay pause --as stranger rel", []),
        ("status nothing re", []),
    ],
)
def test_kubectl_completes_commands_kinds_and_names(plugin: Plugin, line: str, completed: list[str]) -> None:
    done = run_script(f"kubectl __complete messagestore {line}", plugin.folder, plugin.folder)
    *names, directive = done.stdout.splitlines()
    assert ([name for name in names if name], directive) == (completed, ":4"), done.stderr
