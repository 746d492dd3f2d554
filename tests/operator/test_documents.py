"""The pages' commands for a cluster, word for word, in the order of a reader, on an API server of their own.

No controller, operator or Argo CD runs there: the test writes what these would write.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from messagestore_operator.kube.objects import MANAGED_BY, MANAGER
from support.apiserver import running_apiserver
from support.argocd import health
from support.background import repeated
from support.definitions import DEFINITIONS
from support.documents import RUN_ON_API_SERVER
from support.reader import DEPLOYMENTS, MERGE, OURS, READY, Reader, report
from support.waiting import wait_until

SECRET = "/api/v1/namespaces/messaging/secrets/lake-access"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OPERATOR = "store-message-store-operator"
BY_OPERATOR = {MANAGED_BY: MANAGER}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with running_apiserver() as server:
        observer = server.another()
        with repeated(lambda: report(observer), 0.2):
            yield Reader(server, tmp_path)


@pytest.mark.long
def test_the_commands_of_the_pages_do_what_the_pages_say(reader: Reader) -> None:
    steps = (
        _install_the_chart,
        _label_a_secret,
        _wait_for_resources,
        _list_what_waits_for_approval,
        _look_what_is_wrong,
        _teach_argo_cd,
        _pause_a_namespace,
        _authenticate_who_reads_metrics,
        _serve_two_namespaces,
        _uninstall_and_remove_everything,
    )
    for step in steps:
        step(reader)
    assert tuple(reader.followed) == RUN_ON_API_SERVER


def _install_the_chart(reader: Reader) -> None:
    printed = reader.follow("docs/install.md", "Install the chart")
    assert f'deployment "{OPERATOR}" successfully rolled out' in printed
    assert printed.splitlines()[-1].split()[:2] == ["orders", "True"]
    assert _image(reader) == "registry.example.org/messagestore/operator"
    secret = reader.read(SECRET)
    assert secret["data"].keys() == {"accessKey", "secretKey"}
    assert secret["metadata"]["labels"] == {"messagestore.dev/use": "storage"}


def _image(reader: Reader) -> str:
    """The operator's image, without its tag."""
    (container,) = reader.read(f"{DEPLOYMENTS}/{OPERATOR}")["spec"]["template"]["spec"]["containers"]
    return str(container["image"]).rpartition(":")[0]


def _label_a_secret(reader: Reader) -> None:
    unlabelled = {"metadata": {"labels": None}}
    assert "labels" not in reader.server.request("PATCH", SECRET, unlabelled, MERGE).body["metadata"]
    reader.follow("docs/security.md", "Secrets")
    assert reader.read(SECRET)["metadata"]["labels"] == {"messagestore.dev/use": "storage"}


def _wait_for_resources(reader: Reader) -> None:
    spec = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://lake/replayed"}}}
    reader.create("messagestore.dev/v1alpha1", "ReplayJob", "orders-again", "messaging", spec=spec)
    assert [line.split() for line in reader.follow("docs/gitops.md", "GitOps").splitlines()] == [
        ["messagestream.messagestore.dev/orders", "condition", "met"],
        ["replayjob.messagestore.dev/orders-again", "condition", "met"],
        ["NAME", "WHY"],
        ["orders", "Ingesting"],
    ]


def _list_what_waits_for_approval(reader: Reader) -> None:
    spec = {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P90D"}],
        "mode": "Enforce",
        "approval": "Required",
    }
    for name, phase in (("old-orders", "AwaitingApproval"), ("idle", "Idle")):
        reader.create("messagestore.dev/v1alpha1", "RetentionPolicy", name, "messaging", spec=spec)
        place = f"{OURS}/retentionpolicies/{name}/status"
        assert reader.server.request("PATCH", place, {"status": {"phase": phase}}, MERGE).accepted
    header, *lines = reader.follow("docs/retention.md", "Approval").splitlines()
    assert header.split()[:4] == ["NAMESPACE", "NAME", "READY", "PHASE"]
    assert [line.split()[:3] for line in lines] == [["messaging", "old-orders", "AwaitingApproval"]]


def _look_what_is_wrong(reader: Reader) -> None:
    """The runbooks of the alerts, by the statuses that the operator writes then."""
    failed = {"reason": "StorageDenied", "message": "the keys are wrong"}
    run = {"name": "orders-ingest-7", "state": "Failed", "error": failed}
    table = {"deadLettersByReason": [{"reason": "Unparseable", "count": 3}]}
    _report(reader, "messagestreams/orders", lastRun=run, lag={"summary": "3 files"}, loss={"start": 7}, table=table)
    held = {"name": "orders", "awaitingApproval": True, "preview": {"id": "p-1", "messages": 12}, "lastRun": run}
    _report(reader, "retentionpolicies/old-orders", streams=[held])
    _report(reader, "replayjobs/orders-again", error=failed, progress={"failed": 1, "firstFailedPositions": [4]})
    lease = {"holderIdentity": "messaging/orders-ingest-7"}
    reader.create("coordination.k8s.io/v1", "Lease", "messagestore-1", "messagestore", BY_OPERATOR, spec=lease)

    def told(alert: str) -> str:
        return reader.follow("docs/runbooks.md", f"MessageStore{alert}")

    assert told("StreamStalled") == f"{READY['message']}messagestream.messagestore.dev/orders annotated\n"
    assert told("NoSuccessfulRun") == "orders-ingest-7: the keys are wrong"
    assert told("LagGrowing") == "3 files, Failed "
    assert told("RecordsLost") == '{"start":7}'
    assert told("DeadLetterSpike") == '[{"count":3,"reason":"Unparseable"}]'
    assert told("PurgeFailed") == "orders: the keys are wrong\n"
    assert told("ApprovalWaiting").startswith("p-1: 12 messages\n")
    assert told("ReplayFailing") == "StorageDenied: the keys are wrong"
    assert told("IntegrityBroken") == "[4]"
    assert "messaging/orders-ingest-7" in told("TableLeaseStuck")
    assert "lease.coordination.k8s.io/messagestore-1" in told("OperatorHasNoLeader")
    annotations = reader.read(f"{OURS}/retentionpolicies/old-orders")["metadata"]["annotations"]
    assert annotations["messagestore.dev/approved-preview"] == "p-1"


