"""A store in the cluster is read by a pod; here the reader answers in this process, from a store on this machine."""

import json
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from messagestore.answering import Question, answer
from messagestore.errors import MessageStoreError
from messagestore_core.contract.purge import Preview, PurgeTask, Rule
from messagestore_core.contract.run_document import Resource as ContractResource
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import write_document
from messagestore_core.store.purges import FROZEN, Plan
from messagestore_operator.api import MessageStream
from messagestore_operator.api.kinds import parse_resource
from messagestore_operator.plugin.kubectl import Kubectl, KubectlError
from messagestore_operator.plugin.main import app
from messagestore_operator.plugin.options import UserError
from messagestore_operator.plugin.reader_pod import access_of, pod_of, surroundings_of, waits_for, why_not
from messagestore_operator.translate.secrets import seal_keys
from messagestore_operator.translate.storage import table_access
from support.stores import START, add_dead_letters, add_history, make_store, message

Document = dict[str, Any]
STORAGE: Document = {"region": "eu-1", "credentialsSecretRef": {"name": "lake"}}
INTEGRITY = {"hmacSecretRef": {"name": "seal", "key": "key"}, "previousSecretRefs": [{"name": "old", "key": "key"}]}
RUNNING = {"status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}}


def stream(**spec: Any) -> Document:
    return {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": "MessageStream",
        "metadata": {"name": "orders", "namespace": "payments", "uid": "u-1"},
        "spec": {"table": {"uri": "s3a://lake/orders"}, "storage": STORAGE, **spec},
    }


def application(created: str = "2026-01-05T00:00:00Z", of: str = "orders", **spec: Any) -> Document:
    template = {
        "metadata": {"labels": {"team": "a", "messagestore.dev/run": "r", "app.kubernetes.io/managed-by": "b"}},
        "spec": {"nodeSelector": {"pool": "spark"}, "automountServiceAccountToken": True, "volumes": []},
    }
    driver = {"serviceAccount": "driver", "template": template}
    about = {"creationTimestamp": created, "labels": {"messagestore.dev/stream": of}}
    return {"metadata": about, "spec": {"image": "spark:1", "imagePullSecrets": ["registry"], "driver": driver, **spec}}


def pod(stream_: Document, *, seals: bool = False, image: str | None = None) -> Document:
    around = surroundings_of(application(), image)
    assert around is not None
    return pod_of(stream_, access_of(stream_, seals=seals), around, "1Gi", 60)


def test_a_pod_is_placed_as_runs_are_and_is_none() -> None:
    made = pod(stream())
    spec, labels = made["spec"], made["metadata"]["labels"]
    assert (spec["nodeSelector"], spec["serviceAccountName"]) == ({"pool": "spark"}, "driver")
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["containers"][0]["image"] == "spark:1"
    assert labels == {
        "team": "a",
        "messagestore.dev/stream": "orders",
        "app.kubernetes.io/managed-by": "kubectl-messagestore",
    }
    assert pod(stream(), image="spark:2")["spec"]["containers"][0]["image"] == "spark:2"


def test_a_pod_has_no_token_and_ends_by_itself() -> None:
    made = pod(stream())["spec"]
    assert (made["automountServiceAccountToken"], made["restartPolicy"]) == (False, "Never")
    assert made["activeDeadlineSeconds"] == 60
    (container,) = made["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["resources"]["limits"] == {"memory": "1Gi", "ephemeral-storage": "1Gi"}
    assert "find /tmp/in-use" in container["command"][-1]


def test_secrets_are_named_and_the_keys_of_seals_only_to_check_these() -> None:
    sealed = stream(integrity=INTEGRITY)
    named = [one["valueFrom"]["secretKeyRef"] for one in pod(sealed)["spec"]["containers"][0]["env"][1:]]
    assert [one["key"] for one in named] == ["accessKey", "secretKey", "sessionToken"]
    assert {one["name"] for one in named} == {"lake"}
    assert access_of(sealed, seals=True).seal_keys == ["MESSAGESTORE_SEAL_0", "MESSAGESTORE_SEAL_1"]
    with_seals = json.dumps(pod(sealed, seals=True))
    assert '"name": "seal"' in with_seals
    assert '"name": "old"' in with_seals


def test_a_reader_reaches_the_bucket_as_runs_do() -> None:
    """The plugin doesn't load the models: what it makes of a stream is compared with what they make."""
    given = stream(
        source={"files": {"uri": "s3a://landing/orders"}},
        trigger={"manual": {}},
        integrity=INTEGRITY,
        storage={**STORAGE, "endpoint": "https://s3.local", "pathStyleAccess": True, "caSecretRef": {"name": "ca"}},
    )
    parsed = parse_resource(given)
    assert isinstance(parsed, MessageStream)
    of_runs = table_access(parsed)
    given["spec"]["storage"]["caSecretRef"]["key"] = "ca.crt"  # as the API server fills it in
    own = access_of(given, seals=True)
    (entry,) = (StorageEntry.model_validate(one) for one in own.storage)
    assert entry.model_copy(update={"ca_file": None}) == of_runs.entries[0].model_copy(update={"ca_file": None})
    named = [one["valueFrom"]["secretKeyRef"] for one in own.variables]
    secrets = (*of_runs.variables, *seal_keys(parsed))
    assert [(one["name"], one["key"], one.get("optional", False)) for one in named] == [
        (one.secret, one.key, one.optional) for one in secrets
    ]


def test_a_certificate_authority_is_mounted_alone() -> None:
    trusting = stream(storage={**STORAGE, "caSecretRef": {"name": "ca", "key": "ca.crt"}})
    made = pod(trusting)["spec"]
    assert made["volumes"][1]["secret"] == {"secretName": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    (entry,) = access_of(trusting, seals=False).storage
    folder = made["containers"][0]["volumeMounts"][1]["mountPath"]
    assert (entry["caFile"], entry["bucket"]) == (f"{folder}/ca.crt", "lake")


def test_a_store_without_storage_is_reached_by_the_pods_identity() -> None:
    bare = stream()
    del bare["spec"]["storage"]
    assert access_of(bare, seals=False).storage == []
    assert len(pod(bare)["spec"]["containers"][0]["env"]) == 1


def test_a_store_of_a_machine_is_read_by_no_pod() -> None:
    with pytest.raises(UserError, match="is file:///tmp/orders: only object storage is read by a pod"):
        access_of(stream(table={"uri": "file:///tmp/orders"}), seals=False)


def waiting(reason: str, message_: str) -> Document:
    return {"status": {"containerStatuses": [{"state": {"waiting": {"reason": reason, "message": message_}}}]}}


def test_why_a_pod_does_not_run_is_told() -> None:
    assert why_not(waiting("CreateContainerConfigError", 'secret "lake" not found')) == (
        'CreateContainerConfigError: secret "lake" not found'
    )
    assert why_not({"status": {"phase": "Failed", "reason": "DeadlineExceeded"}}) == "DeadlineExceeded"
    assert why_not(waiting("ErrImagePull", "later")) is None
    unmet = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    assert waits_for({"status": {"conditions": [unmet]}}) == "Unschedulable: 0/1 nodes"
    assert waits_for({}) == "Pending"


@dataclass
class Cluster:
    """A kubectl that has one stream and one run, and whose exec answers in this process."""

    uri: str
    applications: list[Document] = field(default_factory=lambda: [application()])
    made: list[Document] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    answers: list[str] | None = None
    """What exec prints instead; a KubectlError's text begins with "!"."""

    def get(self, plural: str, _: str) -> Document:
        return RUNNING if plural == "pods" else stream()

    def items(self, _: str, __: str = "") -> list[Document]:
        return self.applications

    def create(self, document: Document, *, dry_run: bool) -> Document:
        self.made.append(document)
        return document

    def delete(self, _: str, name: str, *, dry_run: bool) -> None:
        self.deleted.append(name)

    def lines(self, *arguments: str, stdin: str | None = None) -> Generator[str]:
        assert arguments[0] == "exec"
        asked = {**json.loads(stdin or ""), "uri": self.uri, "storage": []}
        for line in self.answers or ():
            if line.startswith("!"):
                raise KubectlError("", line[1:])
            yield line
        if self.answers is None:
            try:
                for word, value in answer(Question.model_validate(asked)):
                    yield f"{word} {value.decode() if isinstance(value, bytes) else json.dumps(value)}"
            except MessageStoreError as error:
                yield f"error {json.dumps({'message': str(error), 'bad': True})}"

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, arguments)

    def said(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        assert self.deleted == [one["metadata"]["name"] for one in self.made]
        return result.stdout


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    rows = [message(1), message(2, stream_name="order-2"), message(3, stream_name="refund-1", payload=b'{"n":1.10}')]
    uri = make_store(tmp_path / "store", rows).uri
    add_history(uri, rows[:1])
    add_dead_letters(uri, [{"failed_at": START, "raw": b"torn"}])
    made = Cluster(uri)
    for name in ("get", "items", "create", "delete", "lines"):
        method = getattr(made, name)
        monkeypatch.setattr(Kubectl, name, lambda _, *given, method=method, **more: method(*given, **more))
    return made


def test_messages_come_a_page_at_a_time_the_newest_first(cluster: Cluster) -> None:
    result = cluster.run("messages", "orders", "--limit", "2")
    assert [line.split()[2] for line in result.stdout.splitlines()] == ["ID", "m3", "m2"]
    assert result.stderr == "more: --position 1\n"
    assert [line.split()[2] for line in cluster.said("messages", "orders", "-p", "1").splitlines()] == ["ID", "m1"]


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (("order",), ["m2", "m1"]),
        (("order-2",), ["m2"]),
        (("order", "--where", "global_position = 1 OR global_position = 3"), ["m1"]),
        (("--type", "created", "--oldest-first"), ["m1", "m2", "m3"]),
        (("--status", "FAILED"), []),
        (("--since", "2026-01-06T00:00:00Z"), []),
    ],
)
def test_messages_are_chosen(cluster: Cluster, given: tuple[str, ...], ids: list[str]) -> None:
    assert [one["messageId"] for one in json.loads(cluster.said("messages", "orders", *given, "-o", "json"))] == ids


def test_payloads_leave_the_pod_only_if_they_are_asked_for(cluster: Cluster) -> None:
    for given in (("messages", "orders"), ("message", "orders", "m3")):
        for form in ("table", "json"):
            assert "1.10" not in cluster.said(*given, "-o", form)
            assert "1.10" in cluster.said(*given, "--payload", "-o", form)
    assert '"payload":{"n":1.10}' in cluster.said("message", "orders", "m3", "--payload", "-o", "json")


def test_a_message_is_told_with_all_its_fields(cluster: Cluster) -> None:
    shown = dict(line.split(maxsplit=1) for line in cluster.said("message", "orders", "m2").splitlines())
    assert (shown["streamName"], shown["globalPosition"]) == ("order-2", "2")
    assert YAML(typ="safe").load(cluster.said("message", "orders", "m2", "-o", "yaml"))["messageId"] == "m2"


def test_history_lists_the_changes_of_a_message(cluster: Cluster) -> None:
    header, change = cluster.said("history", "orders", "m1").splitlines()
    assert header.split()[:4] == ["AT", "ATTEMPT", "FROM", "TO"]
    assert change.split()[1:4] == ["1", "RECEIVED", "FAILED"]
    assert cluster.run("history", "orders", "m2").stderr == "no changes\n"


@pytest.mark.parametrize("command", ["message", "history"])
def test_a_message_that_is_not_there_is_said_in_words(cluster: Cluster, command: str) -> None:
    result = cluster.run(command, "orders", "m9")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == 'error: no message with id "m9" in stream orders: nothing is known of it\n'


def test_a_store_is_verified(cluster: Cluster) -> None:
    result = cluster.run("verify", "orders")
    assert "payloads:  ok, 3 messages" in result.stdout
    checks = json.loads(cluster.run("verify", "orders", "--no-payloads", "-o", "json").stdout)
    assert result.exit_code == int(any(check["count"] for check in checks))
    assert {check["name"]: check["note"] for check in checks}["payloads"] == "not asked for"


def test_dead_letters_are_listed_and_their_bytes_only_if_they_are_asked_for(cluster: Cluster) -> None:
    header, row = cluster.said("dead-letters", "orders", "--list").splitlines()
    assert header.split() == ["AT", "REASON", "DETAIL", "ID", "SOURCE"]
    assert "Unparseable" in row
    assert "torn" not in row
    assert "torn" in cluster.said("dead-letters", "orders", "--list", "--payload")
    (one,) = json.loads(cluster.said("dead-letters", "orders", "--list", "--payload", "-o", "json"))
    assert (one["reason"], one["raw"]) == ("Unparseable", "torn")
    assert cluster.run("dead-letters", "orders", "--list", "--reason", "InvalidField").stderr == "no dead letters\n"
    refused = cluster.run("dead-letters", "--list")
    assert (refused.exit_code, "name its STREAM" in refused.stderr) == (2, True)


def frozen(uri: str, policy: str, rows: list[Document]) -> None:
    """A preview that waits, as a purge has frozen it."""
    preview = Preview(id="8c1f", table_version=1, as_of=START, messages=len(rows), bytes=0)
    plan = Plan(
        preview=preview,
        run="purge-1",
        resource=ContractResource(kind="RetentionPolicy", namespace="payments", name=policy, generation=1),
        task=PurgeTask(rules=(Rule(name="old"), Rule(name="odd"))),
        spec="",
        holds="",
        waiting=True,
        decided_at=START,
        messages=len(rows),
        bytes=0,
        erased=0,
        version_before=1,
    )
    folder = Path(uri.removeprefix("file://")) / plan.rows_folder
    folder.mkdir(parents=True)
    full = [{"stream_name": "order-1", "position": 1, "status": "RECEIVED", "erase": False, **row} for row in rows]
    pq.write_table(pa.Table.from_pylist(full, schema=FROZEN), folder / "part-0.parquet")
    write_document(Store(uri).objects(), f"{plan.folder}/plan.json", plan)


def test_what_a_purge_would_take_is_listed_a_page_at_a_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"global_position": number, "rules": ["old", "odd"][: number % 2 + 1]} for number in (1, 2, 3)]
    frozen(cluster.uri, "ninety-days", rows)
    streams = [{"name": "orders", "awaitingApproval": True, "preview": {"id": "8c1f", "messages": 3}}]
    policy = {"metadata": {"name": "ninety-days"}, "status": {"streams": streams}}
    get = Kubectl.get
    monkeypatch.setattr(
        Kubectl, "get", lambda self, plural, name: policy if "policies" in plural else get(self, plural, name)
    )
    result = cluster.run("preview", "ninety-days", "--list", "--limit", "2")
    assert [line.split()[2:] for line in result.stdout.splitlines()] == [
        ["ID", "STREAM", "TYPE", "STATUS", "RULES", "STAYS"],
        ["m1", "order-1", "created", "RECEIVED", "old,", "odd"],
        ["m2", "order-1", "created", "RECEIVED", "old"],
    ]
    assert result.stderr == "more: --position 3\n"
    listed = json.loads(
        cluster.said("preview", "ninety-days", "orders", "--list", "--rule", "odd", "-p", "2", "-o", "json")
    )
    assert [(one["messageId"], one["rules"]) for one in listed] == [("m3", ["old", "odd"])]
    refused = cluster.run("preview", "others", "orders", "--list")
    assert (refused.exit_code, "no preview of policy others waits" in refused.stderr) == (2, True)
    streams[0]["awaitingApproval"] = False
    assert "With spec.approval Required and spec.mode Enforce" in cluster.run("preview", "ninety-days", "--list").stderr


@pytest.mark.parametrize("payloads", [False, True])
def test_a_page_is_drawn_from_what_the_pod_has_read(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payloads: bool
) -> None:
    spec = {"streamRefs": [{"name": "orders"}], "trigger": {"manual": {}}, "rules": [{"name": "old", "maxAge": "P2D"}]}
    about = {"apiVersion": "messagestore.dev/v1alpha1", "kind": "RetentionPolicy"}
    policy = {**about, "metadata": {"name": "two-days", "namespace": "payments"}, "spec": spec}
    never = {"schedule": {"cron": "0 0 30 2 *"}}
    illegible = {**about, "metadata": {"name": "never", "namespace": "payments"}, "spec": {**spec, "trigger": never}}
    source = {"source": {"files": {"uri": "s3a://landing/orders"}}, "trigger": {"manual": {}}}
    monkeypatch.setattr(Kubectl, "get", lambda _, plural, __: RUNNING if plural == "pods" else stream(**source))
    items, listed = Kubectl.items, [policy]
    monkeypatch.setattr(
        Kubectl, "items", lambda self, plural, *given: listed if "policies" in plural else items(self, plural, *given)
    )
    file = tmp_path / "page.html"
    given = ("page", "orders", "--file", str(file), *(["--payloads"] if payloads else []))
    assert cluster.said(*given) == f"{file}\n"
    page = file.read_text()
    assert '<h2 id="store-1">s3a://lake/orders</h2>' in page
    assert "All 3 messages." in page
    assert "Policy two-days" in page
    assert "3 messages with" in page
    assert ("torn" in page) == payloads
    listed.append(illegible)
    warning = "warning: policy never is left out: spec.trigger.schedule.cron: must be a cron expression"
    assert cluster.run(*given).stderr.startswith(warning)
    assert file.read_text().count("Policy two-days") == page.count("Policy two-days")