def _report(reader: Reader, what: str, **status: Any) -> None:
    assert reader.server.request("PATCH", f"{OURS}/{what}/status", {"status": status}, MERGE).accepted


def _teach_argo_cd(reader: Reader) -> None:
    reader.create("v1", "Namespace", "argocd")
    reader.create("v1", "ConfigMap", "argocd-cm", "argocd", data={"url": "https://argocd.example.org"})
    _install_argo_applications(reader)
    reader.follow("docs/gitops.md", "Argo CD")
    settings = reader.read("/api/v1/namespaces/argocd/configmaps/argocd-cm")["data"]
    script = settings["resource.customizations.health.messagestore.dev_MessageStream"]
    assert health(script, reader.read(f"{OURS}/messagestreams/orders")) == ("Healthy", READY["message"])
    assert settings["url"] == "https://argocd.example.org"
    assert reader.names("/apis/argoproj.io/v1alpha1/namespaces/argocd/applications") == {"message-stores"}


def _install_argo_applications(reader: Reader) -> None:
    """Argo CD's own kind, without its schema."""
    reader.create(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "applications.argoproj.io",
        spec={
            "group": "argoproj.io",
            "scope": "Namespaced",
            "names": {"kind": "Application", "plural": "applications"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    )
    applications = "/apis/argoproj.io/v1alpha1/applications"
    wait_until(lambda: reader.server.request("GET", applications).accepted, 30, lambda: "the kind is served")


def _pause_a_namespace(reader: Reader) -> None:
    reader.create("v1", "Namespace", "billing")
    reader.follow("docs/operator.md", "Pauses and windows")
    assert reader.read("/api/v1/namespaces/billing")["metadata"]["annotations"] == {"messagestore.dev/paused": "true"}


def _authenticate_who_reads_metrics(reader: Reader) -> None:
    def prometheus_may() -> bool:
        asked = {"user": "system:serviceaccount:monitoring:prometheus"}
        review = {"spec": {**asked, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}}
        answer = reader.server.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer.body["status"]["allowed"])

    assert not prometheus_may()
    reader.follow("docs/security.md", "Metrics")
    wait_until(prometheus_may, 30, lambda: "Prometheus may get /metrics")
    assert "metrics-certificate" in _mounted_secrets(reader)


def _mounted_secrets(reader: Reader) -> set[str]:
    volumes = reader.read(f"{DEPLOYMENTS}/{OPERATOR}")["spec"]["template"]["spec"]["volumes"]
    return {one["secret"]["secretName"] for one in volumes if "secret" in one}


def _serve_two_namespaces(reader: Reader) -> None:
    reader.create("v1", "Namespace", "shipping")
    _let_the_operator_create_what_drivers_need(reader, "message-store-driver")
    assert OPERATOR in reader.names(f"{RBAC}/clusterroles")
    reader.follow("docs/install.md", "Serve chosen namespaces")
    for namespace in ("billing", "shipping"):
        assert OPERATOR in reader.names(f"{RBAC}/namespaces/{namespace}/roles")
        assert reader.names(f"/api/v1/namespaces/{namespace}/serviceaccounts") == {"message-store-driver"}
    assert OPERATOR not in reader.names(f"{RBAC}/clusterroles")
    assert _image(reader) == "registry.example.org/messagestore/operator"


def _let_the_operator_create_what_drivers_need(reader: Reader, account: str) -> None:
    """Objects in namespace billing, with the operator's names and label."""
    group, role = "rbac.authorization.k8s.io", f"{account}-reports"
    reference = {"apiGroup": group, "kind": "Role", "name": role}
    reader.create("v1", "ServiceAccount", account, "billing", BY_OPERATOR)
    reader.create(f"{group}/v1", "Role", role, "billing", BY_OPERATOR)
    reader.create(f"{group}/v1", "RoleBinding", role, "billing", BY_OPERATOR, roleRef=reference)


def _uninstall_and_remove_everything(reader: Reader) -> None:
    reader.create("v1", "ServiceAccount", "of-somebody-else", "billing")
    _let_the_operator_create_what_drivers_need(reader, "earlier-driver")
    reader.follow("docs/install.md", "Remove everything")
    assert reader.names(DEPLOYMENTS) == set()
    assert reader.names(DEFINITIONS) == {"applications.argoproj.io"}
    assert reader.names("/api/v1/namespaces/billing/serviceaccounts") == {"of-somebody-else"}
    assert reader.names(f"{RBAC}/namespaces/billing/roles") == set()
    assert reader.names(f"{RBAC}/namespaces/billing/rolebindings") == set()