def test_a_broken_message_is_told_and_not_shown(cluster: Cluster) -> None:
    broken = message(4, payload_sha256="0" * 64)
    cluster.uri = make_store(Path(cluster.uri.removeprefix("file://")).parent / "broken", [broken]).uri
    for given in (("messages", "orders", "--payload"), ("message", "orders", "m4")):
        result = cluster.run(*given)
        assert result.exit_code == 1
        assert "broken: message m4" in result.stderr
        assert '"n":4' not in result.stdout


@pytest.mark.parametrize(
    ("answers", "code", "words"),
    [
        (['message {"messageId": "m1"}'], 1, "the answer broke off: the pod or the connection to it has ended"),
        (["!python3: No module named messagestore"], 1, "the image has no reader, it is of an earlier release"),
        (['error {"message": "s3a://lake/orders is no message store"}'], 1, "is no message store"),
        (['error {"message": "where: what?", "bad": true}'], 2, "where: what?"),
    ],
)
def test_a_read_that_fails_ends_with_an_error_and_leaves_no_pod(
    cluster: Cluster, answers: list[str], code: int, words: str
) -> None:
    cluster.answers = answers
    result = cluster.run("messages", "orders")
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert len(cluster.deleted) == len(cluster.made) == 1


def test_a_pod_that_is_gone_needs_no_deletion(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise KubectlError("NotFound", 'pods "orders-read-1" not found')

    monkeypatch.setattr(Kubectl, "delete", gone)
    assert cluster.run("message", "orders", "m1").exit_code == 0
    cluster.answers = ['message {"messageId": "m1"}']
    assert "the answer broke off" in cluster.run("messages", "orders").stderr


def test_a_refused_condition_is_told(cluster: Cluster) -> None:
    result = cluster.run("messages", "orders", "--where", "colour = 'red'", "-o", "json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "colour" in result.stderr


def test_the_image_is_that_of_the_streams_newest_run(cluster: Cluster) -> None:
    later, latest = "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"
    of_another = application(latest, "refunds", image="spark:3")
    cluster.applications = [application(), application(later, image="spark:2"), of_another]
    cluster.said("messages", "orders")
    cluster.applications = [of_another]
    cluster.said("messages", "orders")
    assert [one["spec"]["containers"][0]["image"] for one in cluster.made] == ["spark:2", "spark:3"]


def test_without_runs_an_image_is_given(cluster: Cluster) -> None:
    cluster.applications = []
    result = cluster.run("messages", "orders")
    assert (result.exit_code, cluster.made) == (2, [])
    assert "no run is there to take the image from: give it by --image, or trigger a run" in result.stderr
    cluster.said("messages", "orders", "--image", "spark:9")


def test_ctrl_c_deletes_the_pod(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Generator[str]:
        yield 'message {"messageId": "m1"}'
        raise KeyboardInterrupt

    monkeypatch.setattr(Kubectl, "lines", interrupted)
    assert cluster.run("messages", "orders").exit_code == 130
    assert len(cluster.deleted) == 1


def test_a_pods_command_gets_nothing_of_how_the_cluster_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (line,) = Kubectl("payments", options=("--as=a",)).lines("exec", "pod", "--", "python3", stdin="question\n")
    assert line == "--namespace=payments --as=a exec pod -- python3"


def test_a_log_that_is_no_text_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\nprintf 'caf\\351'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert Kubectl().run("logs", "pod") == "caf\ufffd"
